//! The files in which a certificate and its key lie.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{NotUsable, Pem};

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(10);
/// The largest file that is read, in bytes: a chain of certificates has a few thousand.
const FILE_MAX: u64 = 1024 * 1024;

/// Where a certificate and its key lie.
#[derive(Debug, Clone)]
pub struct Files {
    certificate: Utf8PathBuf,
    key: Utf8PathBuf,
}

/// By what a change of the files is seen.
type Stamp = [Option<(i64, i64, u64, u64)>; 2];

impl Files {
    /// The files that the settings name; none where neither does.
    ///
    /// # Errors
    ///
    /// Refuses one without the other.
    pub fn new(
        certificate: Option<&Utf8Path>,
        key: Option<&Utf8Path>,
    ) -> Result<Option<Self>, NotUsable> {
        let certificate = certificate.filter(|path| !path.as_str().is_empty());
        let key = key.filter(|path| !path.as_str().is_empty());
        let half = |set, missing| Err(NotUsable::Half { set, missing });
        match (certificate, key) {
            (None, None) => Ok(None),
            (Some(_), None) => half("KAZMA_TLS_CERT", "KAZMA_TLS_KEY"),
            (None, Some(_)) => half("KAZMA_TLS_KEY", "KAZMA_TLS_CERT"),
            (Some(certificate), Some(key)) => Ok(Some(Self {
                certificate: certificate.to_owned(),
                key: key.to_owned(),
            })),
        }
    }

    /// Reads them.
    ///
    /// # Errors
    ///
    /// Refuses what cannot be read, or is no certificate with its key.
    pub fn read(&self) -> Result<Pem, NotUsable> {
        let read = |setting, path: &Utf8PathBuf| {
            read(path).map_err(|source| NotUsable::Unreadable {
                setting,
                path: path.clone(),
                source,
            })
        };
        let pem = Pem {
            certificate: read("KAZMA_TLS_CERT", &self.certificate)?,
            key: read("KAZMA_TLS_KEY", &self.key)?.into(),
        };
        pem.check()?;
        Ok(pem)
    }

    /// Warns where others than the key's owner and group may read it.
    pub fn warn(&self) {
        let open = fs::metadata(&self.key).is_ok_and(|key| key.permissions().mode() & 0o007 != 0);
        if open {
            let key = self.key.as_str();
            tracing::warn!(
                key,
                "every user of this machine can read the key that KAZMA_TLS_KEY names; chmod 600 it"
            );
        }
    }

    /// The folders in which they lie, by their names and in truth: a renewed file lies there too.
    pub fn folders(&self) -> Vec<Utf8PathBuf> {
        let mut folders = Vec::new();
        for path in [&self.certificate, &self.key] {
            let real = path.canonicalize_utf8().ok();
            let both = [Some(path.clone()), real];
            folders.extend(
                both.iter()
                    .flatten()
                    .filter_map(|path| Some(path.parent()?.to_owned())),
            );
        }
        folders.retain(|folder| !folder.as_str().is_empty());
        folders.sort();
        folders.dedup();
        folders
    }

    /// Looks at the files until `stop`, and tells `shown` what they hold once that is another pair. One that is
    /// half written, or cannot be used, changes nothing.
    pub async fn follow(self, shown: &watch::Sender<Pem>, stop: CancellationToken) {
        let mut seen = None;
        let mut warned = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            let files = self.clone();
            let looked = tokio::task::spawn_blocking(move || (files.stamp(), files.read())).await;
            let Ok((stamp, read)) = looked else { continue };
            if seen == Some(stamp) {
                continue;
            }
            match read {
                Ok(pem) => {
                    seen = Some(stamp);
                    shown.send_if_modified(|now| {
                        let other = *now != pem;
                        *now = pem;
                        other
                    });
                }
                Err(error) if warned != Some(stamp) => {
                    warned = Some(stamp);
                    let why = error.to_string();
                    tracing::warn!(
                        why,
                        "the renewed certificate cannot be used; the one before goes on"
                    );
                }
                Err(_) => {}
            }
        }
    }

    fn stamp(&self) -> Stamp {
        [&self.certificate, &self.key].map(|path| {
            let file = fs::metadata(path).ok()?;
            Some((file.mtime(), file.mtime_nsec(), file.size(), file.ino()))
        })
    }
}

fn read(path: &Utf8Path) -> io::Result<String> {
    use io::Read as _;
    let mut text = String::new();
    fs::File::open(path)?
        .take(FILE_MAX)
        .read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests;

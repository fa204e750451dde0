//! The data folder, which every command needs.

use std::{fs, io};

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use kazma_domain::Entropy;

use crate::files::{random_text, write_private};

/// The data folder, as commands are told of it.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// The data folder [default: /var/lib/kazma as root, else ~/.local/share/kazma]
    #[arg(long, env = "KAZMA_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<Utf8PathBuf>,
}

impl Place {
    /// Where it is.
    pub fn path(&self) -> Utf8PathBuf {
        self.data_dir.clone().unwrap_or_else(default_data_dir)
    }

    /// Where the operator's API token lies in the data folder `data`.
    pub fn token_file(data: &Utf8Path) -> Utf8PathBuf {
        data.join("token")
    }

    /// Where it is written which services run and where the gateway listens.
    pub fn services_file(data: &Utf8Path) -> Utf8PathBuf {
        data.join("run/services.json")
    }

    /// The operator's API token: kept from the first start on, readable by its owner alone.
    ///
    /// # Errors
    ///
    /// Says what the operating system says.
    pub fn token(data: &Utf8Path, entropy: &dyn Entropy) -> io::Result<String> {
        let path = Self::token_file(data);
        match fs::read_to_string(&path) {
            Ok(token) if !token.trim().is_empty() => return Ok(token.trim().to_owned()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let token = format!("kazma_{}", random_text(entropy));
        write_private(&path, &token)?;
        Ok(token)
    }
}

/// Where the data is unless set otherwise.
#[expect(
    clippy::disallowed_methods,
    reason = "the home folder is known from the environment alone"
)]
pub fn default_data_dir() -> Utf8PathBuf {
    if rustix::process::geteuid().is_root() {
        return "/var/lib/kazma".into();
    }
    let share = std::env::var("XDG_DATA_HOME")
        .ok()
        .filter(|path| path.starts_with('/'));
    match (share, std::env::var("HOME").ok()) {
        (Some(share), _) => Utf8PathBuf::from(share).join("kazma"),
        (None, Some(home)) => Utf8PathBuf::from(home).join(".local/share/kazma"),
        (None, None) => "/var/lib/kazma".into(),
    }
}

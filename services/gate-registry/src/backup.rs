//! When the last backup was made, as whoever makes backups says.

use std::time::UNIX_EPOCH;

use camino::Utf8PathBuf;
use kazma_metrics::{Gauges, Meters};

/// The file in the registry's folder that is touched once a copy is known to be good.
pub(crate) const STAMP: &str = "last-backup";

/// Shows when `stamp` was touched whenever somebody looks at `meters`; nothing before the first time.
pub(crate) fn show(shown: Gauges<0>, stamp: Utf8PathBuf, meters: &Meters) {
    meters.before_scrape(move || {
        let (shown, stamp) = (shown.clone(), stamp.clone());
        Box::pin(async move {
            let touched = tokio::fs::metadata(&stamp)
                .await
                .and_then(|file| file.modified());
            let since = touched
                .ok()
                .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            match since {
                Some(since) => shown.set([], since.as_secs_f64().floor()),
                None => shown.clear(),
            }
        })
    });
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;
    use crate::Metrics;

    #[tokio::test]
    async fn a_backup_shows_from_its_first_stamp_on() {
        let folder = tempfile::tempdir().unwrap();
        let stamp = Utf8PathBuf::try_from(folder.path().join(STAMP)).unwrap();
        let meters = Meters::default();
        let metrics = Metrics::new(&meters).unwrap();
        show(metrics.backup(), stamp.clone(), &meters);
        let name = "kazma_backup_last_success_timestamp_seconds ";
        let line = |text: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::to_owned)
        };
        assert_eq!(line(&meters.text().await), None);
        let file = fs::File::create(&stamp).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_hours(500_000))
            .unwrap();
        assert_eq!(line(&meters.text().await).as_deref(), Some("1800000000"));
        fs::remove_file(&stamp).unwrap();
        assert_eq!(line(&meters.text().await), None);
    }
}

//! What the init says to the broker: one line per report, on a socket that only the two hold.

use std::fmt;

/// Which orders the init understands. An image is older or newer than the broker when somebody forgot to make it anew.
const SPOKEN: &str = "3";

/// One report of the init.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// Everything is locked down and Python was started.
    Locked,
    /// Which folder a container was started in, by its device and inode.
    Stands {
        /// The device's number.
        device: u64,
        /// The inode's number.
        inode: u64,
    },
    /// The jail could not be locked down, or broke.
    Failed(String),
    /// The sandbox holds, and what was asked for could not be started in it.
    NotStarted(String),
    /// The snippet's process exited, and nothing else is left in the jail.
    Exited(i32),
    /// The snippet's process was ended by a signal, and nothing else is left in the jail.
    Signalled(i32),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked => write!(f, "locked {SPOKEN}"),
            Self::Stands { device, inode } => write!(f, "stands {device} {inode}"),
            Self::Failed(reason) => write!(f, "failed {}", reason.replace('\n', " ")),
            Self::NotStarted(reason) => write!(f, "unstarted {}", reason.replace('\n', " ")),
            Self::Exited(code) => write!(f, "exited {code}"),
            Self::Signalled(signal) => write!(f, "signalled {signal}"),
        }
    }
}

impl Report {
    /// Reads one line, without its line feed.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "locked" if rest == SPOKEN => Some(Self::Locked),
            // Of an image that another version of Kazma made.
            "locked" => Some(Self::Failed(format!(
                "its sandbox-init speaks version {rest:?} and not {SPOKEN}; scripts/images makes the image anew"
            ))),
            "stands" => {
                let (device, inode) = rest.split_once(' ')?;
                Some(Self::Stands {
                    device: device.parse().ok()?,
                    inode: inode.parse().ok()?,
                })
            }
            "failed" => Some(Self::Failed(rest.to_owned())),
            "unstarted" => Some(Self::NotStarted(rest.to_owned())),
            "exited" => rest.parse().ok().map(Self::Exited),
            "signalled" => rest.parse().ok().map(Self::Signalled),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_survives_the_line() {
        for report in [
            Report::Locked,
            Report::Stands {
                device: 2049,
                inode: 7,
            },
            Report::Failed("no /tmp".to_owned()),
            Report::NotStarted("no such program".to_owned()),
            Report::Exited(3),
            Report::Signalled(9),
        ] {
            assert_eq!(Report::parse(&report.to_string()), Some(report));
        }
        assert_eq!(Report::parse("exited three"), None);
        assert!(matches!(Report::parse("locked"), Some(Report::Failed(_))));
    }
}

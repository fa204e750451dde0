//! What the init is told to run: one byte for the kind, then Python source or a [`Start`] as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

const PYTHON: u8 = b'P';
const COMMAND: u8 = b'C';

/// What one sandbox runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Python source, for the interpreter that waits.
    Python(Vec<u8>),
    /// A program in its place.
    Command(Start),
}

/// A program to start. No shell reads any of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The program's absolute path, then its arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// The folder to start in, from the workspace; empty for the workspace itself.
    pub cwd: String,
    /// What must be found at which path from the workspace before anything is started.
    pub places: Vec<Place>,
}

/// A file or folder that was looked at before it was mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// From the workspace; empty for the workspace itself.
    pub path: String,
    /// The device's number.
    pub device: u64,
    /// The inode's number.
    pub inode: u64,
}

impl Task {
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let (kind, content) = match self {
            Self::Python(code) => (PYTHON, code.clone()),
            Self::Command(start) => (COMMAND, serde_json::to_vec(start)?),
        };
        let mut bytes = vec![kind];
        bytes.extend(content);
        Ok(bytes)
    }

    /// What the broker wrote; none where it is something else.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (&PYTHON, code) => Some(Self::Python(code.to_vec())),
            (&COMMAND, start) => serde_json::from_slice(start).ok().map(Self::Command),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_survives_and_nothing_else_is_one() {
        let start = Start {
            argv: vec!["/usr/bin/ls".to_owned(), "a b\n".to_owned()],
            env: BTreeMap::from([("LANG".to_owned(), "C.UTF-8".to_owned())]),
            cwd: "a".to_owned(),
            places: vec![Place {
                path: String::new(),
                device: 1,
                inode: u64::MAX,
            }],
        };
        for task in [Task::Python(b"print(1)".to_vec()), Task::Command(start)] {
            assert_eq!(Task::parse(&task.to_bytes().unwrap()), Some(task));
        }
        for wrong in [&b""[..], b"print(1)", b"C{}", b"C{\"argv\":[]}"] {
            assert_eq!(Task::parse(wrong), None);
        }
    }
}

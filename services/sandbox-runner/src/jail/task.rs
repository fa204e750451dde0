//! What the init is told to run: one byte for the kind, then Python source, a [`Start`] as JSON, or a program of ours with
//! what it reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

const PYTHON: u8 = b'P';
const COMMAND: u8 = b'C';
const FIXED: u8 = b'F';

/// What one sandbox runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Python source, for the interpreter that waits.
    Python(Vec<u8>),
    /// A program in its place.
    Command(Start),
    /// Python source of this build, for the interpreter that waits, and what it finds on its standard input. What a
    /// caller says is in the input alone.
    Fixed {
        /// The program.
        code: Vec<u8>,
        /// All that it can read from its standard input.
        input: Vec<u8>,
    },
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
            Self::Fixed { code, input } => {
                let mut content = length(code).to_be_bytes().to_vec();
                content.extend_from_slice(code);
                content.extend_from_slice(input);
                (FIXED, content)
            }
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
            (&FIXED, content) => {
                let (length, rest) = content.split_first_chunk()?;
                let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
                let (code, input) = rest.split_at_checked(length)?;
                Some(Self::Fixed {
                    code: code.to_vec(),
                    input: input.to_vec(),
                })
            }
            _ => None,
        }
    }
}

impl Task {
    /// What the Python that waits is given: the code with its length before it, then what the code may read. None for a
    /// program in its place.
    pub(super) fn for_python(&self) -> Option<Vec<u8>> {
        let (code, input): (_, &[u8]) = match self {
            Self::Python(code) => (code, &[]),
            Self::Fixed { code, input } => (code, input),
            Self::Command(_) => return None,
        };
        let mut framed = length(code).to_be_bytes().to_vec();
        framed.extend_from_slice(code);
        framed.extend_from_slice(input);
        Some(framed)
    }
}

fn length(code: &[u8]) -> u32 {
    u32::try_from(code.len()).unwrap_or_default()
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
        let fixed = Task::Fixed {
            code: b"print(1)".to_vec(),
            input: b"{}".to_vec(),
        };
        assert_eq!(
            fixed.for_python().as_deref(),
            Some(&b"\0\0\0\x08print(1){}"[..])
        );
        for task in [
            Task::Python(b"print(1)".to_vec()),
            Task::Command(start),
            fixed,
        ] {
            assert_eq!(Task::parse(&task.to_bytes().unwrap()), Some(task));
        }
        for wrong in [
            &b""[..],
            b"print(1)",
            b"C{}",
            b"C{\"argv\":[]}",
            b"F",
            b"F\0\0\0\x02a",
        ] {
            assert_eq!(Task::parse(wrong), None);
        }
    }
}

//! Reading a part of a text file.

use std::{
    fmt::Write as _,
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
};

use kazma_domain::plan::Window;

use super::{Refused, RelPath, Workspace, regular};
use crate::executor::Redeemed;

/// A file of more bytes than this is not searched for lines; its bytes can still be read.
const LINE_SEARCH_BYTES: u64 = 64 * 1024 * 1024;
/// The most bytes that UTF-8 takes for one character.
const CHAR_BYTES: u64 = 4;

/// A file, open, and the part of it that would be read.
#[derive(Debug)]
pub(crate) struct PlannedRead {
    file: File,
    size: u64,
    window: Window,
    chars: usize,
}

/// What a reading tool returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Returned {
    /// The text, with a mark where it was cut.
    pub(crate) text: String,
    /// Whether it was cut at the cap.
    pub(crate) truncated: bool,
    /// How many bytes there are in all.
    pub(crate) total_bytes: u64,
    /// What was returned, in words.
    pub(crate) summary: String,
}

impl Workspace {
    /// Opens what would be read. Nothing of its content is looked at.
    pub(crate) fn plan_read(&self, path: &RelPath, window: Window) -> Result<PlannedRead, Refused> {
        let (file, stat) = regular(&self.root, path.for_open())?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if matches!(window, Window::Lines { .. }) && size > LINE_SEARCH_BYTES {
            return Err(Refused::new(
                "file-too-big",
                "The file is larger than 64 MiB, too large to count lines in. Read it by offset and limit.",
            ));
        }
        Ok(PlannedRead {
            file,
            size,
            window,
            chars: self.bounds.read_chars,
        })
    }
}

impl PlannedRead {
    /// Reads. The permit is spent for it.
    pub(crate) fn read(self, _: &Redeemed) -> Result<Returned, String> {
        match self.window {
            Window::Bytes { offset, limit } => self.bytes(offset, limit),
            Window::Lines { first, last } => self.lines(first, last),
        }
    }

    fn bytes(mut self, offset: u64, limit: u64) -> Result<Returned, String> {
        if offset > self.size {
            return Err(format!(
                "offset {offset} lies behind the end of the file ({} bytes)",
                self.size
            ));
        }
        let most = limit.min(self.chars as u64 * CHAR_BYTES);
        self.file
            .seek(SeekFrom::Start(offset))
            .map_err(|e| unreadable(&e))?;
        let mut bytes = Vec::new();
        self.file
            .by_ref()
            .take(most)
            .read_to_end(&mut bytes)
            .map_err(|e| unreadable(&e))?;
        // A window of bytes may begin or end inside a character: those bytes are left out, not replaced.
        let skipped = if offset == 0 {
            0
        } else {
            bytes
                .iter()
                .take(3)
                .take_while(|b| **b & 0xc0 == 0x80)
                .count()
        };
        let inner = bytes.get(skipped..).unwrap_or_default();
        let read_to = offset + bytes.len() as u64;
        let text = utf8(inner, read_to < self.size)?;
        let (shown, cut) = cut_at(text, self.chars);
        let from = offset + skipped as u64;
        let to = from + shown.len() as u64;
        let truncated = cut || (limit > most && read_to < self.size);
        Ok(self.finish(
            shown,
            truncated,
            format!("bytes {from} to {to} of {}", self.size),
            &format!("offset={to}"),
        ))
    }

    fn lines(self, first: u64, last: u64) -> Result<Returned, String> {
        let most = self.chars as u64 * CHAR_BYTES;
        let mut reader = BufReader::new((&self.file).take(LINE_SEARCH_BYTES));
        let mut number = 0;
        while number + 1 < first {
            if reader.skip_until(b'\n').map_err(|e| unreadable(&e))? == 0 {
                return Err(format!(
                    "the file has {number} lines, so none is line {first}"
                ));
            }
            number += 1;
        }
        let mut bytes = Vec::new();
        let mut full = false;
        while number < last && !full {
            let room = most.saturating_sub(bytes.len() as u64);
            let got = (&mut reader)
                .take(room)
                .read_until(b'\n', &mut bytes)
                .map_err(|e| unreadable(&e))?;
            full = got as u64 == room;
            if got == 0 {
                break;
            }
            number += 1;
        }
        let text = utf8(&bytes, full)?;
        let (shown, cut) = cut_at(text, self.chars);
        let to = first + (shown.lines().count() as u64).saturating_sub(1);
        let summary = if shown.is_empty() {
            format!("no lines from {first} on, in {} bytes", self.size)
        } else {
            format!("lines {first} to {to}, in {} bytes", self.size)
        };
        Ok(self.finish(shown, cut || full, summary, &format!("start_line={to}")))
    }

    fn finish(&self, shown: &str, truncated: bool, summary: String, go_on: &str) -> Returned {
        let mut text = shown.to_owned();
        if truncated {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            let _ = write!(
                text,
                "{end}[cut here: {} characters shown, the file has {} bytes; read on with {go_on}]",
                shown.chars().count(),
                self.size
            );
        }
        Returned {
            text,
            truncated,
            total_bytes: self.size,
            summary,
        }
    }
}

fn unreadable(error: &std::io::Error) -> String {
    format!("the file does not read: {error}")
}

/// The bytes as text. A character that the end of the window cuts in two is left out.
fn utf8(bytes: &[u8], more_follows: bool) -> Result<&str, String> {
    let binary =
        || "this is no UTF-8 text but a binary file, which file_read does not return".to_owned();
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && more_follows => bytes
            .get(..error.valid_up_to())
            .and_then(|valid| std::str::from_utf8(valid).ok())
            .unwrap_or_default(),
        Err(_) => return Err(binary()),
    };
    if text.contains('\0') {
        Err(binary())
    } else {
        Ok(text)
    }
}

/// The first `chars` characters, and whether that is less than all.
pub(super) fn cut_at(text: &str, chars: usize) -> (&str, bool) {
    match text.char_indices().nth(chars) {
        Some((end, _)) => (text.get(..end).unwrap_or_default(), true),
        None => (text, false),
    }
}

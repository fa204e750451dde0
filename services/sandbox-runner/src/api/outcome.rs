//! What a run of code comes to: the text for the model, and how it ended in a few words.

use std::{fmt::Write as _, time::Duration};

use kazma_domain::Outcome;
use kazma_wire::executor::Output;

use super::code::{Ended, How, Stream};

/// Collects what a run prints, up to a cap for each stream.
#[derive(Debug)]
pub(crate) struct Printed {
    cap: usize,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Printed {
    /// Collects for a result of at most `cap` bytes.
    pub(crate) const fn new(cap: usize) -> Self {
        Self {
            cap,
            stdout: Vec::new(),
            stderr: Vec::new(),
        }
    }

    /// Takes what was printed, as far as there is room.
    pub(crate) fn take(&mut self, stream: Stream, bytes: &[u8]) {
        let kept = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let room = self.cap.saturating_sub(kept.len());
        kept.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
    }

    /// The result: standard output, then standard error, apart where both are there.
    pub(crate) fn output(self, ended: &Ended) -> Output {
        let (out_room, err_room) = rooms(self.cap, self.stdout.len(), self.stderr.len());
        let out = part(&self.stdout, out_room, ended.stdout_bytes);
        let err = part(&self.stderr, err_room, ended.stderr_bytes);
        let text = match (out.text.is_empty(), err.text.is_empty()) {
            (_, true) => out.text,
            (true, false) => err.text,
            (false, false) => {
                let end = if out.text.ends_with('\n') { "" } else { "\n" };
                format!("[stdout]\n{}{end}[stderr]\n{}", out.text, err.text)
            }
        };
        Output {
            text,
            truncated: out.cut || err.cut,
            total_bytes: out.total + err.total,
            note: note(ended),
            origin: String::new(),
        }
    }
}

/// What the run used, and what else is known, in words.
fn note(ended: &Ended) -> String {
    match (&ended.how, &ended.remark) {
        (How::NotStarted { .. }, _) => String::new(),
        (_, None) => format!("ran {}", seconds(ended.ran)),
        (_, Some(remark)) => format!("ran {}; {remark}", seconds(ended.ran)),
    }
}

/// Splits `cap` between the two: each gets half, and what one does not need the other may have.
fn rooms(cap: usize, out: usize, err: usize) -> (usize, usize) {
    let half = cap / 2;
    let err_room = err.min(half.max(cap.saturating_sub(out)));
    (cap.saturating_sub(err_room), err_room)
}

struct Part {
    text: String,
    cut: bool,
    total: u64,
}

fn part(kept: &[u8], room: usize, total: u64) -> Part {
    let shown = kept.get(..room.min(kept.len())).unwrap_or_default();
    let total = total.max(kept.len() as u64);
    let cut = total > shown.len() as u64;
    // A character that the cut splits is left out, so that no replacement mark ends the text.
    let shown = match std::str::from_utf8(shown) {
        Err(error) if cut && error.error_len().is_none() => {
            shown.get(..error.valid_up_to()).unwrap_or_default()
        }
        _ => shown,
    };
    let mut text = String::from_utf8_lossy(shown).into_owned();
    if cut {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        let _ = writeln!(
            text,
            "{end}[cut here: {} of {total} bytes shown]",
            shown.len()
        );
    }
    Part { text, cut, total }
}

/// How a run ended in a few words; `ok` for exit 0 alone. None where nobody knows.
pub(crate) fn outcome(ended: &Ended, timeout: Duration) -> Option<Outcome> {
    let summary = match &ended.how {
        How::Exit { code } => format!("exit {code} after {}", seconds(ended.ran)),
        How::Signal { signal } => format!("killed by signal {signal} after {}", seconds(ended.ran)),
        How::TimeLimit => format!("time limit of {} reached", seconds(timeout)),
        How::OutOfMemory { limit_mib } => format!("out of memory ({limit_mib} MiB)"),
        How::Cancelled => format!("cancelled after {}", seconds(ended.ran)),
        How::NotStarted { why } => format!("not started: {why}"),
        How::Broken { why } => format!("the sandbox broke after {}: {why}", seconds(ended.ran)),
        How::Unknown { .. } => return None,
    };
    let ok = matches!(ended.how, How::Exit { code: 0 });
    let summary = match &ended.remark {
        Some(remark) if !ok => format!("{summary} ({remark})"),
        _ => summary,
    };
    Some(Outcome { ok, summary })
}

/// A length of time for people: `30 s`, `0.04 s`, `0.003 s`, `12.5 s`.
pub(crate) fn seconds(length: Duration) -> String {
    if length.subsec_nanos() == 0 && length.as_secs() > 0 {
        return format!("{} s", length.as_secs());
    }
    let places = match length.as_millis() {
        0..10 => 3,
        10..10_000 => 2,
        _ => 1,
    };
    format!("{:.places$} s", length.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(how: How, out: u64, err: u64) -> Ended {
        Ended {
            how,
            ran: Duration::from_millis(41),
            stdout_bytes: out,
            stderr_bytes: err,
            remark: None,
        }
    }

    fn printed(cap: usize, out: &[u8], err: &[u8]) -> Output {
        let mut printed = Printed::new(cap);
        printed.take(Stream::Stdout, out);
        printed.take(Stream::Stderr, err);
        printed.output(&ended(
            How::Exit { code: 0 },
            out.len() as u64,
            err.len() as u64,
        ))
    }

    #[test]
    fn every_end_has_its_own_words_and_only_exit_0_is_well() {
        for (how, ok, words) in [
            (How::Exit { code: 0 }, true, "exit 0 after 0.04 s"),
            (How::Exit { code: 3 }, false, "exit 3 after 0.04 s"),
            (
                How::Signal { signal: 9 },
                false,
                "killed by signal 9 after 0.04 s",
            ),
            (How::TimeLimit, false, "time limit of 30 s reached"),
            (
                How::OutOfMemory { limit_mib: 512 },
                false,
                "out of memory (512 MiB)",
            ),
            (
                How::NotStarted {
                    why: "no sandbox is free".into(),
                },
                false,
                "not started: no sandbox is free",
            ),
            (
                How::Broken {
                    why: "killed from outside".into(),
                },
                false,
                "the sandbox broke after 0.04 s: killed from outside",
            ),
            (How::Cancelled, false, "cancelled after 0.04 s"),
        ] {
            let outcome = outcome(&ended(how, 0, 0), Duration::from_secs(30)).unwrap();
            assert_eq!((outcome.ok, outcome.summary.as_str()), (ok, words));
        }
        let unknown = How::Unknown {
            what: String::new(),
        };
        assert_eq!(
            outcome(&ended(unknown, 0, 0), Duration::from_secs(30)),
            None
        );
    }

    #[test]
    fn lengths_of_time_are_short_and_never_nothing() {
        for (ms, words) in [
            (3, "0.003 s"),
            (41, "0.04 s"),
            (1_500, "1.50 s"),
            (30_000, "30 s"),
            (12_540, "12.5 s"),
        ] {
            assert_eq!(seconds(Duration::from_millis(ms)), words);
        }
    }

    #[test]
    fn a_remark_explains_an_end_that_is_not_well() {
        let mut end = ended(How::Exit { code: 1 }, 0, 0);
        end.remark = Some("3 processes refused (limit 64)".to_owned());
        let said = outcome(&end, Duration::from_secs(30)).unwrap();
        assert_eq!(
            said.summary,
            "exit 1 after 0.04 s (3 processes refused (limit 64))"
        );
        end.how = How::Exit { code: 0 };
        let said = outcome(&end, Duration::from_secs(30)).unwrap();
        assert_eq!(
            (said.ok, said.summary.as_str()),
            (true, "exit 0 after 0.04 s")
        );
        assert!(
            Printed::new(9)
                .output(&end)
                .note
                .contains("3 processes refused")
        );
    }

    #[test]
    fn streams_are_told_apart_only_where_both_are_there() {
        assert_eq!(printed(100, b"45\n", b"").text, "45\n");
        assert_eq!(printed(100, b"", b"oh\n").text, "oh\n");
        assert_eq!(
            printed(100, b"45", b"oh\n").text,
            "[stdout]\n45\n[stderr]\noh\n"
        );
    }

    #[test]
    fn what_is_cut_says_so_with_totals() {
        let output = printed(10, b"0123456789abc", b"");
        assert_eq!(
            output.text,
            "0123456789\n[cut here: 10 of 13 bytes shown]\n"
        );
        assert!(output.truncated);
        assert_eq!(output.total_bytes, 13);
        // Each stream keeps its half; a short one leaves its room to the other.
        assert!(
            printed(10, b"0123456789abc", b"ABCDEFGHIJ")
                .text
                .contains("01234\n[cut here: 5 of 13")
        );
        assert!(
            printed(10, b"0123456789abc", b"AB")
                .text
                .contains("01234567\n[cut here: 8 of 13")
        );
        assert!(
            printed(10, b"01", b"ABCDEFGHIJKL")
                .text
                .contains("ABCDEFGH\n[cut here: 8 of 12")
        );
        // Nothing ends in half a character.
        assert!(
            printed(4, "abcé!".as_bytes(), b"")
                .text
                .starts_with("abc\n[cut")
        );
        let exact = printed(3, b"abc", b"");
        assert!(!exact.truncated && exact.text == "abc");
    }

    #[test]
    fn the_broker_may_have_thrown_away_more_than_it_sent() {
        let mut printed = Printed::new(100);
        printed.take(Stream::Stdout, b"abc");
        let output = printed.output(&ended(How::Exit { code: 0 }, 1_000_000, 0));
        assert_eq!(output.text, "abc\n[cut here: 3 of 1000000 bytes shown]\n");
    }
}

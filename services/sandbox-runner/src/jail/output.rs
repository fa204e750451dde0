//! What of a run's output is passed on: in chunks, up to a cap, with true totals of all of it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::{sync::mpsc::UnboundedSender, time::Instant};

use super::{Chunk, OutputStream, Totals};

/// Bytes of one chunk.
const CHUNK_MAX: usize = 16 * 1024;
/// The least time between two sendings, so that many small writes make one chunk.
const CHUNK_DELAY: Duration = Duration::from_millis(50);
/// A slice of the cap that standard output cannot take: the traceback behind a flood is kept.
const STDERR_RESERVE: usize = 16 * 1024;
/// Bytes of the end of standard error that are looked at.
const TAIL: usize = 256;
/// The longest that a sleeper sleeps when nothing is due.
const NEVER: Duration = Duration::from_hours(1);

#[derive(Debug, Default)]
struct Pending {
    data: BytesMut,
    due: Option<Instant>,
    /// Before this, output waits.
    rests_until: Option<Instant>,
}

/// Collects, cuts and counts output.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    cap: usize,
    chunks: &'a UnboundedSender<Chunk>,
    stdout: Pending,
    stderr: Pending,
    kept_stdout: usize,
    kept_stderr: usize,
    totals: Totals,
    tail: Vec<u8>,
}

impl<'a> Output<'a> {
    pub(crate) fn new(cap: usize, chunks: &'a UnboundedSender<Chunk>) -> Self {
        Self {
            cap,
            chunks,
            stdout: Pending::default(),
            stderr: Pending::default(),
            kept_stdout: 0,
            kept_stderr: 0,
            totals: Totals::default(),
            tail: Vec::new(),
        }
    }

    /// Takes what was read; what is beyond the cap is counted and dropped.
    pub(crate) fn take(&mut self, stream: OutputStream, data: &[u8]) {
        let count = data.len() as u64;
        let free = self
            .cap
            .saturating_sub(self.kept_stdout.saturating_add(self.kept_stderr));
        let (pending, kept, room) = match stream {
            OutputStream::Stdout => {
                self.totals.stdout_bytes = self.totals.stdout_bytes.saturating_add(count);
                let reserved = STDERR_RESERVE
                    .min(self.cap / 8)
                    .saturating_sub(self.kept_stderr);
                (
                    &mut self.stdout,
                    &mut self.kept_stdout,
                    free.saturating_sub(reserved),
                )
            }
            OutputStream::Stderr => {
                self.totals.stderr_bytes = self.totals.stderr_bytes.saturating_add(count);
                keep_tail(&mut self.tail, data);
                (&mut self.stderr, &mut self.kept_stderr, free)
            }
        };
        let fits = data.get(..room).unwrap_or(data);
        self.totals.truncated |= fits.len() < data.len();
        *kept = kept.saturating_add(fits.len());
        if !fits.is_empty() {
            pending.data.extend_from_slice(fits);
            pending
                .due
                .get_or_insert_with(|| Instant::now() + CHUNK_DELAY);
        }
        self.send(stream, CHUNK_MAX);
    }

    /// When something must be sent.
    pub(crate) fn due(&self) -> Instant {
        let earliest = self.stdout.due.into_iter().chain(self.stderr.due).min();
        earliest.unwrap_or_else(|| Instant::now() + NEVER)
    }

    /// Sends what is pending, but for the beginning of a character.
    pub(crate) fn flush(&mut self) {
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            self.send(stream, 1);
            let pending = self.pending(stream);
            if pending.due.take().is_some() {
                pending.rests_until = Some(Instant::now() + CHUNK_DELAY);
            }
        }
    }

    /// Sends everything and tells the totals.
    pub(crate) fn finish(mut self) -> Totals {
        self.flush();
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            let rest = std::mem::take(&mut self.pending(stream).data).freeze();
            if !rest.is_empty() {
                self.emit(stream, rest);
            }
        }
        self.totals.kept_bytes = self.kept_stdout.saturating_add(self.kept_stderr) as u64;
        self.totals.memory_error_seen = self.last_line().starts_with(b"MemoryError");
        self.totals
    }

    fn last_line(&self) -> &[u8] {
        self.tail
            .trim_ascii_end()
            .rsplit(|b| *b == b'\n')
            .next()
            .unwrap_or_default()
    }

    fn pending(&mut self, stream: OutputStream) -> &mut Pending {
        match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        }
    }

    /// Sends chunks while at least `least` bytes are pending.
    fn send(&mut self, stream: OutputStream, least: usize) {
        loop {
            let pending = self.pending(stream);
            let head = pending.data.get(..CHUNK_MAX).unwrap_or(&pending.data);
            let cut = whole_characters(head);
            if pending.data.len() < least || cut == 0 {
                return;
            }
            let data = pending.data.split_to(cut).freeze();
            self.emit(stream, data);
        }
    }

    fn emit(&self, stream: OutputStream, data: Bytes) {
        // Whoever listened has gone; the run goes on until it is cancelled, and is still counted.
        let _ = self.chunks.send(Chunk { stream, data });
    }
}

fn keep_tail(tail: &mut Vec<u8>, data: &[u8]) {
    tail.extend_from_slice(data.get(data.len().saturating_sub(TAIL)..).unwrap_or(data));
    let excess = tail.len().saturating_sub(TAIL);
    tail.drain(..excess);
}

/// How many of `bytes` do not belong to a UTF-8 character that is cut off at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    for (back, byte) in bytes.iter().rev().take(3).enumerate() {
        let needs = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => 1,
        };
        let has = back + 1;
        return if needs > has {
            bytes.len() - has
        } else {
            bytes.len()
        };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    fn run(cap: usize, writes: &[(OutputStream, &[u8])]) -> (Vec<Chunk>, Totals) {
        let (chunks, mut inbox) = unbounded_channel();
        let mut output = Output::new(cap, &chunks);
        for (stream, data) in writes {
            output.take(*stream, data);
        }
        let totals = output.finish();
        drop(chunks);
        let mut got = Vec::new();
        while let Ok(chunk) = inbox.try_recv() {
            got.push(chunk);
        }
        (got, totals)
    }

    #[test]
    fn a_flood_is_cut_and_counted_and_the_traceback_behind_it_kept() {
        let flood = vec![b'x'; 100_000];
        let (chunks, totals) = run(
            80_000,
            &[
                (OutputStream::Stdout, &flood),
                (OutputStream::Stderr, b"MemoryError\n"),
            ],
        );
        assert_eq!(totals.stdout_bytes, 100_000);
        assert_eq!(totals.kept_bytes, 70_012);
        assert!(totals.truncated && totals.memory_error_seen);
        assert!(chunks.iter().all(|c| c.data.len() <= CHUNK_MAX));
        assert_eq!(chunks.last().unwrap().data, "MemoryError\n");
        let kept: usize = chunks.iter().map(|c| c.data.len()).sum();
        assert_eq!(kept as u64, totals.kept_bytes);
    }

    #[test]
    fn characters_are_not_torn() {
        let text = "é".repeat(CHUNK_MAX);
        let odd = format!("x{text}");
        let (chunks, totals) = run(1 << 20, &[(OutputStream::Stdout, odd.as_bytes())]);
        assert!(!totals.truncated);
        assert!(chunks.iter().all(|c| std::str::from_utf8(&c.data).is_ok()));
        assert_eq!(whole_characters("a😀".as_bytes()), 5);
        assert_eq!(whole_characters(b"a\xF0\x9F\x98"), 1);
        assert_eq!(whole_characters(b"\xFF\xFF"), 2);
    }

    #[test]
    fn half_a_character_at_the_very_end_is_still_sent() {
        let (chunks, totals) = run(1024, &[(OutputStream::Stderr, b"ok\xC3")]);
        assert_eq!(totals.kept_bytes, 3);
        assert_eq!(chunks.iter().map(|c| c.data.len()).sum::<usize>(), 3);
    }
}

//! Output on its way to the people who watch. Best effort: it never holds up a run, and what the result
//! says does not depend on it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use kazma_domain::CallId;
use kazma_wire::executor::{Chunk, OutputRequest};
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};

use super::code::Stream;
use crate::executor::Registry;

/// Output is gathered this long, so that many small writes make one request.
const GATHER: Duration = Duration::from_millis(50);
/// Bytes of one chunk. Source: the registry's limit.
const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks of one request.
const CHUNKS: usize = 16;
/// Pieces that wait to be sent; more are dropped.
const WAITING: usize = 256;
/// How long a run's last output may take to arrive before the result is reported without waiting for it.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The live output of one run.
#[derive(Debug)]
pub(crate) struct Live {
    pieces: mpsc::Sender<(Stream, Bytes)>,
    sender: JoinHandle<()>,
}

impl Live {
    /// Begins to send the output of `call`.
    pub(crate) fn start(registry: Arc<dyn Registry>, call: CallId) -> Self {
        let (pieces, receiver) = mpsc::channel(WAITING);
        let sender = tokio::spawn(send(registry, call, receiver));
        Self { pieces, sender }
    }

    /// Passes a piece on, if there is room.
    pub(crate) fn pass(&self, stream: Stream, bytes: Bytes) {
        // A full queue means that the registry is slow: live output is lost, the result is not.
        let _ = self.pieces.try_send((stream, bytes));
    }

    /// Lets the last pieces go out, for a moment.
    pub(crate) async fn finish(self) {
        let Self { pieces, mut sender } = self;
        drop(pieces);
        if tokio::time::timeout(LAST_WORDS, &mut sender).await.is_err() {
            sender.abort();
        }
    }
}

async fn send(
    registry: Arc<dyn Registry>,
    call: CallId,
    mut pieces: mpsc::Receiver<(Stream, Bytes)>,
) {
    let mut out = Decoder::default();
    let mut err = Decoder::default();
    while let Some(first) = pieces.recv().await {
        let mut batch = Batch::default();
        let mut next = Some(first);
        let until = Instant::now() + GATHER;
        while let Some((stream, bytes)) = next {
            let decoder = if stream == Stream::Stdout {
                &mut out
            } else {
                &mut err
            };
            batch.add(stream, &decoder.decode(&bytes));
            if batch.is_full() {
                break;
            }
            next = tokio::time::timeout_at(until, pieces.recv())
                .await
                .unwrap_or(None);
        }
        for chunks in batch.requests() {
            if let Err(error) = registry.output(call, &OutputRequest { chunks }).await {
                tracing::debug!(%call, error = error.to_string(), "live output was lost");
            }
        }
    }
}

/// Chunks that go out together; neighbours of one stream are joined.
#[derive(Debug, Default)]
struct Batch {
    chunks: Vec<Chunk>,
}

impl Batch {
    fn add(&mut self, stream: Stream, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let name = stream.name();
            let room = match self.chunks.last() {
                Some(last) if last.stream == name => CHUNK_BYTES - last.text.len(),
                _ => 0,
            };
            let (piece, behind) = rest.split_at(rest.floor_char_boundary(room));
            match self.chunks.last_mut() {
                Some(last) if !piece.is_empty() => last.text.push_str(piece),
                _ => self.chunks.push(Chunk {
                    stream: name.to_owned(),
                    text: String::new(),
                }),
            }
            rest = behind;
        }
    }

    fn is_full(&self) -> bool {
        self.chunks.len() >= CHUNKS
    }

    fn requests(self) -> impl Iterator<Item = Vec<Chunk>> {
        let mut chunks = self.chunks.into_iter().peekable();
        std::iter::from_fn(move || {
            chunks.peek()?;
            Some(chunks.by_ref().take(CHUNKS).collect())
        })
    }
}

/// Turns a stream's bytes into text, whatever the pieces: a character cut in two waits for its rest.
#[derive(Debug, Default)]
struct Decoder {
    held: Vec<u8>,
}

impl Decoder {
    fn decode(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut text = String::new();
        let mut whole = self.held.len();
        let mut chunks = self.held.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let odd = chunk.invalid();
            let unfinished = chunks.peek().is_none()
                && matches!(std::str::from_utf8(odd), Err(e) if e.error_len().is_none());
            if unfinished {
                whole -= odd.len();
            } else if !odd.is_empty() {
                text.push('\u{fffd}');
            }
        }
        self.held.drain(..whole);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_in_two_pieces_arrives_whole() {
        let mut decoder = Decoder::default();
        let bytes = "aé€😀".as_bytes();
        let text: String = bytes.iter().map(|b| decoder.decode(&[*b])).collect();
        assert_eq!(text, "aé€😀");
        assert_eq!(decoder.decode(b"x\xffy"), "x\u{fffd}y");
    }

    #[test]
    fn chunks_are_joined_and_never_too_large() {
        let mut batch = Batch::default();
        batch.add(Stream::Stdout, "a");
        batch.add(Stream::Stdout, "b");
        batch.add(Stream::Stderr, "c");
        batch.add(Stream::Stdout, &"é".repeat(CHUNK_BYTES));
        let chunks: Vec<_> = batch.requests().flatten().collect();
        assert_eq!(
            chunks[0],
            Chunk {
                stream: "stdout".into(),
                text: "ab".into()
            }
        );
        assert_eq!(
            chunks[1],
            Chunk {
                stream: "stderr".into(),
                text: "c".into()
            }
        );
        assert!(
            chunks
                .iter()
                .all(|c| !c.text.is_empty() && c.text.len() <= CHUNK_BYTES)
        );
        let all: usize = chunks.iter().skip(2).map(|c| c.text.len()).sum();
        assert_eq!(all, 2 * CHUNK_BYTES);
    }
}

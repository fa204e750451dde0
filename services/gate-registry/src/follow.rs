//! The event stream: what was missed first, then what happens, as one JSON object a line.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::Stream;
use kazma_domain::ThreadId;
use kazma_store::registry::events;
use kazma_wire::events::{Event, What};
use tokio::sync::{broadcast::error::RecvError, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::Registry;

/// Lines that a follower may be behind.
const BUFFER: usize = 256;
/// Events that are read at once.
const PAGE: u32 = 256;
/// A follower that takes nothing for this long is let go; it comes back with the last number it saw.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the stream says that it lives.
const BEAT: Duration = Duration::from_secs(10);

impl Registry {
    /// Follows what happens after `after`, for as long as the reader reads.
    pub fn follow(
        self: &Arc<Self>,
        after: i64,
    ) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + use<> {
        let (lines, reader) = mpsc::channel(BUFFER);
        tokio::spawn(Arc::clone(self).tell(after, Follower(lines)));
        ReceiverStream::new(reader)
    }

    async fn tell(self: Arc<Self>, mut after: i64, follower: Follower) {
        let mut sequence = self.sequence();
        let mut outputs = self.outputs.subscribe();
        let mut beat = tokio::time::interval(BEAT);
        loop {
            sequence.mark_unchanged();
            loop {
                let page = self
                    .read(move |tx| {
                        Box::pin(async move { Ok(events::after(tx, after, PAGE).await?) })
                    })
                    .await;
                let page = match page {
                    Ok(page) => page,
                    Err(error) => {
                        tracing::warn!(error = error.to_string(), "a follower is let go");
                        return;
                    }
                };
                if page.is_empty() {
                    break;
                }
                for event in page {
                    after = event.seq.unwrap_or(after);
                    if !follower.tell(&event).await {
                        return;
                    }
                }
            }
            // Output that is there already was printed before what comes next.
            let told = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                output = outputs.recv() => match output {
                    Ok(event) => follower.tell(&event).await,
                    Err(RecvError::Lagged(_)) => true,
                    Err(RecvError::Closed) => return,
                },
                changed = sequence.changed() => changed.is_ok(),
                _ = beat.tick() => follower.tell(&self.beat()).await,
                () = follower.0.closed() => return,
            };
            if !told {
                return;
            }
        }
    }

    fn beat(&self) -> Event {
        Event {
            seq: None,
            at: self.moment().now,
            thread: ThreadId::from_uuid(uuid::Uuid::nil()),
            turn: None,
            what: What::Beat,
        }
    }
}

/// The other end of a stream.
struct Follower(mpsc::Sender<Result<Bytes, Infallible>>);

impl Follower {
    async fn tell(&self, event: &Event) -> bool {
        let Ok(mut line) = serde_json::to_vec(event) else {
            return false;
        };
        line.push(b'\n');
        self.0
            .send_timeout(Ok(Bytes::from(line)), PATIENCE)
            .await
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_for_ten_seconds_is_let_go() {
        let (lines, mut reader) = mpsc::channel(2);
        let follower = Follower(lines);
        let event = Event {
            seq: Some(1),
            at: jiff::Timestamp::UNIX_EPOCH,
            thread: ThreadId::from_uuid(uuid::Uuid::nil()),
            turn: None,
            what: What::Thread,
        };
        assert!(follower.tell(&event).await);
        assert!(follower.tell(&event).await);
        let begun = tokio::time::Instant::now();
        assert!(!follower.tell(&event).await);
        assert_eq!(begun.elapsed(), PATIENCE);
        // Who reads again in time is not.
        reader.recv().await.unwrap().unwrap();
        assert!(follower.tell(&event).await);
    }
}

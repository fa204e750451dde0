//! A connection whose other end has only so long to say its first words.
//!
//! Which HTTP it is, is read before hyper's own limits begin: without this, whoever connects and says
//! nothing keeps a place for ever.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// Bytes by which the version is known: as many as the preface of HTTP/2 has (RFC 9113, section 3.4).
const OPENING: usize = 24;

/// Reads fail once the time is over and the first words are not there.
#[derive(Debug)]
pub(super) struct Opening<S> {
    stream: S,
    missing: usize,
    deadline: Pin<Box<Sleep>>,
}

impl<S> Opening<S> {
    /// Gives the other end of `stream` this long.
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            missing: OPENING,
            deadline: Box::pin(tokio::time::sleep(limit)),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        let got = into.filled().len().saturating_sub(before);
        self.missing = self.missing.saturating_sub(got);
        if read.is_pending() && self.missing > 0 && self.deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opening<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_or_too_little_is_let_go() {
        for said in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"] {
            let (mut other, ours) = tokio::io::duplex(64);
            let mut opening = Opening::new(ours, LIMIT);
            other.write_all(said).await.unwrap();
            let mut heard = vec![0; OPENING];
            let ended = opening.read_exact(&mut heard).await.unwrap_err();
            assert_eq!(ended.kind(), io::ErrorKind::TimedOut, "{said:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_said_its_first_words_may_be_silent() {
        let (mut other, ours) = tokio::io::duplex(64);
        let mut opening = Opening::new(ours, LIMIT);
        other.write_all(&[b'x'; OPENING]).await.unwrap();
        let mut heard = [0; OPENING];
        opening.read_exact(&mut heard).await.unwrap();
        let silent = tokio::time::timeout(LIMIT * 10, opening.read(&mut heard)).await;
        assert!(silent.is_err());
    }
}

//! How a connection begins where we speak TLS ourselves: by a handshake, or by being told to use https.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rustls::ServerConfig;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::Https;

/// How long a client may take over its handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// How long a client that must go has to read why.
const PARTING_LIMIT: Duration = Duration::from_secs(2);
/// Bytes of what such a client sent that are read away, so that it sees the answer and no reset.
const PARTING_MAX: u64 = 64 * 1024;
/// The first byte of TLS: a record of a handshake (RFC 8446, section 5.1). No HTTP begins so.
const HANDSHAKE: u8 = 0x16;

/// How connections of one listener begin.
#[derive(Debug, Clone)]
pub struct Greeting {
    config: Arc<ServerConfig>,
    listen: SocketAddr,
    /// What who speaks plain HTTP is told.
    refusal: Arc<str>,
}

/// A connection that may go on.
#[derive(Debug)]
pub enum Greeted {
    /// Over TLS.
    Secure(Box<TlsStream<TcpStream>>),
    /// In plain, from this machine.
    Own(TcpStream),
}

impl Greeting {
    /// Of a listener at `listen`, which people know as `base`.
    pub fn new(https: &Https, listen: SocketAddr, base: &str) -> Self {
        let words = format!("This port speaks https. Open {base} instead.\n");
        let refusal = format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{words}",
            words.len()
        );
        Self {
            config: https.config(),
            listen,
            refusal: refusal.into(),
        }
    }

    /// Begins a connection that comes from `peer`; none where it is over.
    pub async fn greet(&self, stream: TcpStream, peer: IpAddr) -> Option<Greeted> {
        let first = tokio::time::timeout(HANDSHAKE_LIMIT, self.first(stream, peer)).await;
        first.unwrap_or_else(|_| {
            tracing::debug!("a handshake took too long");
            None
        })
    }

    async fn first(&self, stream: TcpStream, peer: IpAddr) -> Option<Greeted> {
        let mut first = [0];
        if stream.peek(&mut first).await.ok()? == 0 {
            return None;
        }
        if first == [HANDSHAKE] {
            let acceptor = TlsAcceptor::from(self.config.clone());
            return match acceptor.accept(stream).await {
                Ok(stream) => Some(Greeted::Secure(Box::new(stream))),
                Err(error) => {
                    tracing::debug!(error = error.to_string(), "a handshake failed");
                    None
                }
            };
        }
        if self.is_own(peer) {
            return Some(Greeted::Own(stream));
        }
        self.refuse(stream).await;
        None
    }

    /// Whether the other end is this machine: the commands of the operator come so, with the token and
    /// without a certificate to check ours by.
    fn is_own(&self, peer: IpAddr) -> bool {
        let (peer, listen) = (peer.to_canonical(), self.listen.ip());
        peer.is_loopback() || (!listen.is_unspecified() && peer == listen.to_canonical())
    }

    async fn refuse(&self, mut stream: TcpStream) {
        let told = async {
            stream.write_all(self.refusal.as_bytes()).await?;
            stream.shutdown().await?;
            let mut rest = stream.take(PARTING_MAX);
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
        };
        drop(tokio::time::timeout(PARTING_LIMIT, told).await);
    }
}

#[cfg(test)]
mod tests;

use std::{io, net::Ipv4Addr};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::net::TcpListener;
use tokio_rustls::{TlsConnector, client};

use super::*;
use crate::https::{Pem, tests::pair};

/// A place to connect to, and how connections to it begin.
struct Door {
    listener: TcpListener,
    greeting: Greeting,
    pem: Pem,
}

impl Door {
    async fn open() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let pem = pair();
        let https = Https::new(&pem).unwrap();
        let at = listener.local_addr().unwrap();
        Self {
            greeting: Greeting::new(&https, at, "https://kazma.example"),
            listener,
            pem,
        }
    }

    fn at(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Greets the next connection, which says that it comes from `peer`.
    async fn greet(&self, peer: &str) -> Option<Greeted> {
        let (stream, _) = self.listener.accept().await.unwrap();
        self.greeting.greet(stream, peer.parse().unwrap()).await
    }

    async fn handshake(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        protocol: &[u8],
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        let own = CertificateDer::from_pem_slice(self.pem.certificate().as_bytes()).unwrap();
        roots.add(own).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.at()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }
}

#[tokio::test]
async fn both_versions_of_tls_and_of_http_are_spoken() {
    let door = Door::open().await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for protocol in [&b"h2"[..], b"http/1.1"] {
            let versions = [version];
            let (greeted, connected) =
                tokio::join!(door.greet("192.0.2.1"), door.handshake(&versions, protocol));
            assert!(matches!(greeted, Some(Greeted::Secure(_))));
            let connected = connected.unwrap();
            let (_, session) = connected.get_ref();
            assert_eq!(session.alpn_protocol(), Some(protocol));
            assert_eq!(session.protocol_version(), Some(version.version));
        }
    }
}

#[tokio::test]
async fn who_speaks_plain_from_elsewhere_is_told_to_use_https() {
    let door = Door::open().await;
    let ask = async {
        let mut stream = TcpStream::connect(door.at()).await.unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: kazma.example\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let (greeted, answer) = tokio::join!(door.greet("192.0.2.1"), ask);
    assert!(greeted.is_none());
    assert!(
        answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
        "{answer}"
    );
    let (head, words) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        words.contains("Open https://kazma.example instead"),
        "{answer}"
    );
    assert!(
        head.contains(&format!("content-length: {}", words.len())),
        "{answer}"
    );
}

#[tokio::test]
async fn commands_of_this_machine_go_on_in_plain() {
    let door = Door::open().await;
    for own in ["127.0.0.1", "::ffff:127.0.0.1", "::1"] {
        let mut stream = TcpStream::connect(door.at()).await.unwrap();
        stream.write_all(b"GET").await.unwrap();
        let Some(Greeted::Own(mut ours)) = door.greet(own).await else {
            panic!("{own} is refused");
        };
        let mut heard = [0; 3];
        ours.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"GET", "something was taken away");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_stalls_is_let_go() {
    let door = Door::open().await;
    for said in [&b""[..], &[HANDSHAKE], &[HANDSHAKE, 3, 1, 2, 0, 1]] {
        let mut stream = TcpStream::connect(door.at()).await.unwrap();
        stream.write_all(said).await.unwrap();
        let greeted = tokio::time::timeout(HANDSHAKE_LIMIT * 10, door.greet("192.0.2.1"));
        assert!(greeted.await.expect("it holds its place").is_none());
    }
}

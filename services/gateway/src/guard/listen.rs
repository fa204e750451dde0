//! The public listener: bounded connections, bounded headers, bounded patience; TLS of our own where there is a
//! certificate.

use std::{io, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
    service::TowerToHyperService,
};
use kazma_mesh::https::{Greeted, Greeting};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::{layers::Connection, opening::Opening};

/// Connections at once, handshakes included; the next one waits.
const CONNECTIONS_MAX: usize = 1024;
/// How long a client may take over its first words, and then over its headers.
const HEADER_LIMIT: Duration = Duration::from_secs(20);
/// Bytes of one request's headers.
const HEADERS_MAX: usize = 32 * 1024;
/// Fields in one request's headers.
const FIELDS_MAX: usize = 64;
/// How long answers may go on after the end was asked for.
const GRACE: Duration = Duration::from_secs(3);

/// Serves `app` until `stop`, then lets answers finish for a short while. With a `greeting`, over TLS.
pub(crate) async fn serve(
    listener: std::net::TcpListener,
    app: Router,
    greeting: Option<Greeting>,
    stop: CancellationToken,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    let http = Arc::new(http());
    loop {
        let place = tokio::select! {
            () = stop.cancelled() => break,
            place = Arc::clone(&places).acquire_owned() => match place {
                Ok(place) => place,
                Err(_) => break,
            },
        };
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // No more files, say: the connections that are there end and make room.
                    tracing::warn!(error = error.to_string(), "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let Ok(local) = stream.local_addr() else {
            continue;
        };
        // Small answers and events go out at once.
        drop(stream.set_nodelay(true));
        let connection = Connection {
            peer,
            local,
            secure: false,
        };
        let talk = Talk {
            http: Arc::clone(&http),
            app: app.clone(),
            connection,
            watcher: graceful.watcher(),
        };
        let (greeting, stop) = (greeting.clone(), stop.clone());
        tokio::spawn(async move {
            talk.begin(stream, greeting, stop).await;
            drop(place);
        });
    }
    drop(listener);
    drop(tokio::time::timeout(GRACE, graceful.shutdown()).await);
    Ok(())
}

fn http() -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .max_buf_size(HEADERS_MAX)
        .max_headers(FIELDS_MAX);
    http.http2()
        .timer(TokioTimer::new())
        .max_header_list_size(32 * 1024)
        .max_concurrent_streams(64)
        .keep_alive_interval(Duration::from_secs(20));
    http
}

/// One connection, from its first byte to its last.
struct Talk {
    http: Arc<auto::Builder<TokioExecutor>>,
    app: Router,
    connection: Connection,
    watcher: Watcher,
}

impl Talk {
    async fn begin(
        mut self,
        stream: TcpStream,
        greeting: Option<Greeting>,
        stop: CancellationToken,
    ) {
        let Some(greeting) = greeting else {
            return self.go_on(stream).await;
        };
        let greeted = tokio::select! {
            () = stop.cancelled() => return,
            greeted = greeting.greet(stream, self.connection.peer.ip()) => greeted,
        };
        match greeted {
            Some(Greeted::Secure(stream)) => {
                self.connection.secure = true;
                self.go_on(*stream).await;
            }
            Some(Greeted::Own(stream)) => self.go_on(stream).await,
            None => {}
        }
    }

    async fn go_on<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self {
            http,
            app,
            connection,
            watcher,
        } = self;
        let service = app.map_request(move |request: http::Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(connection);
            request
        });
        let served = http
            .serve_connection(
                TokioIo::new(Opening::new(stream, HEADER_LIMIT)),
                TowerToHyperService::new(service),
            )
            .into_owned();
        if let Err(error) = watcher.watch(served).await {
            tracing::debug!(error, "a connection ended badly");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::{Extension, routing::get};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
        task::JoinHandle,
    };

    use super::*;

    fn open() -> (SocketAddr, CancellationToken, JoinHandle<io::Result<()>>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let app = Router::new().route(
            "/",
            get(|Extension(ends): Extension<Connection>| async move { ends.peer.to_string() }),
        );
        let stop = CancellationToken::new();
        (
            at,
            stop.clone(),
            tokio::spawn(serve(listener, app, None, stop)),
        )
    }

    async fn ask(stream: &mut TcpStream, request: &str) -> String {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut answer));
        let length = read.await.expect("no answer came").unwrap();
        String::from_utf8_lossy(answer.get(..length).unwrap()).into_owned()
    }

    #[tokio::test]
    async fn handlers_know_both_ends() {
        let (at, _stop, _served) = open();
        let mut stream = TcpStream::connect(at).await.unwrap();
        let own = stream.local_addr().unwrap().to_string();
        let answer = ask(&mut stream, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with(&own),
            "{answer}"
        );
    }

    #[tokio::test]
    async fn headers_are_bounded() {
        let (at, _stop, _served) = open();
        let fields: Vec<String> = (0..=FIELDS_MAX).map(|n| format!("X-{n}: y\r\n")).collect();
        let many = fields.concat();
        let long = format!("X: {}\r\n", "y".repeat(HEADERS_MAX));
        for headers in [many, long] {
            let mut stream = TcpStream::connect(at).await.unwrap();
            let answer = ask(
                &mut stream,
                &format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n"),
            )
            .await;
            assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_connects_and_says_nothing_gives_the_place_back() {
        let (at, _stop, _served) = open();
        for said in ["", "P"] {
            let mut stream = TcpStream::connect(at).await.unwrap();
            stream.write_all(said.as_bytes()).await.unwrap();
            let mut rest = Vec::new();
            let ended = stream.read_to_end(&mut rest);
            tokio::time::timeout(HEADER_LIMIT * 10, ended)
                .await
                .expect("it holds its place")
                .ok();
        }
    }

    #[tokio::test]
    async fn it_ends_when_asked_though_somebody_stays_connected() {
        let (at, stop, served) = open();
        let mut idle = TcpStream::connect(at).await.unwrap();
        ask(&mut idle, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        stop.cancel();
        // Well below the grace that a busy connection would get.
        tokio::time::timeout(Duration::from_secs(2), served)
            .await
            .expect("it goes on")
            .unwrap()
            .unwrap();
        assert!(TcpStream::connect(at).await.is_err());
    }
}

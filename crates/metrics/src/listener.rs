//! The listener that shows the metrics: plain HTTP, one path, bounded in every way.

use std::{convert::Infallible, io, net::IpAddr, sync::Arc, time::Duration};

use axum::body::Body;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

use crate::Meters;

/// Connections at once; the next one waits.
const CONNECTIONS: usize = 8;
/// How long a client may take over its headers, and a connection may be idle.
const HEADER_LIMIT: Duration = Duration::from_secs(10);
/// How long one connection may live, whatever it does.
const CONNECTION_LIMIT: Duration = Duration::from_mins(5);
/// Bytes of one request's headers.
const HEADERS_MAX: usize = 16 * 1024;
/// The media type of the text format. Source: Prometheus, "Exposition formats".
const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves `GET /metrics` until `stop`.
///
/// # Errors
///
/// Says why the listener could not be used.
pub async fn serve(
    listener: std::net::TcpListener,
    meters: Meters,
    stop: CancellationToken,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let local = listener.local_addr()?.ip().is_loopback();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            place = Arc::clone(&places).acquire_owned() => place.map_err(io::Error::other)?,
        };
        let stream = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(error = error.to_string(), "a scrape could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (meters, stop) = (meters.clone(), stop.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let meters = meters.clone();
                async move { Ok::<_, Infallible>(answer(&meters, &request, local).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_LIMIT)
                .max_buf_size(HEADERS_MAX)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                () = stop.cancelled() => {}
                // A scrape that ended badly is made again by who wanted it.
                _ = tokio::time::timeout(CONNECTION_LIMIT, connection) => {}
            }
            drop(place);
        });
    }
}

async fn answer(meters: &Meters, request: &Request<Incoming>, local: bool) -> Response<Body> {
    let plain = |status: StatusCode, text: String| {
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        response
    };
    let host = request.headers().get(header::HOST);
    if local && !host.is_some_and(names_this_machine) {
        let text = "On loopback, metrics are shown for localhost and addresses alone.\n";
        return plain(StatusCode::MISDIRECTED_REQUEST, text.to_owned());
    }
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "Only /metrics is here.\n".to_owned());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let text = "Only GET is allowed here.\n";
        return plain(StatusCode::METHOD_NOT_ALLOWED, text.to_owned());
    }
    plain(StatusCode::OK, meters.text().await)
}

/// Whether a page of another site, whose name was pointed here, could not have asked.
fn names_this_machine(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else {
        return false;
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };

    use super::*;

    async fn ask(at: SocketAddr, head: &str) -> String {
        let mut stream = TcpStream::connect(at).await.unwrap();
        let head = format!("{head}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn it_shows_metrics_and_nothing_else_and_not_to_other_sites() {
        let meters = Meters::default();
        meters.counters("seen_total", "Seen.", []).unwrap().inc([]);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let served = tokio::spawn(serve(listener, meters, stop.clone()));
        for (head, status) in [
            ("GET /metrics HTTP/1.1\r\nHost: localhost:9", "200"),
            ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1", "200"),
            ("GET /metrics HTTP/1.1\r\nHost: [::1]:9", "200"),
            ("GET /metrics HTTP/1.1\r\nHost: rebound.example", "421"),
            ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.example", "421"),
            ("GET /metrics HTTP/1.0\r\nAccept: */*", "421"),
            ("GET / HTTP/1.1\r\nHost: localhost", "404"),
            ("POST /metrics HTTP/1.1\r\nHost: localhost", "405"),
        ] {
            let answer = ask(at, head).await;
            let first = answer.lines().next().unwrap_or_default();
            assert!(first.contains(status), "{head:?}: {first}");
            assert_eq!(
                answer.contains("seen_total 1"),
                status == "200",
                "{head:?}: {answer}"
            );
        }
        stop.cancel();
        served.await.unwrap().unwrap();
    }
}

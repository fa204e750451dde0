//! The client against real servers on this machine, which a test's judge lets pass by name and port.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Answers lookups in turn, the last one for ever.
#[derive(Debug)]
struct Script {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
    names: Mutex<Vec<String>>,
}

impl Script {
    fn new(answers: &[&[IpAddr]]) -> Arc<Self> {
        Arc::new(Self {
            answers: answers.iter().map(|each| each.to_vec()).collect(),
            asked: AtomicUsize::new(0),
            names: Mutex::new(Vec::new()),
        })
    }
}

impl Resolve for Script {
    fn resolve<'a>(&'a self, name: &'a str) -> Boxed<'a, std::io::Result<Answers>> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        self.names.lock().unwrap().push(name.to_owned());
        let addresses = self.answers[turn.min(self.answers.len() - 1)].clone();
        Box::pin(async move {
            Ok(Answers {
                addresses,
                aliases: Vec::new(),
            })
        })
    }
}

/// A server that answers each request with what `answer` makes of its path.
struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

async fn server(answer: impl Fn(&str, u16) -> String + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind((HERE, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else {
                    break;
                };
                head.push(byte);
            }
            let head = String::from_utf8(head).unwrap();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            seen.lock().unwrap().push(head);
            let text = answer(&path, port);
            stream.write_all(text.as_bytes()).await.unwrap();
            if path == "/endless" {
                // The connection stays open until the client goes.
                let _ = stream.read_u8().await;
            }
        }
    });
    Server { port, requests }
}

fn page(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn moved(location: &str) -> String {
    format!(
        "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
}

fn client(server: &Server, resolver: Arc<Script>) -> Client {
    kazma_mesh::install_crypto_provider();
    let limits = Limits {
        body: 1_000,
        ..Limits::default()
    };
    Client::new(
        Judge::default().with_own(HERE, server.port),
        limits,
        resolver,
    )
}

fn refusal(result: Result<Page, Error>) -> Refusal {
    match result {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_page_comes_from_the_address_that_was_judged() {
    let server = server(|path, _| page(path)).await;
    let resolver = Script::new(&[&[HERE], &[[10, 0, 0, 1].into()]]);
    let client = client(&server, Arc::clone(&resolver));
    let got = client
        .fetch(&format!("http://site.example:{}/a?b#c", server.port))
        .await
        .unwrap();
    assert_eq!(
        (got.status, got.body.as_slice(), got.cut),
        (200, &b"/a?b"[..], None)
    );
    assert_eq!(got.content_type.as_deref(), Some("text/plain"));
    // One lookup: a second answer has no chance.
    assert_eq!(*resolver.names.lock().unwrap(), ["site.example"]);
    let request = server.requests.lock().unwrap()[0].to_ascii_lowercase();
    assert!(
        request.contains(&format!("host: site.example:{}", server.port)),
        "{request}"
    );
    for header in ["cookie", "authorization", "referer"] {
        assert!(!request.contains(header), "{request}");
    }
}

#[tokio::test]
async fn a_special_answer_is_not_connected_to() {
    let own = server(|_, _| page("secret")).await;
    let trap = server(|_, _| page("trap")).await;
    let resolver = Script::new(&[&[HERE]]);
    let mut client = client(&own, resolver);
    client.judge = Judge::default().with_ports([trap.port]);
    let url = format!("http://site.example:{}/", trap.port);
    assert!(matches!(
        refusal(client.fetch(&url).await),
        Refusal::Special { .. }
    ));
    let literal = format!("http://127.0.0.1:{}/", trap.port);
    assert!(matches!(
        refusal(client.fetch(&literal).await),
        Refusal::Special { .. }
    ));
    assert!(trap.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn one_bad_answer_refuses_all() {
    let server = server(|_, _| page("x")).await;
    let client = client(&server, Script::new(&[&[HERE, [10, 0, 0, 1].into()]]));
    let url = format!("http://site.example:{}/", server.port);
    assert!(matches!(
        refusal(client.fetch(&url).await),
        Refusal::Special { .. }
    ));
    assert!(server.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn every_hop_is_judged_again() {
    let trap = server(|_, _| page("trap")).await;
    let port = trap.port;
    let server = server(move |path, own| match path {
        "/trap" => moved(&format!("http://127.0.0.1:{port}/")),
        "/metadata" => moved("http://169.254.169.254/latest"),
        "/file" => moved("file:///etc/passwd"),
        "/circle" => moved("/circle"),
        "/on" => moved(&format!("//other.example:{own}/end")),
        "/end" => page("end"),
        "/raw" => moved("/a\\b"),
        other => moved(&format!("{other}x")),
    })
    .await;
    let client = client(&server, Script::new(&[&[HERE]]));
    let at = |path: &str| format!("http://site.example:{}{path}", server.port);
    assert!(matches!(
        refusal(client.fetch(&at("/trap")).await),
        Refusal::Port(_)
    ));
    assert!(matches!(
        refusal(client.fetch(&at("/metadata")).await),
        Refusal::Special { .. }
    ));
    assert_eq!(refusal(client.fetch(&at("/file")).await), Refusal::Scheme);
    assert_eq!(refusal(client.fetch(&at("/circle")).await), Refusal::Circle);
    assert!(matches!(
        refusal(client.fetch(&at("/raw")).await),
        Refusal::Ambiguous(_)
    ));
    assert_eq!(
        refusal(client.fetch(&at("/many")).await),
        Refusal::TooManyRedirects(5)
    );
    let page = client.fetch(&at("/on")).await.unwrap();
    assert_eq!(
        (page.url().unwrap().host_str(), page.body.as_slice()),
        (Some("other.example"), &b"end"[..])
    );
    assert!(trap.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_second_hop_looks_up_again_and_refuses_what_changed() {
    let server = server(|path, _| if path == "/a" { moved("/b") } else { page("b") }).await;
    let resolver = Script::new(&[&[HERE], &[[192, 168, 0, 1].into()]]);
    let client = client(&server, resolver);
    let url = format!("http://site.example:{}/a", server.port);
    assert!(matches!(
        refusal(client.fetch(&url).await),
        Refusal::Special { .. }
    ));
    assert_eq!(server.requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn headers_that_lead_elsewhere_are_not_followed() {
    let server = server(|path, _| {
        let header = match path {
            "/refresh" => "Refresh: 0; url=http://127.0.0.1/",
            "/alt" => "Alt-Svc: h2=\"127.0.0.1:443\"",
            _ => "Refresh: 5; url=/next",
        };
        format!("HTTP/1.1 200 OK\r\n{header}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    })
    .await;
    let client = client(&server, Script::new(&[&[HERE]]));
    for path in ["/refresh", "/alt"] {
        let url = format!("http://site.example:{}{path}", server.port);
        assert!(
            matches!(refusal(client.fetch(&url).await), Refusal::Header { .. }),
            "{path}"
        );
    }
    let url = format!("http://site.example:{}/near", server.port);
    assert_eq!(
        client.fetch(&url).await.unwrap().url().unwrap().path(),
        "/near"
    );
    assert_eq!(server.requests.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn bodies_and_times_are_bounded() {
    let server = server(|path, _| match path {
        "/endless" | "/broken" => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc".to_owned(),
        "/exact" => page(&"x".repeat(1_000)),
        _ => page(&"x".repeat(100_000)),
    })
    .await;
    let mut client = client(&server, Script::new(&[&[HERE]]));
    let at = |path: &str| format!("http://site.example:{}{path}", server.port);
    let exact = client.fetch(&at("/exact")).await.unwrap();
    assert_eq!((exact.body.len(), exact.cut), (1_000, None));
    let large = client.fetch(&at("/large")).await.unwrap();
    assert_eq!((large.body.len(), large.cut), (1_000, Some(Cut::Size)));
    // Long enough for a loaded machine to begin to answer.
    client.limits.total = Duration::from_secs(3);
    let endless = client.fetch(&at("/endless")).await.unwrap();
    assert_eq!(
        (endless.body.as_slice(), endless.cut),
        (&b"abc"[..], Some(Cut::Time))
    );
    let broken = client.fetch(&at("/broken")).await.unwrap();
    assert_eq!(
        (broken.body.as_slice(), broken.cut, broken.length),
        (&b"abc"[..], Some(Cut::Broken), Some(10))
    );
}

/// A resolver that never answers.
#[derive(Debug)]
struct Silent;

impl Resolve for Silent {
    fn resolve<'a>(&'a self, _: &'a str) -> Boxed<'a, std::io::Result<Answers>> {
        Box::pin(std::future::pending())
    }
}

/// A resolver that fails in this way.
#[derive(Debug)]
struct Failing(ErrorKind);

impl Resolve for Failing {
    fn resolve<'a>(&'a self, _: &'a str) -> Boxed<'a, std::io::Result<Answers>> {
        Box::pin(async { Err(self.0.into()) })
    }
}

#[tokio::test]
async fn each_way_not_to_answer_has_its_own_words() {
    kazma_mesh::install_crypto_provider();
    // Bound and never accepted from: the connection stands, and nobody answers.
    let silent = TcpListener::bind((HERE, 0)).await.unwrap();
    let port = silent.local_addr().unwrap().port();
    // Bound and let go again: nobody listens.
    let gone = TcpListener::bind((HERE, 0)).await.unwrap();
    let nobody = gone.local_addr().unwrap().port();
    drop(gone);
    let limits = Limits {
        total: Duration::from_millis(50),
        ..Limits::default()
    };
    let judge = Judge::default().with_own(HERE, port).with_own(HERE, nobody);
    let fetch = async |resolver: Arc<dyn Resolve>, port: u16, limits: Limits| {
        let client = Client::new(judge.clone(), limits, resolver);
        let url = format!("http://site.example:{port}/");
        client.fetch(&url).await.unwrap_err().to_string()
    };
    for (resolver, port, words) in [
        (
            Arc::new(Silent) as Arc<dyn Resolve>,
            port,
            "looking the name",
        ),
        (
            Script::new(&[&[HERE]]),
            port,
            "the answer of the server took",
        ),
    ] {
        let said = fetch(resolver, port, limits).await;
        assert!(said.starts_with(words), "{said}");
    }
    for (resolver, words) in [
        (
            Arc::new(Failing(ErrorKind::NotFound)) as Arc<dyn Resolve>,
            "no host has this name",
        ),
        (
            Arc::new(Failing(ErrorKind::TimedOut)),
            "the name server does not answer",
        ),
        (
            Arc::new(Failing(ErrorKind::Other)),
            "could not be looked up",
        ),
        (Script::new(&[&[HERE]]), "refused the connection"),
    ] {
        let said = fetch(resolver, nobody, Limits::default()).await;
        assert!(said.contains(words), "{said}");
    }
    // What speaks no TLS.
    let plain = TcpListener::bind((HERE, 0)).await.unwrap();
    let port = plain.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = plain.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 No\r\n\r\n").await.unwrap();
        let _ = stream.read_u8().await;
    });
    let judge = Judge::default().with_own(HERE, port);
    let client = Client::new(judge, Limits::default(), Script::new(&[&[HERE]]));
    let url = format!("https://site.example:{port}/");
    let said = client.fetch(&url).await.unwrap_err().to_string();
    assert!(said.contains("its TLS, is not accepted"), "{said}");
}

#[test]
fn the_library_s_words_for_a_failed_lookup_are_told_apart() {
    for (words, kind) in [
        ("Name or service not known", ErrorKind::NotFound),
        ("Temporary failure in name resolution", ErrorKind::TimedOut),
        ("Memory allocation failure", ErrorKind::Other),
    ] {
        let error = std::io::Error::other(format!("failed to lookup address information: {words}"));
        assert_eq!(told_apart(error).kind(), kind, "{words}");
    }
}

#[tokio::test]
async fn what_is_said_to_be_sent_is_what_is_sent() {
    let server = server(|path, _| page(path)).await;
    let client = client(&server, Script::new(&[&[HERE]]));
    let url = format!("http://site.example:{}/a%20b?c=d", server.port);
    let got = client.fetch(&url).await.unwrap();
    let said = Client::request(got.url().unwrap());
    let head = server.requests.lock().unwrap()[0].clone();
    let mut sent: Vec<String> = head
        .trim_end()
        .lines()
        .map(str::to_ascii_lowercase)
        .collect();
    let first = sent.remove(0);
    assert_eq!(first, format!("{} http/1.1", said[0].to_ascii_lowercase()));
    let mut headers: Vec<String> = said[1..]
        .iter()
        .map(|line| line.to_ascii_lowercase())
        .collect();
    headers.sort();
    sent.sort();
    assert_eq!(sent, headers);
}

#[tokio::test]
async fn a_configured_service_stays_within_its_origin() {
    let server = server(|path, port| match path {
        "/base/out" => moved("http://localhost:1/"),
        "/base/in" => moved(&format!("http://127.0.0.1:{port}/base/end")),
        "/base/loop" => moved("/base/loop"),
        other => page(other),
    })
    .await;
    let client = client(&server, Script::new(&[&[]]));
    let origin = Origin::read(&format!("http://127.0.0.1:{}/base", server.port)).unwrap();
    let got = client
        .configured(&origin, "search", &[("q", "a b")])
        .await
        .unwrap();
    assert_eq!(got.body, b"/base/search?q=a+b");
    assert_eq!(
        client.configured(&origin, "in", &[]).await.unwrap().body,
        b"/base/end"
    );
    assert_eq!(
        refusal(client.configured(&origin, "out", &[]).await),
        Refusal::OtherOrigin
    );
    assert_eq!(
        refusal(client.configured(&origin, "loop", &[]).await),
        Refusal::TooManyRedirects(5)
    );
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_not_fetched() {
    let server = server(|_, _| page("x")).await;
    let client = client(&server, Script::new(&[&[]]));
    let url = format!("http://site.example:{}/", server.port);
    assert_eq!(refusal(client.fetch(&url).await), Refusal::Unresolved);
}

#[test]
fn a_peer_must_be_one_of_the_judged() {
    let judge = Judge::default();
    let judged = [[93, 184, 215, 14].into()];
    assert_eq!(judge.peer(&judged, [93, 184, 215, 14].into(), 443), Ok(()));
    assert!(matches!(
        judge.peer(&judged, [93, 184, 215, 15].into(), 443),
        Err(Refusal::Peer(_))
    ));
    assert!(matches!(
        judge.peer(&judged, [10, 0, 0, 7].into(), 443),
        Err(Refusal::Special { .. })
    ));
}

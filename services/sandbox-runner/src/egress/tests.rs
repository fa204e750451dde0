//! The egress process against a scripted registry, with a server of the test's own.

use std::{
    net::{IpAddr, Ipv4Addr},
    pin::Pin,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kazma_domain::{Action, Plan};
use kazma_netguard::{Answers, Judge, Limits, Resolve};
use kazma_wire::executor::SettleRequest;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;
use crate::executor::{
    Hands as _,
    doubles::{Counting, Fault, Scripted, Still, noon},
};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Leads every name here, and counts how often it was asked.
#[derive(Debug, Default)]
struct Names(AtomicUsize);

impl Resolve for Names {
    fn resolve<'a>(
        &'a self,
        _: &'a str,
    ) -> Pin<Box<dyn Future<Output = std::io::Result<Answers>> + Send + 'a>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {
            Ok(Answers {
                addresses: vec![HERE],
                aliases: Vec::new(),
            })
        })
    }
}

/// An egress process with its scripted surroundings, and a server that answers everything the same way.
struct House {
    registry: Arc<Scripted>,
    names: Arc<Names>,
    executor: Executor<Reach>,
    stop: CancellationToken,
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl House {
    async fn new(answer: impl Into<String>) -> Self {
        kazma_mesh::install_crypto_provider();
        let (port, requests) = serve(answer.into()).await;
        let (registry, names) = (Scripted::new(), Arc::new(Names::default()));
        let client = Client::new(
            Judge::default().with_own(HERE, port),
            Limits {
                total: Duration::from_secs(30),
                ..Limits::default()
            },
            names.clone(),
        );
        let options = Options {
            search: Some(Origin::read(&format!("http://127.0.0.1:{port}")).unwrap()),
            ..Options::default()
        };
        let on = Grounding {
            registry: registry.clone(),
            key: registry.key.verifying_key(),
            clock: Arc::new(Still(noon())),
            entropy: Arc::new(Counting::default()),
        };
        let stop = CancellationToken::new();
        Self {
            executor: executor(options, client, on, stop.clone()),
            registry,
            names,
            stop,
            port,
            requests,
        }
    }

    async fn plan(&self, tool: &str, arguments: Value) -> Plan {
        let request = Reach::parse(tool, &arguments).unwrap();
        let prepared = self.executor.hands.prepare(tool, &arguments, request);
        prepared.await.unwrap().plan
    }

    async fn fetch_plan(&self) -> Plan {
        let url = format!("http://site.example:{}/a", self.port);
        self.plan("read_url", json!({ "url": url })).await
    }

    async fn search_plan(&self) -> Plan {
        self.plan("web_search", json!({"query": "tea"})).await
    }

    /// Approves a plan and carries it out.
    async fn run(&self, plan: &Plan) {
        self.registry.approve(plan);
        for work in self.registry.with(|inner| std::mem::take(&mut inner.work)) {
            self.executor.start(work.call, work.plan, None);
        }
        self.executor.tasks.close();
        self.executor.tasks.wait().await;
        self.executor.tasks.reopen();
    }

    fn settled(&self) -> SettleRequest {
        self.registry
            .with(|inner| inner.settled.last().cloned())
            .expect("nothing was settled")
            .1
    }

    /// Requests and lookups so far.
    fn sent(&self) -> (usize, usize) {
        (
            self.requests.lock().unwrap().len(),
            self.names.0.load(Ordering::SeqCst),
        )
    }
}

async fn serve(answer: String) -> (u16, Arc<Mutex<Vec<String>>>) {
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
            seen.lock().unwrap().push(String::from_utf8(head).unwrap());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (port, requests)
}

fn answer(status: u16, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_plan_says_all_that_is_sent_and_sends_nothing() {
    let house = House::new(answer(200, "text/plain", "words")).await;
    let plan = house.fetch_plan().await;
    let Action::FetchUrl {
        host, url, sends, ..
    } = &plan.action
    else {
        panic!("{plan:?}");
    };
    assert_eq!(host, "site.example");
    assert_eq!(*url, format!("http://site.example:{}/a", house.port));
    assert_eq!(sends[0], "GET /a");
    assert_eq!(house.sent(), (0, 0));
    house.run(&plan).await;
    let head = house.requests.lock().unwrap()[0].to_ascii_lowercase();
    assert_eq!(head.trim_end().lines().count(), sends.len());
    for line in &sends[1..] {
        assert!(head.contains(&line.to_ascii_lowercase()), "{line}: {head}");
    }
}

#[tokio::test]
async fn an_approved_fetch_happens_once_and_is_settled_with_where_it_came_from() {
    let house = House::new(answer(200, "text/html", "<title>T</title>words")).await;
    let plan = house.fetch_plan().await;
    let call = house.registry.approve(&plan);
    house.registry.with(|inner| inner.work.clear());
    for _ in 0..3 {
        house.executor.start(call.clone(), plan.clone(), None);
    }
    house.executor.tasks.close();
    house.executor.tasks.wait().await;
    assert_eq!(house.sent(), (1, 1));
    let settled = house.settled();
    assert!(settled.outcome.ok);
    assert_eq!(settled.outcome.summary, "fetched, status 200, 21 bytes");
    assert_eq!(
        settled.output.origin,
        format!("http://site.example:{}/a", house.port)
    );
    assert!(
        settled
            .output
            .text
            .starts_with("Title: T\nAddress: http://site.example")
    );
    assert!(settled.output.text.ends_with("\nwords\n"));
}

#[tokio::test]
async fn without_a_redeemed_permit_nothing_is_sent_or_looked_up() {
    let house = House::new(answer(200, "text/plain", "words")).await;
    for fault in [
        Fault::OtherCall,
        Fault::OtherPlan,
        Fault::OtherAudience,
        Fault::OtherThread,
        Fault::Forged,
        Fault::Tampered,
    ] {
        house.registry.with(|inner| inner.faults.push_back(fault));
        house.run(&house.fetch_plan().await).await;
        assert_eq!(house.sent(), (0, 0), "{fault:?}");
    }
    house
        .registry
        .with(|inner| inner.refuse_redeems.push_back("permit-redeemed"));
    house.run(&house.search_plan().await).await;
    assert_eq!(house.sent(), (0, 0));
    assert!(house.registry.with(|inner| inner.settled.is_empty()));
}

#[tokio::test]
async fn what_an_earlier_process_began_is_lost_and_never_sent_again() {
    let house = House::new(answer(200, "text/plain", "words")).await;
    for plan in [house.fetch_plan().await, house.search_plan().await] {
        house.registry.claimed(&plan);
    }
    let claims = house.executor.old_claims(house.stop.clone()).await.unwrap();
    assert_eq!(claims.len(), 2);
    house.executor.recover(claims).await;
    assert_eq!(house.sent(), (0, 0));
    house.registry.with(|inner| {
        assert_eq!(inner.lost.len(), 2);
        assert!(
            inner
                .lost
                .iter()
                .all(|(_, what)| what.contains("not sent again"))
        );
    });
}

#[tokio::test]
async fn nothing_of_the_server_s_stands_in_the_summary() {
    for (answer, ok, summary) in [
        (
            answer(404, "text/plain", "gone"),
            false,
            "the server answered with status 404, 4 bytes",
        ),
        (
            answer(200, "evil/<|im_start|>", "x"),
            true,
            "fetched, status 200, 1 bytes",
        ),
        (
            "HTTP/1.1 200 <|im_start|>\r\nContent-Length: 1\r\n\r\nx".to_owned(),
            true,
            "fetched, status 200, 1 bytes",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab".to_owned(),
            true,
            "fetched, status 200, 2 bytes (cut there: the server broke off)",
        ),
        (
            "nonsense\r\n\r\n".to_owned(),
            false,
            "not fetched: the server broke the connection off",
        ),
        (
            "HTTP/1.1 302 F\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n"
                .to_owned(),
            false,
            "refused by url-scheme: only http and https are fetched. Name an address that begins with \
             https:// or http://.",
        ),
    ] {
        let house = House::new(answer).await;
        house.run(&house.fetch_plan().await).await;
        let settled = house.settled();
        assert_eq!(
            (settled.outcome.ok, settled.outcome.summary.as_str()),
            (ok, summary)
        );
    }
}

#[tokio::test]
async fn a_long_text_is_returned_in_the_parts_that_are_asked_for() {
    let words: Vec<String> = (0..100).map(|n| format!("wörd{n}")).collect();
    let house = House::new(answer(200, "text/plain; charset=utf-8", &words.join(" "))).await;
    let url = format!("http://site.example:{}/a", house.port);
    let mut text = String::new();
    for offset in [0, 300, 600] {
        let part = json!({"url": url, "offset": offset, "max_chars": 300});
        house.run(&house.plan("read_url", part).await).await;
        let output = house.settled().output;
        let body = output.text.split_once("\n\n").unwrap().1;
        let (body, rest) = body.split_once('\n').unwrap();
        assert_eq!(output.truncated, offset < 600, "{rest}");
        assert_eq!(rest.contains("gives what follows"), offset < 600, "{rest}");
        text.push_str(body);
    }
    assert_eq!(text, words.join(" "));
    let part = json!({"url": url, "offset": 5_000});
    house.run(&house.plan("read_url", part).await).await;
    assert!(house.settled().output.text.contains("the text ends before"));
}

#[tokio::test]
async fn what_a_search_service_does_wrong_is_said() {
    for (answer, words) in [
        (answer(403, "text/html", "x"), "its JSON format is off"),
        (answer(429, "text/html", "x"), "too many searches"),
        (
            answer(500, "text/html", "<|im_start|>"),
            "answered with status 500",
        ),
        (
            answer(200, "text/html", "<html>"),
            "did not answer with the JSON",
        ),
        (
            answer(200, "application/json", "[]"),
            "did not answer with the JSON",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{".to_owned(),
            "broke off in its answer",
        ),
        (
            "HTTP/1.1 301 M\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "url-other-origin",
        ),
    ] {
        let house = House::new(answer).await;
        house.run(&house.search_plan().await).await;
        let settled = house.settled();
        assert!(!settled.outcome.ok);
        assert!(
            settled.outcome.summary.contains(words),
            "{}",
            settled.outcome.summary
        );
        assert!(!settled.outcome.summary.contains("im_start"));
    }
    let house = House::new(answer(
        200,
        "application/json",
        "{\"results\": [7, {}, {\"url\": 1}]}",
    ))
    .await;
    house.run(&house.search_plan().await).await;
    assert_eq!(house.settled().outcome.summary, "0 results");
    assert!(house.settled().output.text.contains("nothing was found"));
}

#[tokio::test]
async fn what_will_not_be_done_is_refused_with_a_rule_and_a_fix() {
    let house = House::new(answer(200, "text/plain", "x")).await;
    let long = "x".repeat(1_001);
    for (tool, arguments, rule) in [
        ("read_url", json!({"url": "example.com"}), "url-malformed"),
        (
            "read_url",
            json!({"url": "ftp://example.com/"}),
            "url-scheme",
        ),
        (
            "read_url",
            json!({"url": "http:/example.com/"}),
            "url-ambiguous",
        ),
        (
            "read_url",
            json!({"url": "http://example.com:22/"}),
            "url-port",
        ),
        (
            "read_url",
            json!({"url": "http://printer.local/"}),
            "url-name",
        ),
        (
            "read_url",
            json!({"url": "http://0x7f.1/"}),
            "url-special-address",
        ),
        (
            "read_url",
            json!({"url": "https://me:pw@example.com/"}),
            "url-user-info",
        ),
        ("web_search", json!({"query": " "}), "query-empty"),
        ("web_search", json!({"query": "a\nb"}), "query-control"),
        ("web_search", json!({"query": long}), "query-long"),
    ] {
        let request = Reach::parse(tool, &arguments).unwrap();
        let refused = house.executor.hands.plan(request).await.unwrap_err();
        assert_eq!(refused.rule, rule);
        // What is wrong, and what to do.
        assert!(
            refused.reason.matches(". ").count() >= 1,
            "{}",
            refused.reason
        );
        assert!(refused.reason.ends_with('.'), "{}", refused.reason);
    }
    assert_eq!(house.sent(), (0, 0));
}

//! Event streams: live, resumed, bounded.

use std::time::Duration;

use axum::response::Response;
use futures_util::StreamExt as _;
use kazma_domain::{MessageId, Role, TurnState};
use kazma_gateway::model::DeltaSink as _;
use kazma_wire::{agent::EntryKind, events::What};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    double::{gate_id, thread_id, turn_id},
    house::{House, Plan, Show, request},
};

/// An open stream, read frame by frame.
struct Frames {
    body: axum::body::BodyDataStream,
    text: String,
}

/// One event.
#[derive(Debug, PartialEq)]
struct Frame {
    name: String,
    id: Option<i64>,
    data: Value,
}

impl Frames {
    fn of(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            body: response.into_body().into_data_stream(),
            text: String::new(),
        }
    }

    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            while let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| {
                    frame
                        .lines()
                        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                        .map(|v| v.trim().to_owned())
                };
                if let Some(name) = field("event") {
                    return Some(Frame {
                        name,
                        id: field("id").map(|id| id.parse().unwrap()),
                        data: serde_json::from_str(&field("data").unwrap()).unwrap(),
                    });
                }
            }
            let chunk = tokio::time::timeout(Duration::from_secs(20), self.body.next())
                .await
                .expect("no event came")?;
            self.text
                .push_str(&String::from_utf8_lossy(&chunk.unwrap()));
        }
    }

    async fn until(&mut self, name: &str) -> Frame {
        loop {
            let frame = self.next().await.expect("the stream ended");
            if frame.name == name {
                return frame;
            }
        }
    }
}

async fn follow(house: &House, path: &str, show: &Show, last: Option<i64>) -> Frames {
    let mut builder = request("GET", path, show);
    if let Some(last) = last {
        builder = builder.header("last-event-id", last.to_string());
    }
    Frames::of(
        house
            .raw(
                "127.0.0.1",
                builder.body(axum::body::Body::empty()).unwrap(),
            )
            .await,
    )
}

async fn lively() -> House {
    let house = House::open().await;
    let thread = house.registry.thread(1, "hello");
    house.registry.ask(1, thread);
    let app = house.app.clone();
    tokio::spawn(async move { app.follow().await });
    house
}

fn pending() -> What {
    What::GatePending { gate: gate_id(1) }
}

#[tokio::test]
async fn what_happens_is_told_live_with_all_there_is_to_know() {
    let house = lively().await;
    let mut frames = follow(
        &house,
        &format!("/api/threads/{}/events", thread_id(1)),
        &House::operator(),
        None,
    )
    .await;
    let seq = house.registry.tell(thread_id(1), pending());
    let frame = frames.next().await.unwrap();
    assert_eq!((frame.name.as_str(), frame.id), ("gate.pending", Some(seq)));
    assert_eq!(frame.data["gate_id"], gate_id(1).to_string());
    assert!(
        frame.data["args_digest"]
            .as_str()
            .unwrap()
            .starts_with("sha256:")
    );

    let message = MessageId::from_uuid(Uuid::from_u128(5));
    house.registry.add(
        thread_id(1),
        5,
        EntryKind::Reply {
            text: "45".to_owned(),
        },
    );
    house.registry.tell(thread_id(1), What::Reply { message });
    let frame = frames.until("message.done").await;
    assert_eq!(
        (&frame.data["text"], &frame.data["role"]),
        (&json!("45"), &json!("agent"))
    );
    assert_eq!(frame.data["message_id"], message.to_string());

    house.registry.tell(
        thread_id(1),
        What::Turn {
            state: TurnState::Running,
        },
    );
    house.registry.tell(
        thread_id(1),
        What::Turn {
            state: TurnState::Done,
        },
    );
    let frame = frames.until("turn.done").await;
    assert_eq!(
        (&frame.data["state"], &frame.data["turn_id"]),
        (&json!("done"), &json!(turn_id(1)))
    );
}

#[tokio::test]
async fn words_and_output_pass_without_an_id() {
    let house = lively().await;
    let mut frames = follow(&house, "/api/events", &House::operator(), None).await;
    house.hub.text(thread_id(1), turn_id(1), "forty");
    let frame = frames.next().await.unwrap();
    assert_eq!(
        (frame.name.as_str(), frame.id, &frame.data["text"]),
        ("message.delta", None, &json!("forty"))
    );
}

#[tokio::test]
async fn who_comes_back_reads_what_they_missed_once_and_goes_on() {
    let house = lively().await;
    let mut first = follow(&house, "/api/events", &House::operator(), None).await;
    let seqs: Vec<i64> = (0..5)
        .map(|_| house.registry.tell(thread_id(1), pending()))
        .collect();
    // Told live to somebody, so the hub has seen them all.
    for seq in &seqs {
        assert_eq!(first.next().await.unwrap().id, Some(*seq));
    }
    let mut second = follow(&house, "/api/events", &House::operator(), Some(seqs[1])).await;
    let mut third = follow(
        &house,
        &format!("/api/events?after={}", seqs[3]),
        &House::operator(),
        None,
    )
    .await;
    let later = house.registry.tell(
        thread_id(1),
        What::GateSettled {
            gate: gate_id(1),
            state: "approved".to_owned(),
        },
    );
    for expected in [seqs[2], seqs[3], seqs[4], later] {
        assert_eq!(second.next().await.unwrap().id, Some(expected));
    }
    for expected in [seqs[4], later] {
        assert_eq!(third.next().await.unwrap().id, Some(expected));
    }
}

#[tokio::test]
async fn a_gateway_that_is_behind_its_client_repeats_nothing() {
    let house = House::open().await;
    let thread = house.registry.thread(1, "hello");
    house.registry.ask(1, thread);
    let seen = house.registry.tell(thread, pending());
    let mut frames = follow(&house, "/api/events", &House::operator(), Some(seen)).await;
    let new = house.registry.tell(thread, pending());
    // Only now does the gateway read both.
    let app = house.app.clone();
    tokio::spawn(async move { app.follow().await });
    assert_eq!(frames.next().await.unwrap().id, Some(new));
}

#[tokio::test]
async fn a_thread_tells_nothing_of_another() {
    let house = lively().await;
    house.registry.thread(2, "another");
    let mut frames = follow(
        &house,
        &format!("/api/threads/{}/events", thread_id(2)),
        &House::operator(),
        None,
    )
    .await;
    house.registry.tell(thread_id(1), pending());
    let seq = house.registry.tell(
        thread_id(2),
        What::Turn {
            state: TurnState::Failed,
        },
    );
    assert_eq!(frames.next().await.unwrap().id, Some(seq));
    let got = house
        .get(
            &format!("/api/threads/{}/events", thread_id(9)),
            &House::operator(),
        )
        .await;
    assert_eq!(got.status, 404);
}

#[tokio::test]
async fn nothing_is_lost_or_told_twice_when_the_registry_breaks_off() {
    let house = lively().await;
    let mut frames = follow(&house, "/api/events", &House::operator(), None).await;
    let mut expected = Vec::new();
    for _ in 0..4 {
        expected.push(house.registry.tell(thread_id(1), pending()));
        house.registry.break_off();
        expected.push(house.registry.tell(thread_id(1), pending()));
        let told = [
            frames.next().await.unwrap().id.unwrap(),
            frames.next().await.unwrap().id.unwrap(),
        ];
        assert_eq!(told[..], expected[expected.len() - 2..]);
    }
    let followed = house.registry.followed.lock().unwrap().clone();
    assert!(
        followed.is_sorted(),
        "the follower goes on where it was: {followed:?}"
    );
}

#[tokio::test]
async fn a_restarted_gateway_does_not_tell_old_news() {
    let house = lively().await;
    let mut frames = follow(&house, "/api/events", &House::operator(), None).await;
    let old = house.registry.tell(thread_id(1), pending());
    assert_eq!(frames.next().await.unwrap().id, Some(old));
    // The cursor is written about a second later; this waits for the write and not for the second.
    let noted = tokio::time::timeout(Duration::from_secs(20), house.app.cursor_reaches(old)).await;
    assert!(noted.is_ok(), "the cursor was not written");
    drop(frames);
    let house = house.again().await;
    house.registry.followed.lock().unwrap().clear();
    let app = house.app.clone();
    tokio::spawn(async move { app.follow().await });
    let mut frames = follow(&house, "/ui/events", &House::operator(), None).await;
    let new = house.registry.tell(
        thread_id(1),
        What::GateSettled {
            gate: gate_id(1),
            state: "denied".to_owned(),
        },
    );
    let frame = frames.next().await.unwrap();
    assert_eq!((frame.name.as_str(), frame.id), ("gate", Some(new)));
    assert_eq!(
        frame.data,
        json!({"gate_id": gate_id(1), "thread_id": thread_id(1), "state": "denied"})
    );
    assert_eq!(house.registry.followed.lock().unwrap()[0], old);
}

#[tokio::test]
async fn signing_out_ends_the_streams_of_that_session_alone() {
    let house = lively().await;
    let (lea, omar) = (
        house.person("Lea", Role::Viewer).await,
        house.person("Omar", Role::Viewer).await,
    );
    let mut hers = follow(&house, "/ui/events", &lea, None).await;
    let mut his = follow(&house, "/ui/events", &omar, None).await;
    assert_eq!(
        house.post("/api/auth/logout", &lea, json!({})).await.status,
        204
    );
    assert_eq!(hers.next().await.unwrap().name, "end");
    assert_eq!(hers.next().await, None);
    let seq = house.registry.tell(thread_id(1), pending());
    assert_eq!(his.next().await.unwrap().id, Some(seq));
}

#[tokio::test]
async fn a_stopping_gateway_says_goodbye() {
    let house = lively().await;
    let mut frames = follow(&house, "/api/events", &House::operator(), None).await;
    house.stop.cancel();
    assert_eq!(frames.next().await.unwrap().name, "end");
    assert_eq!(frames.next().await, None);
}

#[tokio::test]
async fn one_person_has_so_many_streams() {
    let house = House::with(Plan {
        streams: 2,
        ..Plan::default()
    })
    .await;
    let one = follow(&house, "/api/events", &House::operator(), None).await;
    let _two = follow(&house, "/ui/events", &House::operator(), None).await;
    assert_eq!(
        house.get("/api/events", &House::operator()).await.status,
        429
    );
    let lea = house.person("Lea", Role::Viewer).await;
    let _other = follow(&house, "/api/events", &lea, None).await;
    drop(one);
    let _again = follow(&house, "/api/events", &House::operator(), None).await;
}

#[tokio::test]
async fn who_is_too_slow_is_let_go_and_others_are_not() {
    let house = House::open().await;
    let mut slow = follow(&house, "/api/events", &House::operator(), None).await;
    // The stream is open, and its owner takes nothing from now on.
    for n in 0..3000 {
        house.hub.text(thread_id(1), turn_id(1), &n.to_string());
    }
    let mut names = Vec::new();
    while let Some(frame) = slow.next().await {
        names.push(frame.name);
    }
    assert_eq!(names, ["end"]);
}

//! Serves every page with sample data and the real Content-Security-Policy, so that a person can look at them.
//!
//! `cargo run -p kazma-gateway --example preview -- 127.0.0.1:8099` (or without an address, for a free port), then open
//! `/`. Decisions are kept in memory; `/push` sends the events of a new card to every open page, `/say` streams a reply.

use std::{
    collections::HashMap,
    error::Error,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use askama::Template;
use axum::{
    Form, Router,
    extract::{Path, Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Redirect, Response, Sse, sse::Event},
    routing::{get, post},
};
use futures_util::{Stream, StreamExt as _};
use kazma_gateway::pages::{
    ApprovalsPage, Band, Card, CardPart, CardState, ChatPage, ErrorPage, Exact, GatePage, Message,
    MessagesPart, Moment, Shell, SignInPage, ThreadPage, ThreadsPage, asset,
};
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;

struct Preview {
    decided: Mutex<HashMap<String, CardState>>,
    events: broadcast::Sender<(&'static str, String)>,
    nonces: AtomicU64,
}

type Shared = State<Arc<Preview>>;
type Asked = Query<HashMap<String, String>>;

impl Preview {
    fn nonce(&self) -> String {
        format!("preview{}", self.nonces.fetch_add(1, Ordering::Relaxed))
    }

    /// The frame as the query asks: `?theme=dark&dir=rtl&bands=3`.
    fn shell(&self, shell: Shell, asked: &HashMap<String, String>) -> Shell {
        let mut shell = Shell {
            nonce: self.nonce(),
            ..shell
        };
        if let Some(theme) = asked.get("theme") {
            shell.theme.clone_from(theme);
        }
        if asked.get("dir").is_some_and(|dir| dir == "rtl") {
            "rtl".clone_into(&mut shell.dir);
            "ar".clone_into(&mut shell.lang);
        }
        if asked.contains_key("bands") {
            shell.bands.push(Band::no_isolation(
                "this kernel forbids user namespaces.",
                "Set kernel.unprivileged_userns_clone=1 and restart.",
            ));
            shell
                .bands
                .push(Band::frozen("Lift it with kazma unfreeze."));
        }
        shell
    }

    fn card(&self, id: &str, place: &str) -> Card {
        let state = self
            .decided
            .lock()
            .ok()
            .and_then(|decided| decided.get(id).copied());
        let known = [Card::sample(), Card::sample_write(), long_card()]
            .into_iter()
            .find(|card| card.gate_id == id);
        let card = known.unwrap_or_else(|| Card {
            gate_id: id.to_owned(),
            ..Card::sample()
        });
        let settled = Card::sample_in(state.unwrap_or(CardState::Waiting));
        let place = place.to_owned();
        match state {
            None => Card { place, ..card },
            Some(_) => Card {
                gate_id: card.gate_id,
                headline: card.headline,
                exact: card.exact,
                place,
                ..settled
            },
        }
    }
}

fn long_card() -> Card {
    let code: String = (1..80).fold(String::new(), |code, n| {
        code + &format!("total_{n} = sum(range({n})) + previous_{n}\n")
    });
    Card {
        gate_id: "gate_long".to_owned(),
        args_digest: "sha256:10".to_owned(),
        headline: "Run 79 lines of Python. No network, workspace read-only.".to_owned(),
        exact: vec![
            Exact::code("code", &code),
            Exact::field("host", "p\u{0430}ypal.com"),
        ],
        times: 3,
        seconds_left: 45,
        ..Card::sample()
    }
}

/// A page or part with the policy its nonce belongs to.
fn page(status: StatusCode, nonce: &str, template: &impl Template) -> Response {
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types htmx"
    );
    let Ok(html) = template.render() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let mut response = (status, Html(html)).into_response();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response
            .headers_mut()
            .insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

async fn show(State(preview): Shared, Path(name): Path<String>, Query(asked): Asked) -> Response {
    let ok = StatusCode::OK;
    let shell = |shell: Shell| preview.shell(shell, &asked);
    match name.as_str() {
        "login" => {
            let sample = SignInPage::sample();
            let error = asked.get("error").cloned().unwrap_or_default();
            let sample = SignInPage {
                shell: shell(sample.shell),
                error,
                ..sample
            };
            page(ok, &sample.shell.nonce, &sample)
        }
        "chat" => {
            let sample = ChatPage::sample();
            let text = asked.get("text").cloned().unwrap_or_default();
            let sample = ChatPage {
                shell: shell(sample.shell),
                text,
                ..sample
            };
            page(ok, &sample.shell.nonce, &sample)
        }
        "threads" => {
            let sample = ThreadsPage::sample();
            let sample = ThreadsPage {
                shell: shell(sample.shell),
                ..sample
            };
            page(ok, &sample.shell.nonce, &sample)
        }
        "approvals" => {
            let sample = ApprovalsPage::sample();
            let ids = [
                long_card().gate_id,
                Card::sample().gate_id,
                Card::sample_write().gate_id,
            ];
            let waiting = if asked.contains_key("none") {
                Vec::new()
            } else {
                ids.map(|id| preview.card(&id, "")).into()
            };
            let sample = ApprovalsPage {
                shell: shell(sample.shell),
                waiting,
                ..sample
            };
            page(ok, &sample.shell.nonce, &sample)
        }
        _ => {
            let sample = ErrorPage::sample();
            let sample = ErrorPage {
                shell: shell(sample.shell),
                ..sample
            };
            page(StatusCode::NOT_FOUND, &sample.shell.nonce, &sample)
        }
    }
}

async fn gate(State(preview): Shared, Path(id): Path<String>, Query(asked): Asked) -> Response {
    let sample = GatePage::sample();
    let sample = GatePage {
        shell: preview.shell(sample.shell, &asked),
        card: preview.card(&id, ""),
    };
    page(StatusCode::OK, &sample.shell.nonce, &sample)
}

async fn thread(State(preview): Shared, Query(asked): Asked) -> Response {
    let sample = ThreadPage::sample();
    let card = preview.card(&Card::sample().gate_id, "side");
    let sample = ThreadPage {
        shell: preview.shell(sample.shell, &asked),
        messages: messages(&preview).messages,
        side: if card.waiting() {
            vec![card]
        } else {
            Vec::new()
        },
        ..sample
    };
    page(StatusCode::OK, &sample.shell.nonce, &sample)
}

fn messages(preview: &Preview) -> MessagesPart {
    let mut part = MessagesPart {
        nonce: preview.nonce(),
        ..MessagesPart::sample()
    };
    part.messages.pop();
    part.messages
        .push(Message::gate(preview.card(&Card::sample().gate_id, "")));
    let said = preview.nonces.load(Ordering::Relaxed);
    part.messages.push(Message::notice(
        "m9",
        Moment::from_unix_ms(1_795_960_920_000),
        &format!("Fetched {said} answers."),
    ));
    part
}

async fn part(State(preview): Shared, Path(id): Path<String>, Query(asked): Asked) -> Response {
    let place = asked.get("place").map_or("", String::as_str);
    let part = CardPart {
        nonce: preview.nonce(),
        card: preview.card(&id, place),
        ..CardPart::sample()
    };
    page(StatusCode::OK, &part.nonce, &part)
}

async fn decide(
    State(preview): Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
    Form(form): Form<HashMap<String, String>>,
) -> Response {
    let state = if form.get("decision").is_some_and(|word| word == "approve") {
        CardState::Ran
    } else {
        CardState::Denied
    };
    if let Ok(mut decided) = preview.decided.lock() {
        decided.insert(id.clone(), state);
    }
    let _ = preview.events.send((
        "gate",
        format!(r#"{{"gate_id":"{id}","thread_id":"t","state":"approved"}}"#),
    ));
    if !headers.contains_key("hx-request") {
        return Redirect::to(form.get("return_to").map_or("/approvals", String::as_str))
            .into_response();
    }
    let place = form.get("place").map_or("", String::as_str);
    let part = CardPart {
        nonce: preview.nonce(),
        card: preview.card(&id, place),
        ..CardPart::sample()
    };
    page(StatusCode::OK, &part.nonce, &part)
}

async fn thread_part(State(preview): Shared) -> Response {
    let part = messages(&preview);
    page(StatusCode::OK, &part.nonce, &part)
}

async fn push(State(preview): Shared, Query(asked): Asked) -> &'static str {
    let id = asked
        .get("id")
        .cloned()
        .unwrap_or_else(|| format!("gate_new{}", preview.nonce()));
    let thread = ThreadPage::sample().thread_id;
    let _ = preview.events.send((
        "gate",
        format!(r#"{{"gate_id":"{id}","thread_id":"{thread}","state":"pending"}}"#),
    ));
    "pushed"
}

async fn say(State(preview): Shared) -> &'static str {
    let thread = ThreadPage::sample().thread_id;
    for word in ["The ", "sum ", "is ", "<b>45</b>."] {
        let text = format!(r#"{{"thread_id":"{thread}","turn_id":"t1","text":"{word}"}}"#);
        let _ = preview.events.send(("delta", text));
    }
    "said"
}

async fn events(
    State(preview): Shared,
) -> Sse<impl Stream<Item = Result<Event, std::convert::Infallible>>> {
    let events = BroadcastStream::new(preview.events.subscribe()).filter_map(async |event| {
        event
            .ok()
            .map(|(name, data)| Ok(Event::default().event(name).data(data)))
    });
    Sse::new(events)
}

async fn file(Path(name): Path<String>) -> Response {
    asset(&name).map_or_else(
        || StatusCode::NOT_FOUND.into_response(),
        |asset| ([(header::CONTENT_TYPE, asset.content_type)], asset.bytes).into_response(),
    )
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let preview = Arc::new(Preview {
        decided: Mutex::default(),
        events: broadcast::channel(64).0,
        nonces: AtomicU64::new(0),
    });
    let app = Router::new()
        .route("/", get(async || Redirect::to("/approvals")))
        .route("/assets/{name}", get(file))
        .route("/gates/{id}", get(gate))
        .route("/gates/{id}/decision", post(decide))
        .route("/threads", post(async || Redirect::to("/threads/sample")))
        .route("/threads/{id}", get(thread))
        .route("/threads/{id}/messages", post(thread_part))
        .route("/ui/gates/{id}", get(part))
        .route("/ui/threads/{id}/messages", get(thread_part))
        .route(
            "/ui/count",
            get(async || axum::Json(serde_json::json!({ "pending": 3 }))),
        )
        .route("/ui/events", get(events))
        .route("/push", get(push))
        .route("/say", get(say))
        .route("/login/link", post(async |form: String| form))
        .route("/{name}", get(show))
        .with_state(preview);
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

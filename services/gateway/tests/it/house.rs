//! A gateway in this process, and people who knock.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Body, response::Response};
use camino::Utf8Path;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use kazma_domain::{Clock, Role};
use kazma_gateway::{App, Connection, Hub, Means, Rates, Settings, public_router};
use kazma_runtime::SystemEntropy;
use kazma_wire::{Problem, model::ModelInfo};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::double::{Double, at};

pub(crate) const TOKEN: &str = "kazma_the-token-of-the-data-folder";
pub(crate) const SECRET: &str = "correct horse battery staple";
pub(crate) const ORIGIN: &str = "http://localhost:9090";

/// A clock that goes when it is told to.
#[derive(Debug)]
pub(crate) struct ManualClock(Mutex<Timestamp>);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

impl ManualClock {
    pub(crate) fn pass(&self, time: SignedDuration) {
        let mut now = self.0.lock().unwrap();
        *now = now.checked_add(time).unwrap();
    }
}

/// What a test may change about the house.
pub(crate) struct Plan {
    pub(crate) public_url: Option<String>,
    /// Whether the listener speaks TLS itself.
    pub(crate) https: bool,
    pub(crate) rates: Rates,
    pub(crate) trusted_proxies: Vec<kazma_gateway::Net>,
    pub(crate) streams: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            public_url: None,
            https: false,
            rates: Rates::default(),
            trusted_proxies: Vec::new(),
            streams: 16,
        }
    }
}

pub(crate) struct House {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) registry: Arc<Double>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) hub: Hub,
    pub(crate) app: App,
    pub(crate) stop: CancellationToken,
    /// Whether requests come over TLS.
    pub(crate) secure: bool,
    router: Router,
}

/// How a request shows who sends it.
#[derive(Debug, Clone)]
pub(crate) enum Show {
    Nothing,
    Bearer(String),
    /// A session's cookie and form token.
    Cookie(String, String),
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{} {}", self.status, self.body))
    }

    pub(crate) fn problem(&self) -> Problem {
        assert_eq!(
            self.headers[header::CONTENT_TYPE],
            "application/problem+json",
            "{self:?}"
        );
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

impl House {
    pub(crate) async fn open() -> Self {
        Self::with(Plan::default()).await
    }

    pub(crate) async fn with(plan: Plan) -> Self {
        let clock = Arc::new(ManualClock(Mutex::new(at(0))));
        Self::at(
            plan,
            tempfile::tempdir().unwrap(),
            clock,
            Arc::new(Double::default()),
        )
        .await
    }

    /// The same house after a restart.
    pub(crate) async fn again(self) -> Self {
        let Self {
            folder,
            registry,
            clock,
            app,
            router,
            stop,
            ..
        } = self;
        stop.cancel();
        app.close().await;
        drop((app, router));
        Self::at(Plan::default(), folder, clock, registry).await
    }

    async fn at(
        plan: Plan,
        folder: tempfile::TempDir,
        clock: Arc<ManualClock>,
        registry: Arc<Double>,
    ) -> Self {
        let path = Utf8Path::from_path(folder.path()).unwrap();
        let settings = Settings {
            folder: path.to_owned(),
            public_url: plan.public_url,
            https: plan.https,
            secret: Some(SECRET.into()),
            api_token: TOKEN.into(),
            services_file: path.join("services.json"),
            trusted_proxies: plan.trusted_proxies,
            production: false,
            rates: plan.rates,
            streams_per_person: plan.streams,
        };
        let (hub, stop) = (Hub::default(), CancellationToken::new());
        let means = Means {
            clock: clock.clone(),
            entropy: Arc::new(SystemEntropy),
            registry: registry.clone(),
            runner: registry.clone(),
            hub: hub.clone(),
            model: ModelInfo {
                name: "demo".to_owned(),
                demo: true,
                context_bytes: 1,
            },
            stop: stop.clone(),
        };
        let app = App::open(settings, means, "127.0.0.1:9090".parse().unwrap())
            .await
            .unwrap();
        let router = public_router(app.clone());
        Self {
            folder,
            registry,
            clock,
            hub,
            app,
            stop,
            secure: plan.https,
            router,
        }
    }

    /// Sends a request as it is, from `peer`.
    pub(crate) async fn raw(&self, peer: &str, mut request: Request<Body>) -> Response {
        let peer: SocketAddr = format!("{peer}:4000").parse().unwrap();
        request.extensions_mut().insert(Connection {
            peer,
            local: "127.0.0.1:9090".parse().unwrap(),
            secure: self.secure,
        });
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Got {
        read(self.raw("127.0.0.1", request).await).await
    }

    pub(crate) async fn get(&self, path: &str, show: &Show) -> Got {
        self.send(request("GET", path, show).body(Body::empty()).unwrap())
            .await
    }

    pub(crate) async fn delete(&self, path: &str, show: &Show) -> Got {
        self.send(request("DELETE", path, show).body(Body::empty()).unwrap())
            .await
    }

    pub(crate) async fn post(&self, path: &str, show: &Show, body: Value) -> Got {
        let request = request("POST", path, show).header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap())
            .await
    }

    /// Sends a page's form, with the session's form token.
    pub(crate) async fn form(&self, path: &str, show: &Show, fields: &[(&str, &str)]) -> Got {
        let csrf = if let Show::Cookie(_, csrf) = show {
            csrf.as_str()
        } else {
            ""
        };
        let mut all = vec![("csrf", csrf)];
        all.extend(fields);
        self.send(form(path, show).body(Body::from(encoded(&all))).unwrap())
            .await
    }

    /// The operator, by the token of the data folder.
    pub(crate) fn operator() -> Show {
        Show::Bearer(TOKEN.to_owned())
    }

    /// A new person's one-time code.
    pub(crate) async fn invite(&self, name: &str, role: Role) -> String {
        let got = self
            .post(
                "/api/users",
                &Self::operator(),
                json!({"name": name, "role": role}),
            )
            .await;
        assert_eq!(got.status, 201, "{}", got.body);
        code(got.json()["login_url"].as_str().unwrap())
    }

    /// A new person, signed in by their link.
    pub(crate) async fn person(&self, name: &str, role: Role) -> Show {
        let code = self.invite(name, role).await;
        session(&self.enter(&code).await)
    }

    /// Signs in with a secret or code through the API.
    pub(crate) async fn enter(&self, secret: &str) -> Got {
        self.post("/api/auth/login", &Show::Nothing, json!({"secret": secret}))
            .await
    }
}

/// The code in a sign-in link.
pub(crate) fn code(login_url: &str) -> String {
    login_url
        .strip_prefix("http://localhost:9090/login#token=")
        .unwrap()
        .to_owned()
}

/// The session that an answer of a sign-in opens.
pub(crate) fn session(got: &Got) -> Show {
    assert_eq!(got.status, 200, "{}", got.body);
    let cookie = got
        .header("set-cookie")
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    Show::Cookie(
        cookie,
        got.json()["csrf_token"].as_str().unwrap().to_owned(),
    )
}

pub(crate) async fn read(response: Response) -> Got {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Got {
        status: parts.status,
        headers: parts.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

/// A request as a program sends it: with a cookie, it shows the form token too.
pub(crate) fn request(method: &str, path: &str, show: &Show) -> http::request::Builder {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "localhost:9090");
    match show {
        Show::Nothing => request,
        Show::Bearer(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
        Show::Cookie(cookie, csrf) => request
            .header(header::COOKIE, cookie)
            .header("x-csrf-token", csrf),
    }
}

/// A form as a browser sends it.
pub(crate) fn form(path: &str, show: &Show) -> http::request::Builder {
    let request = Request::builder()
        .method("POST")
        .uri(path)
        .header(header::HOST, "localhost:9090")
        .header(header::ORIGIN, ORIGIN)
        .header(header::ACCEPT, "text/html")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    match show {
        Show::Cookie(cookie, _) => request.header(header::COOKIE, cookie),
        Show::Bearer(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
        Show::Nothing => request,
    }
}

pub(crate) fn encoded(fields: &[(&str, &str)]) -> String {
    let escape = |text: &str| {
        text.bytes().fold(String::new(), |out, byte| {
            if byte.is_ascii_alphanumeric() {
                out + &char::from(byte).to_string()
            } else {
                out + &format!("%{byte:02X}")
            }
        })
    };
    fields
        .iter()
        .map(|(name, value)| format!("{}={}", escape(name), escape(value)))
        .collect::<Vec<_>>()
        .join("&")
}

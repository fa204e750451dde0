//! The pages: view models filled from what the registry says, and forms that work without scripts.

mod chat;
mod door;
mod fill;
mod inbox;
mod ui;

use std::fmt::Write as _;

use askama::Template;
use axum::{
    Router,
    extract::Request,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use kazma_edge::ApiError;
use kazma_wire::Problem;
use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    access::{SignedIn, cookie},
    app::App,
    guard::{layers::Facts, path::is_canonical},
    pages::{Band, ErrorPage, Section, Shell, Tone},
};

/// The cookie that remembers how a browser wants the pages to look.
const THEME: &str = "kazma-theme";

pub(crate) fn router() -> Router<App> {
    Router::new()
        .route("/", get(chat::begin))
        .route("/chat", get(chat::begin))
        .route("/login", get(door::show).post(door::enter))
        .route("/login/link", post(door::enter_by_link))
        .route("/logout", post(door::leave))
        .route("/threads", get(chat::list).post(chat::open))
        .route("/threads/{id}", get(chat::show))
        .route("/threads/{id}/messages", post(chat::say))
        .route("/turns/{id}/abort", post(chat::abort))
        .route("/approvals", get(inbox::list))
        .route("/gates/{id}", get(inbox::show))
        .route("/gates/{id}/decision", post(inbox::decide))
        .route("/gates/{id}/extend", post(inbox::extend))
        .route("/ui/events", get(ui::events))
        .route("/ui/count", get(ui::count))
        .route("/ui/gates/{id}", get(ui::gate))
        .route("/ui/threads/{id}/messages", get(ui::messages))
        .route("/ui/theme", post(ui::theme))
        .route("/assets/{name}", get(ui::asset))
}

/// Whether a path is one that a person opens, and not one that a program or script calls.
pub(crate) fn is_page(parts: &Parts) -> bool {
    page_path(parts.uri.path(), &parts.headers)
}

fn page_path(path: &str, headers: &HeaderMap) -> bool {
    let scripted = ["/api/", "/health/", "/assets/"]
        .iter()
        .any(|start| path.starts_with(start))
        || path.starts_with("/ui/") && path != "/ui/theme"
        || headers.contains_key("hx-request");
    !scripted
}

/// Whether a problem is best told as a page.
pub(crate) fn wants_page(request: &Request) -> bool {
    let html = request
        .headers()
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"));
    html && page_path(request.uri().path(), request.headers())
}

/// Whether htmx asks, and so wants a part of a page.
fn by_htmx(headers: &HeaderMap) -> bool {
    headers.contains_key("hx-request")
}

/// The sign-in page, which leads back to `target` afterwards.
pub(crate) fn login_path(target: &str) -> String {
    let mut path = "/login?next=".to_owned();
    for byte in target.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            // Writing into a String cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path
}

/// `target` if it is a path of ours, else `otherwise`.
fn home(target: &str, otherwise: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let safe =
        is_canonical(path) && target.len() <= 2048 && target.chars().all(|c| c.is_ascii_graphic());
    if safe && !path.starts_with("/login") {
        target.to_owned()
    } else {
        otherwise.to_owned()
    }
}

fn theme(headers: &HeaderMap) -> &'static str {
    match cookie(headers, THEME)
        .as_ref()
        .map(SecretString::expose_secret)
    {
        Some("light") => "light",
        Some("dark") => "dark",
        _ => "auto",
    }
}

/// A frame with nobody in it.
fn bare_shell(app: &App, facts: &Facts, headers: &HeaderMap, title: &str) -> Shell {
    let mut bands = Vec::new();
    if app.model().demo {
        bands.push(Band::demo());
    }
    if app.is_production() {
        bands.push(Band::production());
    }
    Shell {
        nonce: facts.nonce.clone(),
        csrf: String::new(),
        lang: "en".to_owned(),
        dir: "ltr".to_owned(),
        theme: theme(headers).to_owned(),
        title: title.to_owned(),
        path: "/".to_owned(),
        person: String::new(),
        role: String::new(),
        section: Section::Elsewhere,
        pending: 0,
        bands,
    }
}

/// What a page is made in: who reads it and how.
#[derive(Debug, Clone, Copy)]
struct Frame<'a> {
    app: &'a App,
    facts: &'a Facts,
    headers: &'a HeaderMap,
    who: &'a SignedIn,
}

impl Frame<'_> {
    /// The frame of a page of a signed-in person.
    async fn shell(&self, title: &str, section: Section, path: &str) -> Shell {
        let pending = self
            .app
            .registry()
            .gates(Some("pending"), 1000, None)
            .await
            .map_or(0, |gates| gates.len());
        let mut shell = bare_shell(self.app, self.facts, self.headers, title);
        shell.csrf = self.who.csrf();
        shell.person.clone_from(&self.who.person.name);
        shell.role = self.who.person.role.to_string();
        shell.section = section;
        shell.path = path.to_owned();
        shell.pending = u64::try_from(pending).unwrap_or(u64::MAX);
        shell.bands.extend(self.bands().await);
        shell
    }

    async fn bands(&self) -> Vec<Band> {
        let mut bands = Vec::new();
        match self.app.runner_lately().await {
            Some(runner) if runner.ready => {}
            Some(runner) if runner.starting => bands.push(Band {
                tone: Tone::Note,
                text: "The sandboxes are being tried out.".to_owned(),
                fix: "Code runs in a moment.".to_owned(),
            }),
            Some(runner) => bands.push(Band::no_isolation(&runner.reason, &runner.fix)),
            None => bands.push(Band::no_isolation(
                "the runner does not answer.",
                "It is started again by itself; look again in a moment.",
            )),
        }
        let (state, hint) = self.app.proxies().state();
        if state == "undeclared_proxy" {
            bands.push(Band {
                tone: Tone::Warn,
                text: "An undeclared proxy was seen.".to_owned(),
                fix: hint.to_owned(),
            });
        }
        bands
    }
}

/// A rendered page or part.
fn html(status: StatusCode, template: &impl Template) -> Result<Response, ApiError> {
    let text = template
        .render()
        .map_err(|error| ApiError::internal(&error))?;
    let media = HeaderValue::from_static("text/html; charset=utf-8");
    Ok((status, [(header::CONTENT_TYPE, media)], text).into_response())
}

/// A problem as a page, with the frame of whoever is signed in.
pub(crate) async fn problem_page(app: &App, problem: &Problem, facts: &Facts) -> Option<String> {
    let headers = HeaderMap::new();
    let shell = match facts.who.get() {
        Some(who) => {
            let frame = Frame {
                app,
                facts,
                headers: &headers,
                who,
            };
            frame.shell(&problem.title, Section::Elsewhere, "/").await
        }
        None => bare_shell(app, facts, &headers, &problem.title),
    };
    let page = ErrorPage {
        shell,
        status: u64::from(problem.status),
        problem: problem.title.clone(),
        detail: problem.detail.clone().unwrap_or_default(),
        kept: String::new(),
        todo: String::new(),
        request_id: problem.instance.clone().unwrap_or_default(),
    };
    page.render().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_ours_are_returned_to() {
        for path in ["/", "/threads/thread_00?x=1#y", "/approvals"] {
            assert_eq!(home(path, "/no"), path);
        }
        for path in [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil",
            "/a//b",
            "/login",
            "/a\nb",
            "javascript:x",
        ] {
            assert_eq!(home(path, "/no"), "/no", "{path:?}");
        }
    }

    #[test]
    fn the_way_back_is_escaped() {
        assert_eq!(
            login_path("/threads/t_1?a=b&c"),
            "/login?next=/threads/t_1%3Fa%3Db%26c"
        );
    }
}

//! `read_url`: one page of the internet, as text.

use std::{fmt::Write as _, io::ErrorKind};

use kazma_domain::{Action, Outcome, plan::Part};
use kazma_netguard::{Client, Cut, Error, Page, Refusal, Stage, Target};
use kazma_wire::executor::{Output, SettleRequest};

use super::text::{self, Readable, Said};
use crate::executor::{Finish, Refused, failed};

/// Bytes of an address that a result names as where it came from.
const ORIGIN: usize = 1_000;

/// What is asked for, judged as far as that can be without a lookup: looking a name up tells others of it,
/// and so it waits for the approval.
pub(super) fn plan(client: &Client, url: &str, part: Part) -> Result<(Action, Target), Refused> {
    let target = client.judge().url(url).map_err(|refusal| {
        Refused::new(
            refusal.rule(),
            format!("The URL is refused: {}", why(&refusal)),
        )
    })?;
    let url = target.url();
    let action = Action::FetchUrl {
        host: url.host_str().unwrap_or_default().to_owned(),
        url: url.as_str().to_owned(),
        sends: Client::request(url),
        part,
    };
    Ok((action, target))
}

/// Fetches it, and says what it says.
pub(super) async fn act(client: &Client, target: &Target, part: Part) -> Finish {
    match client.fetch(target.url().as_str()).await {
        Ok(page) => {
            let read = tokio::task::spawn_blocking(move || {
                let said = text::read(&page);
                (page, said)
            });
            match read.await {
                Ok((page, said)) => told(&page, said, part),
                Err(_) => failed("fetched, and its text could not be read; the log says more"),
            }
        }
        Err(error) => failed(not_fetched(&error)),
    }
}

/// A refusal with its rule's reason and what to do, as one or two sentences.
fn why(refusal: &Refusal) -> String {
    format!("{refusal}. {}", refusal.fix())
}

/// What happened instead of a fetch, and whether anything was sent.
pub(super) fn not_fetched(error: &Error) -> String {
    match error {
        Error::Refused(refusal) => format!("refused by {}: {}", refusal.rule(), why(refusal)),
        Error::TimedOut(Stage::Lookup, _) => {
            format!("not fetched: {error}. No server was asked.")
        }
        Error::TimedOut(Stage::Answer, _) => format!(
            "not fetched: {error}. The request may have arrived; it is not sent again by itself."
        ),
        Error::Lookup(source) => {
            tracing::info!(error = source.to_string(), "a name was not looked up");
            let fix = match source.kind() {
                ErrorKind::NotFound => "Look whether it is spelled right.",
                _ => "Look whether this machine reaches its name server, and try again.",
            };
            format!("not fetched: {error}. {fix} No server was asked.")
        }
        error => format!("not fetched: {error}"),
    }
}

/// The result: whether the server gave what was asked for, and the text with its head.
fn told(page: &Page, said: Said, part: Part) -> Finish {
    let origin = page.url().map(ToString::to_string).unwrap_or_default();
    let (text, truncated, total_bytes) = match said {
        Said::Text(readable) => readable_text(page, &readable, part),
        Said::Other(what) => {
            let text = format!(
                "{}This is {what}, {}. It is no text, so it is not shown.\n",
                head(page, ""),
                size(page)
            );
            let total = text.len() as u64;
            (text, false, total)
        }
    };
    let ok = (200..300).contains(&page.status);
    Finish::Settled(SettleRequest {
        outcome: Outcome {
            ok,
            summary: summary(page, ok),
        },
        output: Output {
            text,
            truncated,
            total_bytes,
            note: String::new(),
            origin: origin
                .get(..origin.floor_char_boundary(ORIGIN))
                .unwrap_or_default()
                .to_owned(),
        },
    })
}

/// How it ended, in our own words alone: nothing of the server's stands outside the fence.
fn summary(page: &Page, ok: bool) -> String {
    let mut words = if ok {
        format!("fetched, status {}", page.status)
    } else {
        format!("the server answered with status {}", page.status)
    };
    let hops = page.trail.len().saturating_sub(1);
    if hops > 0 {
        let _ = write!(
            words,
            " after {hops} redirect{}",
            if hops == 1 { "" } else { "s" }
        );
    }
    let _ = write!(words, ", {} bytes", page.body.len());
    match page.cut {
        None => {}
        Some(Cut::Size) => words.push_str(" (cut there: it is larger than is read)"),
        Some(Cut::Time) => words.push_str(" (cut there: the rest took too long)"),
        Some(Cut::Broken) => words.push_str(" (cut there: the server broke off)"),
    }
    words
}

fn size(page: &Page) -> String {
    match (page.length, page.cut) {
        (Some(length), _) => format!("{length} bytes"),
        (None, None) => format!("{} bytes", page.body.len()),
        (None, Some(_)) => format!("more than {} bytes", page.body.len()),
    }
}

/// Where the text came from and what it is called.
fn head(page: &Page, title: &str) -> String {
    let mut head = String::new();
    if !title.is_empty() {
        let _ = writeln!(head, "Title: {title}");
    }
    if let Some((last, before)) = page.trail.split_last() {
        let _ = writeln!(head, "Address: {last}");
        for (n, hop) in before.iter().enumerate() {
            let _ = writeln!(
                head,
                "{} {hop}",
                if n == 0 { "Redirected from:" } else { "then" }
            );
        }
    }
    head.push('\n');
    head
}

/// The part of the text that was asked for, with its head and the list of its links.
fn readable_text(page: &Page, readable: &Readable, part: Part) -> (String, bool, u64) {
    let whole = readable.text.trim();
    let total = whole.chars().count() as u64;
    let total_bytes = whole.len() as u64;
    let from = nth(whole, part.offset);
    let rest = whole.get(from..).unwrap_or_default();
    let shown = rest.get(..nth(rest, part.limit)).unwrap_or_default();
    let end = part.offset.saturating_add(part.limit).min(total);
    let mut text = head(page, &readable.title);
    if total == 0 {
        text.push_str("[there is no text]\n");
    } else if part.offset >= total {
        let _ = writeln!(text, "[the text ends before, after {total} characters]");
    } else {
        text.push_str(shown);
        text.push('\n');
    }
    let truncated = end < total;
    if truncated {
        let _ = writeln!(
            text,
            "[characters {} to {end} of {total}; offset {end} gives what follows]",
            part.offset
        );
    }
    if readable.unfinished {
        text.push_str("[the page is too intricate to be read to its end]\n");
    }
    let links = readable.links.iter().enumerate();
    let shown_links: Vec<_> = links
        .map(|(n, link)| (format!("[{}]", n + 1), link))
        .filter(|(mark, _)| shown.contains(mark.as_str()))
        .collect();
    if !shown_links.is_empty() {
        text.push_str("\nLinks:\n");
        for (mark, link) in shown_links {
            let _ = writeln!(text, "{mark} {link}");
        }
    }
    (text, truncated, total_bytes)
}

/// The byte at which the `n`th character begins, or the end.
fn nth(text: &str, n: u64) -> usize {
    usize::try_from(n)
        .ok()
        .and_then(|n| text.char_indices().nth(n))
        .map_or(text.len(), |(at, _)| at)
}

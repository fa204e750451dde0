//! The terminal as an approval surface.

use std::{
    io::{BufRead, IsTerminal, Write},
    process::ExitCode,
};

use kazma_runtime::BoxError;
use serde_json::{Value, json};

use kazma_launch::Usage;

use crate::{Api, Gates, at, say, text};

/// Columns of a row of a card: a terminal has 80 or more.
const WIDTH: usize = 76;

pub(crate) async fn run(command: Gates) -> Result<ExitCode, BoxError> {
    match command {
        Gates::List { place } => {
            let answer = at(&place)?.get("/api/gates?state=pending").await?;
            for gate in answer
                .get("gates")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                say(&format!(
                    "{}  {}",
                    text(gate, "gate_id"),
                    visible(text(gate, "headline"))
                ))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Gates::Show { id, place } => show(&find(&at(&place)?, &id).await?),
        Gates::Approve { id, place } => {
            let api = at(&place)?;
            let gate = find(&api, &id).await?;
            show(&gate)?;
            if !confirmed()? {
                return say("Nothing was decided.");
            }
            decide(&api, &gate, "approve", None).await
        }
        Gates::Deny { id, reason, place } => {
            let api = at(&place)?;
            let gate = find(&api, &id).await?;
            decide(&api, &gate, "deny", reason).await
        }
    }
}

async fn find(api: &Api, id: &str) -> Result<Value, BoxError> {
    let id: kazma_domain::GateId = id
        .parse()
        .map_err(|error| Usage(format!("the gate's id: {error}")))?;
    Ok(api.get(&format!("/api/gates/{id}")).await?)
}

async fn decide(
    api: &Api,
    gate: &Value,
    decision: &str,
    reason: Option<String>,
) -> Result<ExitCode, BoxError> {
    let mut body = json!({ "decision": decision, "args_digest": text(gate, "args_digest") });
    if let (Some(reason), Some(members)) = (reason, body.as_object_mut()) {
        members.insert("reason".to_owned(), reason.into());
    }
    let path = format!("/api/gates/{}/decision", text(gate, "gate_id"));
    let answer = api.post(&path, &body).await?;
    let settled = answer.get("settled").and_then(Value::as_bool) == Some(true);
    say(if settled {
        "Decided."
    } else {
        "Your vote counts; others are still to answer."
    })
}

/// The whole card. Nothing of it may speak to the terminal: control characters are shown, not sent.
fn show(gate: &Value) -> Result<ExitCode, BoxError> {
    say(&visible(text(gate, "headline")))?;
    say(&format!("state   {}", text(gate, "state")))?;
    say(&format!("tier    {}", visible(text(gate, "tier"))))?;
    say(&format!("why     {}", visible(text(gate, "reason"))))?;
    say(&format!("until   {}", text(gate, "expires_at")))?;
    say(&format!("digest  {}", text(gate, "args_digest")))?;
    let arguments = gate.get("args").and_then(Value::as_object);
    for (name, value) in arguments.into_iter().flatten() {
        say(&format!("\n{}:", visible(name)))?;
        let whole = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        for line in whole.split('\n') {
            block(line)?;
        }
    }
    let started = started(gate);
    if !started.is_empty() {
        say("")?;
    }
    for line in started {
        for row in rows(&visible(&line)) {
            say(&row)?;
        }
    }
    let diff = gate
        .pointer("/plan/action/diff")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !diff.is_empty() {
        say("\nchange:")?;
        for line in diff.split('\n') {
            block(line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says a line of what would be done, set in.
fn block(line: &str) -> Result<ExitCode, BoxError> {
    for row in rows(&visible(line)) {
        say(&format!("  {row}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A long line in rows of ours, each of which says that it goes on: if the terminal broke it, its next row would begin where
/// our own words begin.
fn rows(line: &str) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut width = 0;
    for c in line.chars() {
        let room = match c {
            '\t' => 8,
            c if c.is_ascii() => 1,
            _ => 2,
        };
        if width + room > WIDTH {
            rows.push("↳ ".to_owned());
            width = 2;
        }
        width += room;
        if let Some(row) = rows.last_mut() {
            row.push(c);
        }
    }
    rows
}

/// What a command comes to, each argument on a line and in brackets, so that no blank hides where one ends.
fn started(gate: &Value) -> Vec<String> {
    let texts = |field: &str| {
        let list = gate.pointer(&format!("/plan/action/{field}"));
        let list = list.and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).collect::<Vec<_>>()
    };
    let place = |path: &str| match path {
        "" => "the workspace".to_owned(),
        path => path.to_owned(),
    };
    let argv = texts("argv");
    if argv.is_empty() {
        return Vec::new();
    }
    let words = argv.iter().enumerate();
    let cwd = gate.pointer("/plan/action/cwd").and_then(Value::as_str);
    std::iter::once("what starts:".to_owned())
        .chain(
            words
                .map(|(index, word)| format!("  {index:>3}  [{}]", word.replace('\n', "<U+000A>"))),
        )
        .chain(cwd.map(|path| format!("folder  {}", place(path))))
        .chain(
            texts("writable")
                .iter()
                .map(|path| format!("can write  {}", place(path))),
        )
        .collect()
}

/// Asks on the terminal. Silence, and anything but the word, is no.
fn confirmed() -> Result<bool, BoxError> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Usage("approve asks a person: run it in a terminal".to_owned()).into());
    }
    let mut out = std::io::stdout().lock();
    write!(out, "\nApprove exactly this? Type approve: ")?;
    out.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(answer.trim() == "approve")
}

/// The text with every character written out that a terminal would obey or not show.
fn visible(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => "\t".to_owned(),
            c if c.is_control() || is_invisible(c) => format!("<U+{:04X}>", u32::from(c)),
            c => c.to_string(),
        })
        .collect()
}

/// Format characters that take no room or turn the direction of others (Unicode general category Cf,
/// and the fillers that show as nothing).
fn is_invisible(c: char) -> bool {
    matches!(u32::from(c),
        0xAD | 0x034F | 0x061C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
        | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F
        | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF
        // Spaces that are none of the keyboard, Braille without dots, private use, what has no character.
        | 0xA0 | 0x1680 | 0x2000..=0x200A | 0x202F | 0x205F | 0x3000 | 0x2800 | 0xE000..=0xF8FF | 0xF_0000..
        | 0x1_3430..=0x1_343F | 0x1_6FE4 | 0x1_BCA0..=0x1_BCA3 | 0x1_D159 | 0xFDD0..=0xFDEF)
        || u32::from(c) & 0xFFFE == 0xFFFE
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{rows, started, visible};

    #[test]
    fn a_command_is_shown_word_by_word() {
        let gate = json!({"plan": {"action": {
            "argv": ["/usr/bin/cp", "a b", "c"], "cwd": "", "writable": [".git"],
        }}});
        assert_eq!(
            started(&gate),
            [
                "what starts:",
                "    0  [/usr/bin/cp]",
                "    1  [a b]",
                "    2  [c]",
                "folder  the workspace",
                "can write  .git",
            ]
        );
        assert!(started(&json!({"plan": {"action": {"code": "1"}}})).is_empty());
    }

    #[test]
    fn a_long_line_begins_no_row_as_ours_begin() {
        let forged = format!("{}state   approved", " ".repeat(78));
        let drawn = rows(&forged);
        assert!(
            drawn.iter().skip(1).all(|row| row.starts_with("↳ ")),
            "{drawn:?}"
        );
        assert!(
            drawn.iter().all(|row| row.chars().count() <= 76),
            "{drawn:?}"
        );
        assert_eq!(drawn.concat().replace("↳ ", ""), forged);
        assert_eq!(rows(""), [""]);
        assert_eq!(rows(&"文".repeat(40)).len(), 2);
    }

    #[test]
    fn nothing_on_a_card_speaks_to_the_terminal() {
        assert_eq!(visible("rm \u{1b}[2Jx"), "rm <U+001B>[2Jx");
        assert_eq!(visible("a\u{200b}b\u{202e}c"), "a<U+200B>b<U+202E>c");
        assert_eq!(
            visible("a\u{a0}\u{2800}\u{e000}\u{1fffe}"),
            "a<U+00A0><U+2800><U+E000><U+1FFFE>"
        );
        assert_eq!(visible("سلام\tok"), "سلام\tok");
    }
}

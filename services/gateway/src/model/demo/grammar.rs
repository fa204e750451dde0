//! What the demo model understands at the start of a message.

use serde_json::{Value, json};

/// A call that a message names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) tool: String,
    pub(super) arguments: String,
}

/// What a message comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Understood {
    /// These calls, in order, all in one turn.
    Calls(Vec<Wanted>),
    /// It begins like a command, and this is wrong with it.
    Wrong(String),
    /// It is no command.
    Nothing,
}

/// A command without what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Python,
    Shell,
    Write,
    Read,
    Fetch,
    Remember,
    Remind,
    Call,
}

const COMMANDS: [(&str, Command); 8] = [
    ("run python:", Command::Python),
    ("run shell:", Command::Shell),
    ("remind me", Command::Remind),
    ("remember", Command::Remember),
    ("write", Command::Write),
    ("read", Command::Read),
    ("fetch", Command::Fetch),
    ("call", Command::Call),
];

/// Reads a message.
pub(super) fn understand(message: &str) -> Understood {
    let mut calls = Vec::new();
    let mut rest = message.trim_start();
    loop {
        let Some((command, body)) = begins(rest) else {
            return Understood::Nothing;
        };
        let (wanted, after) = if command == Command::Call {
            match any_call(body) {
                Ok(found) => found,
                Err(what) => return Understood::Wrong(what),
            }
        } else {
            let (body, after) = split(body);
            (wanted(command, body), after)
        };
        calls.push(wanted);
        match after {
            Some(next) => rest = next,
            None => return Understood::Calls(calls),
        }
    }
}

/// The command that `text` begins with, and what follows the keyword.
fn begins(text: &str) -> Option<(Command, &str)> {
    let (command, body) = COMMANDS.iter().find_map(|(keyword, command)| {
        let (start, rest) = text.split_at_checked(keyword.len())?;
        let whole = keyword.ends_with(':') || rest.starts_with(char::is_whitespace);
        (start.eq_ignore_ascii_case(keyword) && whole).then_some((*command, rest))
    })?;
    let complete = match command {
        Command::Write => path_and_text(body).is_some(),
        _ => !body.trim().is_empty(),
    };
    complete.then_some((command, body))
}

/// Cuts `body` at the first `then` that a known command follows.
fn split(body: &str) -> (&str, Option<&str>) {
    for (at, _) in body.match_indices(['t', 'T']) {
        let (Some(before), Some(word), Some(after)) =
            (body.get(..at), body.get(at..at + 4), body.get(at + 4..))
        else {
            continue;
        };
        let alone = before.ends_with(char::is_whitespace) && after.starts_with(char::is_whitespace);
        if alone
            && word.eq_ignore_ascii_case("then")
            && !before.trim().is_empty()
            && begins(after.trim_start()).is_some()
        {
            return (before.trim_end(), Some(after.trim_start()));
        }
    }
    (body, None)
}

fn wanted(command: Command, body: &str) -> Wanted {
    let words = body.trim();
    let (tool, arguments) = match command {
        Command::Python => ("python_exec", json!({"code": code(body)})),
        Command::Shell => ("shell_exec", json!({"command": words})),
        Command::Write => {
            let (path, content) = path_and_text(body).unwrap_or((words, ""));
            ("file_write", json!({"path": path, "content": content}))
        }
        Command::Read => ("file_read", json!({"path": words})),
        Command::Fetch => ("read_url", json!({"url": words})),
        Command::Remember | Command::Call => ("memory_store", json!({"text": words})),
        Command::Remind => {
            let (timing, prompt) = when_and_what(words);
            ("schedule_task", json!({"timing": timing, "prompt": prompt}))
        }
    };
    Wanted {
        tool: tool.to_owned(),
        arguments: arguments.to_string(),
    }
}

/// Code keeps the indentation of its first line unless that stands right behind the colon.
fn code(body: &str) -> &str {
    let body = body.trim_end();
    match body.split_once('\n') {
        Some((first, rest)) if first.trim().is_empty() => rest,
        _ => body.trim_start_matches([' ', '\t']),
    }
}

/// `PATH: TEXT`; the colon is the first that a blank or the end follows.
fn path_and_text(body: &str) -> Option<(&str, &str)> {
    let (at, _) = body.match_indices(':').find(|(at, _)| {
        body.get(at + 1..)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\n', '\r', '\t']))
    })?;
    let (path, text) = (body.get(..at)?.trim(), body.get(at + 1..)?);
    let text = text
        .strip_prefix("\r\n")
        .or_else(|| text.strip_prefix([' ', '\n']))
        .unwrap_or(text);
    (!path.is_empty() && !path.contains('\n')).then_some((path, text))
}

/// `tomorrow at nine to water the plants`, or the other way round.
fn when_and_what(words: &str) -> (&str, &str) {
    if let Some(task) = words.strip_prefix("to ") {
        let at = [" in ", " at ", " on ", " every ", " tomorrow"]
            .iter()
            .filter_map(|word| task.rfind(word))
            .max();
        return match at.and_then(|at| task.split_at_checked(at)) {
            Some((what, when)) => (when.trim(), what.trim()),
            None => (words, task),
        };
    }
    match words.split_once(" to ") {
        Some((when, what)) => (when.trim(), what.trim()),
        None => (words, words),
    }
}

/// `TOOL JSON`, then nothing, or `then` and a command.
fn any_call(body: &str) -> Result<(Wanted, Option<&str>), String> {
    let body = body.trim_start();
    let end = body
        .find(|c: char| c.is_whitespace() || c == '{')
        .unwrap_or(body.len());
    let (tool, text) = body.split_at_checked(end).unwrap_or((body, ""));
    let shown = tool.replace('`', "'");
    let text = text.trim_start();
    if text.is_empty() {
        return Err(format!(
            "To call `{shown}` I need its arguments as JSON, such as `call {shown} {{}}`."
        ));
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    if let Some(Err(error)) = values.next() {
        return Err(format!(
            "The arguments of `{shown}` are not JSON: {error}. Nothing was called."
        ));
    }
    let (json, after) = text
        .split_at_checked(values.byte_offset())
        .unwrap_or((text, ""));
    let wanted = Wanted {
        tool: tool.to_owned(),
        arguments: json.trim().to_owned(),
    };
    if after.trim().is_empty() {
        return Ok((wanted, None));
    }
    match joined(after) {
        Some(next) => Ok((wanted, Some(next))),
        None => Err(format!(
            "There is more after the arguments of `{shown}` than I understand. Nothing was called."
        )),
    }
}

/// The command behind the `then` that `after` begins with.
fn joined(after: &str) -> Option<&str> {
    let (word, rest) = after.trim_start().split_at_checked(4)?;
    let next = rest.trim_start();
    let alone = after.starts_with(char::is_whitespace) && rest.starts_with(char::is_whitespace);
    (alone && word.eq_ignore_ascii_case("then") && begins(next).is_some()).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(message: &str) -> Vec<(String, Value)> {
        match understand(message) {
            Understood::Calls(calls) => calls
                .into_iter()
                .map(|call| (call.tool, serde_json::from_str(&call.arguments).unwrap()))
                .collect(),
            other => panic!("{message:?}: {other:?}"),
        }
    }

    #[test]
    fn every_command_names_its_tool() {
        for (message, tool, arguments) in [
            (
                "run python: print(1)",
                "python_exec",
                json!({"code": "print(1)"}),
            ),
            (
                "  RUN PYTHON: print(1)  ",
                "python_exec",
                json!({"code": "print(1)"}),
            ),
            (
                "run python:print(1)",
                "python_exec",
                json!({"code": "print(1)"}),
            ),
            (
                "run python:\n  for i in x:\n    print(i)\n",
                "python_exec",
                json!({"code": "  for i in x:\n    print(i)"}),
            ),
            (
                "run python: if 1:\n    print('then what')",
                "python_exec",
                json!({"code": "if 1:\n    print('then what')"}),
            ),
            (
                "run shell: ls -l",
                "shell_exec",
                json!({"command": "ls -l"}),
            ),
            (
                "write a.txt: hello",
                "file_write",
                json!({"path": "a.txt", "content": "hello"}),
            ),
            (
                "Write a b.txt:\nx\n",
                "file_write",
                json!({"path": "a b.txt", "content": "x\n"}),
            ),
            (
                "write a.txt:",
                "file_write",
                json!({"path": "a.txt", "content": ""}),
            ),
            (
                "write a:b.txt: c: d",
                "file_write",
                json!({"path": "a:b.txt", "content": "c: d"}),
            ),
            (
                "read notes/a.txt",
                "file_read",
                json!({"path": "notes/a.txt"}),
            ),
            (
                "fetch https://example.com/",
                "read_url",
                json!({"url": "https://example.com/"}),
            ),
            (
                "remember I like tea",
                "memory_store",
                json!({"text": "I like tea"}),
            ),
            (
                "remind me tomorrow to water the plants",
                "schedule_task",
                json!({"timing": "tomorrow", "prompt": "water the plants"}),
            ),
            (
                "remind me to call Ana in 5 minutes",
                "schedule_task",
                json!({"timing": "in 5 minutes", "prompt": "call Ana"}),
            ),
            ("call vault_list {}", "vault_list", json!({})),
            (
                "call x{\"a\": [1, {\"b\": \" then read c\"}]}",
                "x",
                json!({"a": [1, {"b": " then read c"}]}),
            ),
            ("Call mcp__a__b [1]", "mcp__a__b", json!([1])),
        ] {
            assert_eq!(
                calls(message),
                [(tool.to_owned(), arguments)],
                "{message:?}"
            );
        }
    }

    #[test]
    fn then_joins_only_before_a_known_command() {
        let tools = |message: &str| {
            calls(message)
                .into_iter()
                .map(|(tool, _)| tool)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            calls("run python: 1 then run python: 2"),
            [
                ("python_exec".to_owned(), json!({"code": "1"})),
                ("python_exec".to_owned(), json!({"code": "2"})),
            ]
        );
        assert_eq!(
            tools("read a then write b: c THEN fetch d"),
            ["file_read", "file_write", "read_url"]
        );
        assert_eq!(
            tools("call a {} then call b {\"x\":1}\nthen\nread c"),
            ["a", "b", "file_read"]
        );
        assert_eq!(
            tools("run python: x\nthen read y"),
            ["python_exec", "file_read"]
        );
        assert_eq!(tools("remember this then that"), ["memory_store"]);
        assert_eq!(tools("remember this then write it down"), ["memory_store"]);
        assert_eq!(tools("read authentic"), ["file_read"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (message, word) in [
            ("call file_read {\"path\": ", "JSON"),
            ("call file_read", "arguments"),
            ("call me later", "JSON"),
            ("call a {} and more", "more"),
            ("call a {} then dance", "more"),
            ("run python: 1 then call x {bad}", "JSON"),
        ] {
            match understand(message) {
                Understood::Wrong(what) => assert!(what.contains(word), "{message:?}: {what}"),
                other => panic!("{message:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn other_words_are_no_command() {
        for message in [
            "",
            " ",
            "hello",
            "please run python: 1",
            "run python:",
            "write a.txt hello",
            "reading is fun",
            "calling",
        ] {
            assert_eq!(understand(message), Understood::Nothing, "{message:?}");
        }
    }
}

//! jq's language: which programs neither read what is no input nor run without end.
//!
//! A program is cut into tokens (the whole of jq 1.8's manual), and refused for the names it uses; strings are looked
//! into, because `"\(…)"` is a program.

use crate::argv::{Refusal, verdict::refuse};

/// How deep strings may hold programs that hold strings.
const DEPTH: u32 = 16;
/// The longest repetition or range, counted in its literal numbers.
const LONGEST: f64 = 1e6;
/// The largest index: an assignment there makes an array of that length.
const LARGEST: f64 = 1e7;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// `name`, with `::` in it at most.
    Name(String),
    /// `$name`.
    Variable(String),
    /// `.name`.
    Field,
    Text,
    Number(f64),
    /// `@name`.
    Format,
    Sign(char),
}

/// Judges a program.
pub(super) fn judge(program: &str) -> Result<(), Refusal> {
    judge_at(program, DEPTH)
}

fn judge_at(program: &str, depth: u32) -> Result<(), Refusal> {
    let tokens = tokens(program, depth)?;
    let at = |index: usize| tokens.get(index);
    // The brackets that are open, the innermost last.
    let mut open = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let before = index.checked_sub(1).and_then(at);
        let after = at(index + 1);
        match token {
            Token::Sign(sign @ ('(' | '[' | '{')) => open.push(*sign),
            Token::Sign(')' | ']' | '}') => {
                open.pop();
            }
            Token::Variable(name) if name == "ENV" => return refuse!("`$ENV` is the environment"),
            Token::Variable(name) if name == "__prog_args" => {
                return refuse!("`$__prog_args` is refused");
            }
            Token::Name(name) if open.last() != Some(&'{') || !is_key(before, after) => {
                let rest = tokens.get(index + 1..).unwrap_or_default();
                name_in_program(name, rest)?;
            }
            Token::Number(number) => {
                let repeats = |token: Option<&Token>| token == Some(&Token::Sign('*'));
                let text = |token: Option<&Token>| token == Some(&Token::Text);
                let beside = (repeats(before) && text(index.checked_sub(2).and_then(at)))
                    || (repeats(after) && text(at(index + 2)));
                if beside && *number > LONGEST {
                    return refuse!("a text is repeated {number} times");
                }
                let index = before == Some(&Token::Sign('['))
                    && index.checked_sub(2).and_then(at).is_some_and(ends_value);
                if index && after == Some(&Token::Sign(']')) && *number > LARGEST {
                    return refuse!("`[{number}]`: an array as long as that takes all the memory");
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a bracket after this is an index and not an array.
fn ends_value(token: &Token) -> bool {
    matches!(token, Token::Field | Token::Text | Token::Variable(_))
        || matches!(token, Token::Sign('.' | ']' | ')' | '}' | '?'))
}

/// Whether a name directly in braces is a key: `{name: …}` or `{name, …}`. In the brackets of a slice (`.[1, env:2]`) it is
/// none, and `{a: if .b then 1, env, 2 else 3 end}` shows why a comma alone does not tell.
fn is_key(before: Option<&Token>, after: Option<&Token>) -> bool {
    let sign = |token: Option<&Token>, signs: &str| matches!(token, Some(Token::Sign(c)) if signs.contains(*c));
    (sign(before, "{,") && sign(after, ":")) || (sign(before, "{") && sign(after, ",}"))
}

fn name_in_program(name: &str, rest: &[Token]) -> Result<(), Refusal> {
    match name {
        "env" => refuse!("`env` is the environment"),
        "import" | "include" | "modulemeta" | "get_search_list" => {
            refuse!("`{name}` loads programs from files")
        }
        "while" | "until" | "repeat" | "infinite" => {
            refuse!("`{name}` may never end")
        }
        "def" => definition(rest),
        "recurse" | "recurse_down" => recursion(rest),
        "range" => {
            let arguments = call(rest);
            let large = arguments
                .iter()
                .any(|token| matches!(token, Token::Number(number) if *number > LONGEST));
            let zero_step =
                matches!(arguments, [.., Token::Sign(';'), Token::Number(step)] if *step == 0.0);
            // `range(from; to; step)` in literal numbers.
            let many = matches!(
                arguments,
                [Token::Number(from), Token::Sign(';'), Token::Number(to), Token::Sign(';'), Token::Number(step)]
                    if (to - from) / step > LONGEST
            );
            if large || zero_step || many {
                return refuse!("`range` with that many steps may never end");
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What stands between the parentheses after a name.
fn call(rest: &[Token]) -> &[Token] {
    let Some((Token::Sign('('), inner)) = rest.split_first() else {
        return &[];
    };
    let mut depth = 0_u32;
    for (index, token) in inner.iter().enumerate() {
        match token {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') if depth == 0 => return inner.get(..index).unwrap_or_default(),
            Token::Sign(')') => depth -= 1,
            _ => {}
        }
    }
    inner
}

/// `recurse(f)` ends where `f` goes down by `[]`, which no scalar has.
fn recursion(rest: &[Token]) -> Result<(), Refusal> {
    let step = call(rest);
    if step.is_empty() {
        return Ok(());
    }
    let path = step.iter().all(|token| {
        matches!(token, Token::Field | Token::Text)
            || matches!(token, Token::Sign(c) if "[].?|,".contains(*c))
    });
    let each = step
        .windows(2)
        .any(|pair| pair == [Token::Sign('['), Token::Sign(']')]);
    if path && each && !step.contains(&Token::Sign(',')) {
        return Ok(());
    }
    refuse!("`recurse` with that step may never end")
}

/// A definition must not call itself.
fn definition(rest: &[Token]) -> Result<(), Refusal> {
    let Some((Token::Name(name), rest)) = rest.split_first() else {
        return refuse!("`def` without a name");
    };
    let mut depth = 0_u32;
    let mut open = 1_u32;
    let mut body = false;
    for token in rest {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
            Token::Sign(':') if depth == 0 => body = true,
            Token::Sign(';') if depth == 0 => {
                open -= 1;
                if open == 0 {
                    return Ok(());
                }
            }
            Token::Name(inner) if inner == "def" => open += 1,
            Token::Name(inner) if inner == name && body => {
                return refuse!("`{name}` calls itself, and may never end");
            }
            _ => {}
        }
    }
    refuse!("the definition of `{name}` does not end")
}

fn tokens(program: &str, depth: u32) -> Result<Vec<Token>, Refusal> {
    let mut tokens = Vec::new();
    let mut rest = program;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        rest = match c {
            ' ' | '\t' | '\n' | '\r' => after,
            '#' => comment(after)?,
            '"' => {
                tokens.push(Token::Text);
                text(after, depth)?
            }
            '.' if after.starts_with(starts_name) => {
                let (_, after) = name(after);
                tokens.push(Token::Field);
                after
            }
            '.' if after.starts_with(|c: char| c.is_ascii_digit()) => number(rest, &mut tokens)?,
            '0'..='9' => number(rest, &mut tokens)?,
            '$' => {
                let (found, after) = name(after.trim_start());
                tokens.push(Token::Variable(found.to_owned()));
                after
            }
            '@' => {
                let (_, after) = name(after);
                tokens.push(Token::Format);
                after
            }
            _ if starts_name(c) => {
                let (found, after) = name(rest);
                tokens.push(Token::Name(found.to_owned()));
                after
            }
            _ if "[](){}:;,.|?/+-*%=<>!".contains(c) => {
                tokens.push(Token::Sign(c));
                after
            }
            _ => return refuse!("`{}` is not of the language", c.escape_debug()),
        };
    }
    Ok(tokens)
}

/// The rest after a comment. From jq 1.7 on a backslash at its end takes the next line in, and a carriage return may end
/// it: where versions cut a text differently, a quotation mark could hide code from this reader.
fn comment(text: &str) -> Result<&str, Refusal> {
    let (comment, after) = text.split_once('\n').unwrap_or((text, ""));
    let comment = comment.strip_suffix('\r').unwrap_or(comment);
    if comment.ends_with('\\') || comment.contains('\r') {
        return refuse!("a comment that goes on in the next line, or has a carriage return in it");
    }
    Ok(after)
}

fn starts_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// A name and what follows it.
fn name(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .unwrap_or(text.len());
    let whole = text.get(..end).unwrap_or_default();
    // A colon belongs to a name only as `::` between two names.
    let mut end = 0;
    for (index, part) in whole.split("::").enumerate() {
        let part = part.split(':').next().unwrap_or_default();
        if index > 0 && !part.starts_with(starts_name) {
            break;
        }
        end += part.len() + if index > 0 { 2 } else { 0 };
        if whole.get(end..).is_some_and(|rest| !rest.starts_with("::")) {
            break;
        }
    }
    text.split_at(end.min(text.len()))
}

fn number<'a>(text: &'a str, tokens: &mut Vec<Token>) -> Result<&'a str, Refusal> {
    let bytes = text.as_bytes();
    let mut end = 0;
    while let Some(byte) = bytes.get(end) {
        let exponent = matches!(byte, b'+' | b'-')
            && end > 0
            && matches!(bytes.get(end - 1), Some(b'e' | b'E'));
        if !(byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E') || exponent) {
            break;
        }
        end += 1;
    }
    let (literal, after) = text.split_at(end);
    match literal.parse() {
        Ok(value) => {
            tokens.push(Token::Number(value));
            Ok(after)
        }
        Err(_) => refuse!("`{literal}` is not a number"),
    }
}

/// The rest after a string whose opening mark has been read; what it interpolates is judged.
fn text(mut rest: &str, depth: u32) -> Result<&str, Refusal> {
    loop {
        let Some(at) = rest.find(['"', '\\']) else {
            return refuse!("a text is not closed");
        };
        let after = rest.get(at + 1..).unwrap_or_default();
        if rest.as_bytes().get(at) == Some(&b'"') {
            return Ok(after);
        }
        let Some(inner) = after.strip_prefix('(') else {
            let mut skipped = after.chars();
            skipped.next();
            rest = skipped.as_str();
            continue;
        };
        let Some(depth) = depth.checked_sub(1) else {
            return refuse!("texts in texts in texts");
        };
        let end = interpolated(inner)?;
        let (program, after) = inner.split_at(end);
        judge_at(program, depth)?;
        rest = after.get(1..).unwrap_or_default();
    }
}

/// How long the program of an interpolation is, up to its closing parenthesis.
fn interpolated(text: &str) -> Result<usize, Refusal> {
    // Each open parenthesis, or the mark of an open string.
    let mut open: Vec<char> = Vec::new();
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        let in_text = open.last() == Some(&'"');
        match c {
            '"' if in_text => {
                open.pop();
            }
            '"' => open.push('"'),
            '\\' if in_text => {
                let freed = chars.next();
                if matches!(freed, Some((_, '('))) {
                    open.push('(');
                }
            }
            '(' if !in_text => open.push('('),
            '#' if !in_text => return refuse!("a comment within a text"),
            ')' if !in_text && open.is_empty() => return Ok(index),
            ')' if !in_text => {
                open.pop();
            }
            _ => {}
        }
    }
    refuse!("a text is not closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyday_programs_pass() {
        for program in [
            ".",
            ".name",
            ".a.b[0]",
            ".n[] | select(. > 1)",
            "keys",
            "length",
            "map(.x + 1) | add",
            "to_entries[]",
            "{name, n: .n[0]}",
            "{env: .env}",
            "{env}",
            ".env",
            ".\"env\"",
            "\"\\(.a) and \\(.b)\"",
            ".[] | \"a\\tb\"",
            "group_by(.k) | map({k: .[0].k, n: length})",
            "@csv",
            "@base64 \"x\\(.a)\"",
            "if .a then 1 else 2 end",
            "reduce .[] as $x (0; . + $x)",
            "[.[] | tonumber?] | max",
            "..|numbers",
            "recurse",
            "recurse(.children[]?)",
            "def inc: . + 1; map(inc)",
            "[range(10)]",
            "[range(0; 10; 0.5)]",
            ".[1000]",
            "[1700000000]",
            "map([1700000000])",
            ".a // \"none\"",
            "try error(\"x\") catch .",
            "limit(3; .[])",
            ".ts > 1700000000",
            "input_filename",
            "test(\"^a|b$\")",
            "-(.a)",
            ".[1:3]",
            ".a |= . + 1",
            "1e3",
            "$x",
            "$__loc__",
            "with_entries(.value += 1)",
            "splits(\", \")",
            "walk(.)",
            "# a comment",
            "# a comment\r\n.a",
            "{a, env: 2}",
            ".[1:2]",
            "1.5",
        ] {
            assert_eq!(judge(program), Ok(()), "{program}");
        }
    }

    #[test]
    fn the_environment_files_and_endless_programs_do_not() {
        for program in [
            "env",
            "$ENV",
            "$ ENV",
            "env.X",
            "[env]",
            "1, env, 2",
            "{a: env}",
            "{(env|tostring): 1}",
            "\"\\(env)\"",
            "\"\\(\"\\($ENV.A)\")\"",
            "import \"a\" as a; .",
            "include \"a\"; .",
            "def f: f; f",
            "def f(x): [x | f(x)]; f(1)",
            "def a: def b: a; b; a",
            "repeat(1)",
            "while(true; .)",
            "until(false; .)",
            "recurse(.)",
            "recurse(. + 1)",
            "recurse(.a)",
            "[range(1e12)]",
            "range(0; 1; 0)",
            "[range(0; 1; 0.0000000001)]",
            "[] | .[500000000] = 1",
            ".a[1e9] |= 1",
            "\"x\" * 1e9",
            "1e9 * \"x\"",
            "get_search_list",
            "\"x",
            "ltrimstr(env)",
            "@json \"\\(env)\"",
            "{a:env}",
            "[.[]|env]",
            "path(.[0,env:])",
            ".[0,env:1]",
            "{a: .[0,env:]}",
            "{(1,env): 2}",
            "{a: if . then 1,env,2 else 3 end}",
            "{a: (1,env)}",
            "# \\\n\"\nenv # \"",
            "# \r\"\nenv # \"",
            "infinite",
            "\u{201c}",
        ] {
            assert!(judge(program).is_err(), "{program}");
        }
    }
}

//! How names of tokens are built: from stems, from the ends of something, by numbers.

use crate::byte::{self, DIGIT};

/// `end_of_line`, `start_of_week`: what settings are called.
pub(crate) fn is_everyday_end(flat: &[u8]) -> bool {
    [b"endof".as_slice(), b"startof", b"beginof", b"beginningof"]
        .iter()
        .find_map(|side| flat.strip_prefix(*side))
        .is_some_and(|what| {
            matches!(
                what,
                b"line"
                    | b"lines"
                    | b"file"
                    | b"day"
                    | b"week"
                    | b"month"
                    | b"year"
                    | b"life"
                    | b"list"
                    | b"period"
                    | b"season"
                    | b"support"
                    | b"service"
            )
        })
}

/// Whether a word ends in `raw` after `len` letters: not in `toolCallback`.
fn ends_word(raw: &str, len: usize) -> bool {
    if !raw.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return true;
    }
    let Some((last, rest)) = raw.split_at_checked(len) else {
        return true;
    };
    let Some(next) = rest.chars().next() else {
        return true;
    };
    // All in one case says nothing of where words end.
    let plural = rest == "s" || rest.starts_with('s') && ends_word(rest, 1);
    plural
        || !next.is_lowercase()
        || last.ends_with(char::is_uppercase)
        || [
            "begin", "end", "start", "section", "id", "name", "sep", "list",
        ]
        .iter()
        .any(|word| rest.starts_with(word))
}

/// Whether the name of a token begins so, without what joins its words.
pub(crate) fn is_stem(flat: &[u8], raw: &str) -> bool {
    stem(flat).is_some_and(|len| ends_word(raw, len))
}

/// How long the stem is with which the name of a token begins.
fn stem(flat: &[u8]) -> Option<usize> {
    const CALLS: &[&[u8]] = &[b"call", b"result", b"response", b"output"];
    const DELIMITED: &[&[u8]] = &[b"functioncall", b"functionresponse", b"functiondecl"];
    let after =
        |len: usize, stems: &[&[u8]]| begins(flat.get(len..)?, stems).map(|more| len + more);
    match flat {
        [b't', b'o', b'o', b'l', ..] => after(4, CALLS).or_else(|| {
            after(
                4,
                &[b"use", b"code", b"request", b"declar", b"sep", b"input"],
            )
        }),
        [b'f', b'u', b'n', b'c', b't', b'i', b'o', b'n', ..] => after(8, CALLS),
        [b's', b't', b'a', b'r', b't', ..] => after(5, DELIMITED),
        [b'e', b'n', b'd', ..] => after(3, DELIMITED),
        [b's', b'y', b's', b't', b'e', b'm', ..] => after(
            6,
            &[
                b"prompt",
                b"reminder",
                b"message",
                b"instruction",
                b"note",
                b"override",
                b"directive",
                b"role",
                b"turn",
            ],
        ),
        [b'a', ..] => begins(
            flat,
            &[
                b"availabletools",
                b"assistantresponse",
                b"assistantmessage",
                b"assistantturn",
            ],
        ),
        [b'u', ..] => begins(flat, &[b"userquery", b"userturn"]),
        [b'b', ..] => begins(flat, &[b"beginofsentence"]),
        _ => None,
    }
}

/// How long the one of `stems` is with which `name` begins.
pub(crate) fn begins(name: &[u8], stems: &[&[u8]]) -> Option<usize> {
    let first = name.first();
    stems
        .iter()
        .find(|stem| stem.first() == first && name.starts_with(stem))
        .map(|stem| stem.len())
}

/// `start_of_turn`, `end_of_utterance`; not `startOffset`.
pub(crate) fn delimits(local: &[u8]) -> bool {
    let joined = |rest: &[u8]| matches!(rest, [b'_' | b'-', b'o', b'f', b'_' | b'-', ..]);
    match local {
        [b's', b't', b'a', b'r', b't', rest @ ..] | [b'e', b'n', b'd', rest @ ..] => joined(rest),
        [b'b', b'e', b'g', b'i', b'n', rest @ ..] => {
            joined(rest) || rest.strip_prefix(b"ning").is_some_and(joined)
        }
        _ => false,
    }
}

/// `extra_id_0`, `SPECIAL_10`, `unused7`, `reserved_106`.
pub(crate) fn numbered(flat: &[u8]) -> bool {
    let stem = byte::skip_back(flat, flat.len(), DIGIT);
    stem.len() < flat.len()
        && matches!(
            stem,
            b"extraid"
                | b"special"
                | b"specialtoken"
                | b"unused"
                | b"unusedtoken"
                | b"reserved"
                | b"reservedtoken"
                | b"reservedspecialtoken"
                | b"tokensunused"
                | b"placeholder"
                | b"dummy"
                | b"ctrl"
                | b"control"
        )
        || matches!(
            flat,
            b"fimprefix"
                | b"fimmiddle"
                | b"fimsuffix"
                | b"fimpad"
                | b"fimhole"
                | b"fimbegin"
                | b"fimend"
        )
}

//! What Python makes of a text that is known: parts of it, and what it says in another writing.

use ruff_python_ast::{Expr, ExprSlice};

use super::characters::integer;

/// `string.ascii_lowercase` and its like.
pub(crate) fn letters(name: &str) -> Option<String> {
    let lower = "abcdefghijklmnopqrstuvwxyz";
    match name {
        "ascii_lowercase" => Some(lower.to_owned()),
        "ascii_uppercase" => Some(lower.to_uppercase()),
        "ascii_letters" => Some(lower.to_owned() + &lower.to_uppercase()),
        "digits" => Some("0123456789".to_owned()),
        "punctuation" => Some("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~".to_owned()),
        _ => None,
    }
}

pub(crate) fn swapped(text: &str) -> String {
    let swap = |c: char| match c {
        c if c.is_lowercase() => c.to_uppercase().to_string(),
        c => c.to_lowercase().to_string(),
    };
    text.chars().map(swap).collect()
}

/// What `codecs.decode` makes of a text: by letters half the alphabet on, or by hexadecimal digits.
pub(crate) fn by_codec(text: &str, codec: &str) -> Option<String> {
    match codec.to_ascii_lowercase().replace(['_', '-'], "").as_str() {
        "rot13" => {
            let turn = |c: char| match c {
                'a'..='m' | 'A'..='M' => char::from_u32(u32::from(c) + 13),
                'n'..='z' | 'N'..='Z' => char::from_u32(u32::from(c) - 13),
                c => Some(c),
            };
            text.chars().map(turn).collect()
        }
        "hex" | "hexcodec" => from_hex(text),
        "base64" | "base64codec" => from_base64(text),
        "utf8" | "ascii" | "latin1" | "unicodeescape" => Some(text.to_owned()),
        _ => None,
    }
}

/// `text[a:b:c]` as Python cuts it.
pub(crate) fn sliced(text: &str, slice: &ExprSlice) -> Option<String> {
    let whole = |bound: &Option<Box<Expr>>| match bound {
        None => Some(None),
        Some(bound) => integer(bound).map(Some),
    };
    let characters: Vec<char> = text.chars().collect();
    let length = i64::try_from(characters.len()).ok()?;
    let step = whole(&slice.step)?.unwrap_or(1);
    let (first, last) = if step < 0 {
        (-1, length - 1)
    } else {
        (0, length)
    };
    let bound = |at: i64| {
        let at = if at < 0 {
            at.saturating_add(length)
        } else {
            at
        };
        at.clamp(first, last)
    };
    let (from, to) = if step < 0 {
        (last, first)
    } else {
        (first, last)
    };
    let mut at = whole(&slice.lower)?.map_or(from, bound);
    let end = whole(&slice.upper)?.map_or(to, bound);
    let mut cut = String::new();
    while step != 0 && (if step < 0 { at > end } else { at < end }) {
        cut.push(*characters.get(usize::try_from(at).ok()?)?);
        at = at.checked_add(step)?;
    }
    Some(cut)
}

pub(crate) fn from_hex(text: &str) -> Option<String> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16))
        .collect::<Option<_>>()?;
    let bytes = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    });
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

pub(crate) fn from_base64(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for c in text.bytes().filter(|c| !c.is_ascii_whitespace()) {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = ((bits << 6) | u32::from(value)) & 0x00ff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    String::from_utf8(bytes).ok()
}

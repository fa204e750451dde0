//! Characters that a text spells instead of holding them: `&lt;`, `&#60;`, `%3C`, `\u003c`, `\<`.
//!
//! Sources: HTML's character references (those of ASCII punctuation and of characters that do not show),
//! percent-encoding (RFC 3986) of UTF-8, the escapes of JSON, JavaScript, C, Rust and Python strings,
//! and the backslash of Markdown.

/// The longest name of a reference here, and then some.
const NAME_MAX: usize = 24;
/// `&amp;lt;` is an escape of an escape. Deeper ones nobody decodes by accident.
const DEPTH: usize = 4;
/// Zeros before a number, of which HTML and JavaScript allow as many as one likes.
const ZEROS_MAX: usize = 64;

/// The character that an escape at the start of `text` spells, and the escape's bytes.
pub(crate) fn decode(text: &str) -> Option<(char, usize)> {
    let lead = match text.as_bytes() {
        [b'&', b'#' | b'a'..=b'z' | b'A'..=b'Z', ..] => '&',
        [
            b'%',
            b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' | b'u' | b'U',
            ..,
        ] => '%',
        [b'\\', ..] => '\\',
        _ => return None,
    };
    let (mut c, mut len) = once(lead, text.get(lead.len_utf8()..)?)?;
    len += lead.len_utf8();
    for _ in 1..DEPTH {
        let Some((deeper, more)) = text.get(len..).and_then(|rest| once(c, rest)) else {
            break;
        };
        c = deeper;
        len += more;
    }
    Some((c, len))
}

/// The same for an escape whose first character `lead` has been read.
fn once(lead: char, rest: &str) -> Option<(char, usize)> {
    match lead {
        '&' => reference(rest),
        '%' => percent(rest),
        '\\' => backslash(rest),
        _ => None,
    }
}

fn reference(rest: &str) -> Option<(char, usize)> {
    let (digits, radix, before) = match rest.as_bytes() {
        [b'#', b'x' | b'X', ..] => (rest.get(2..)?, 16, 2),
        [b'#', ..] => (rest.get(1..)?, 10, 1),
        _ => return named(rest),
    };
    let zeros = leading_zeros(digits);
    let digits = digits.get(zeros..)?;
    let (c, len) = number(digits, radix, usize::from(zeros == 0), 8)?;
    let before = before + zeros;
    let semicolon = usize::from(digits.as_bytes().get(len) == Some(&b';'));
    Some((c, before + len + semicolon))
}

/// How many zeros `digits` begins with that change nothing, as far as they are counted: one is left to be read.
fn leading_zeros(digits: &str) -> usize {
    let zeros = digits
        .bytes()
        .take(ZEROS_MAX)
        .take_while(|digit| *digit == b'0')
        .count();
    let more = digits
        .as_bytes()
        .get(zeros)
        .is_some_and(u8::is_ascii_hexdigit);
    if more { zeros } else { zeros.saturating_sub(1) }
}

fn named(rest: &str) -> Option<(char, usize)> {
    let len = rest
        .bytes()
        .take(NAME_MAX)
        .take_while(u8::is_ascii_alphanumeric)
        .count();
    let name = rest.get(..len)?;
    if rest.as_bytes().get(len) == Some(&b';') {
        return Some((by_name(name)?, len + 1));
    }
    // Old references need no semicolon.
    ["amp", "lt", "gt", "quot", "nbsp", "shy", "AMP", "LT", "GT"]
        .into_iter()
        .find(|old| name.starts_with(old))
        .and_then(|old| Some((by_name(old)?, old.len())))
}

fn by_name(name: &str) -> Option<char> {
    Some(match name {
        "lt" | "LT" => '<',
        "gt" | "GT" => '>',
        "amp" | "AMP" => '&',
        "quot" | "QUOT" => '"',
        "apos" => '\'',
        "vert" | "verbar" | "VerticalLine" | "brvbar" | "Vert" | "Verbar" | "mid" | "boxv" => '|',
        "lbrack" | "lsqb" => '[',
        "rbrack" | "rsqb" => ']',
        "lbrace" | "lcub" => '{',
        "rbrace" | "rcub" => '}',
        "lpar" => '(',
        "rpar" => ')',
        "num" => '#',
        "equals" => '=',
        "colon" => ':',
        "sol" => '/',
        "bsol" => '\\',
        "lowbar" | "UnderBar" => '_',
        "excl" => '!',
        "commat" => '@',
        "percnt" => '%',
        "ast" | "midast" => '*',
        "plus" => '+',
        "hyphen" | "dash" => '\u{2010}',
        "ndash" => '\u{2013}',
        "mdash" => '\u{2014}',
        "horbar" => '\u{2015}',
        "minus" => '\u{2212}',
        "lang" | "langle" | "LeftAngleBracket" => '\u{27e8}',
        "rang" | "rangle" | "RightAngleBracket" => '\u{27e9}',
        "laquo" => '\u{ab}',
        "raquo" => '\u{bb}',
        "boxh" => '\u{2500}',
        "ratio" => '\u{2236}',
        "imath" | "inodot" => '\u{131}',
        "lsaquo" => '\u{2039}',
        "rsaquo" => '\u{203a}',
        "NewLine" => '\n',
        "Tab" => '\t',
        "nbsp" | "NonBreakingSpace" | "ensp" | "emsp" | "emsp13" | "emsp14" | "numsp"
        | "puncsp" | "thinsp" | "ThinSpace" | "hairsp" | "VeryThinSpace" | "MediumSpace" => ' ',
        "shy" => '\u{ad}',
        "zwj" => '\u{200d}',
        "zwnj" => '\u{200c}',
        "lrm" => '\u{200e}',
        "rlm" => '\u{200f}',
        "ZeroWidthSpace"
        | "NegativeThinSpace"
        | "NegativeVeryThinSpace"
        | "NegativeMediumSpace"
        | "NegativeThickSpace" => '\u{200b}',
        "NoBreak" => '\u{2060}',
        "ApplyFunction" | "af" => '\u{2061}',
        "InvisibleTimes" | "it" => '\u{2062}',
        "InvisibleComma" | "ic" => '\u{2063}',
        _ => return None,
    })
}

/// `%3C`, `%EF%BC%9C`, `%u003C`.
fn percent(rest: &str) -> Option<(char, usize)> {
    if let Some(digits) = rest.strip_prefix(['u', 'U']) {
        return number(digits, 16, 4, 4).map(|(c, len)| (c, len + 1));
    }
    let mut bytes = [0_u8; 4];
    let mut len = 0;
    for count in 0..bytes.len() {
        let mut start = len;
        if count > 0 {
            start += rest.get(len..)?.strip_prefix('%').map(|_| 1)?;
            // Encoded again, every byte has its own `%25`, which goes on no character.
            for _ in 1..DEPTH {
                start += 2 * usize::from(rest.get(start..)?.starts_with("25"));
            }
        }
        let pair = rest.get(start..start + 2)?;
        if !pair.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        *bytes.get_mut(count)? = u8::from_str_radix(pair, 16).ok()?;
        len = start + 2;
        if let Ok(text) = str::from_utf8(bytes.get(..=count)?) {
            return text.chars().next().map(|c| (c, len));
        }
    }
    None
}

fn backslash(rest: &str) -> Option<(char, usize)> {
    let first = *rest.as_bytes().first()?;
    let after = rest.get(1..);
    match first {
        b'u' if after?.starts_with('{') => {
            let digits = after?.get(1..)?;
            let zeros = leading_zeros(digits);
            let digits = digits.get(zeros..)?;
            let (c, len) = number(digits, 16, 1, 6)?;
            (digits.as_bytes().get(len) == Some(&b'}')).then_some((c, zeros + len + 3))
        }
        b'u' => {
            let (unit, _) = hex(after?, 4, 4)?;
            if !(0xd800..0xdc00).contains(&unit) {
                return char::from_u32(unit).map(|c| (c, 5));
            }
            // A pair of surrogates, as JSON spells what lies beyond 16 bits.
            let low = after?.get(4..)?.strip_prefix("\\u")?;
            let (low, _) = hex(low, 4, 4)?;
            let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            char::from_u32(0x1_0000 + ((unit - 0xd800) << 10) + low).map(|c| (c, 11))
        }
        b'x' => number(after?, 16, 2, 2).map(|(c, len)| (c, len + 1)),
        b'U' => number(after?, 16, 8, 8).map(|(c, len)| (c, len + 1)),
        b'0'..=b'3' => {
            let digits = rest.get(..3)?;
            let code = u32::from_str_radix(digits, 8).ok()?;
            char::from_u32(code).map(|c| (c, 3))
        }
        b'n' => Some(('\n', 1)),
        b't' => Some(('\t', 1)),
        b'r' => Some(('\r', 1)),
        // Before an escape of our own a backslash is just that.
        b'\\' if after?.starts_with("u{") => None,
        c if c.is_ascii_punctuation() => Some((char::from(c), 1)),
        _ => None,
    }
}

/// A number of `min` to `max` digits as a character, and how many digits it has.
fn number(digits: &str, radix: u32, min: usize, max: usize) -> Option<(char, usize)> {
    let (code, len) = code(digits, radix, max);
    (len >= min)
        .then(|| char::from_u32(code))
        .flatten()
        .map(|c| (c, len))
}

fn hex(digits: &str, min: usize, max: usize) -> Option<(u32, usize)> {
    let (code, len) = code(digits, 16, max);
    (len >= min).then_some((code, len))
}

/// The number at the start of `digits`, of at most `max` (8) digits, and how many it has.
fn code(digits: &str, radix: u32, max: usize) -> (u32, usize) {
    let mut code = 0_u32;
    let mut len = 0;
    for byte in digits.bytes().take(max) {
        let Some(digit) = char::from(byte).to_digit(radix) else {
            break;
        };
        code = code.wrapping_mul(radix).wrapping_add(digit);
        len += 1;
    }
    (code, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_read() {
        for (text, c, len) in [
            ("&lt;|", '<', 4),
            ("&lt|", '<', 3),
            ("&amp;lt;", '<', 8),
            ("&#60;", '<', 5),
            ("&#x3C;", '<', 6),
            ("&#060", '<', 5),
            ("&#0000000000060;", '<', 16),
            ("&#x000000000000003c;|", '<', 20),
            ("&#0;", '\0', 4),
            ("%25EF%25BC%259C", '＜', 15),
            ("\\u{000000003c}", '<', 14),
            ("%3c%7c", '<', 3),
            ("%253C", '<', 5),
            ("%EF%BC%9C", '＜', 9),
            ("%u003C", '<', 6),
            ("\\u003c", '<', 6),
            ("\\u{3c}", '<', 6),
            ("\\u{00200B}x", '\u{200b}', 10),
            ("\\x3c", '<', 4),
            ("\\U0000003c", '<', 10),
            ("\\074", '<', 4),
            ("\\/", '/', 2),
            ("\\ud83d\\ude00", '😀', 12),
            ("&mdash;", '—', 7),
        ] {
            assert_eq!(decode(text), Some((c, len)), "{text}");
        }
    }

    #[test]
    fn what_is_no_escape_is_left() {
        for text in [
            "& ",
            "&",
            "%",
            "%zz",
            "%3",
            "\\",
            "\\u12",
            "\\u{}",
            "&;",
            "&#;",
            "%F5%80%80%80",
            "\\ud83dx",
            "&notathing;",
            "x",
            "",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}

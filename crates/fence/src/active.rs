//! HTML that would load something or act where a page draws it.
//!
//! Our own pages draw none of it. The text may go further: a model repeats it, a person copies it.

use crate::{
    attributes::{Attribute, Attributes, parting, skip_breaks},
    event::is_handler,
    fold::{self, Back, Cursor},
    scan::{BREAK, Breaks, glyph_end},
    style::{self, Sheets},
    target::{Target, is_program, target},
};

/// How far before an attribute its tag is looked for.
const TAG_NEAR: usize = 300;

/// How far the signs of a tag's name are read.
const ODD_MAX: usize = 32;

/// A program as an address, wherever it stands: `javascript:alert(1)`. `at` is its colon.
pub(crate) fn scheme(text: &str, at: usize, breaks: &mut Breaks) {
    let Some(head) = text.get(..at) else { return };
    if !may_be_scheme(head.as_bytes()) {
        return;
    }
    let mut name = [0_u8; 10];
    let mut places = [0; 10];
    let mut len = 0;
    if head.ends_with(BREAK) {
        return;
    }
    // Parsers of addresses leave line feeds and tabs out.
    let letters = Back::new(head).filter(|(_, c)| !matches!(*c, '\n' | '\t' | BREAK));
    let slots = name.iter_mut().zip(&mut places).rev();
    for ((slot, place), (start, c)) in slots.zip(letters) {
        let Ok(byte) = u8::try_from(c) else {
            break;
        };
        *slot = byte.to_ascii_lowercase();
        *place = start;
        len += 1;
    }
    let name = name.get(10 - len..).unwrap_or_default();
    let Some(end) = glyph_end(text, at) else {
        return;
    };
    let length = match name {
        _ if name.ends_with(b"javascript") => 10,
        _ if name.ends_with(b"vbscript") => 8,
        _ => 0,
    };
    let found = if let Some(start) = places.get(places.len() - length) {
        !goes_on(head.get(..*start).unwrap_or_default())
            && after(text, at).is_some_and(|next| {
                // After these a word of a sentence ends.
                !next.is_whitespace()
                    && !matches!(next, '<' | '*' | ')' | ']' | '.' | ',' | '|' | '"')
            })
    } else if name.ends_with(b"data") && !name.ends_with(b"metadata") {
        let kind: String = Cursor::new(text, end)
            .take(24)
            .map(|glyph| glyph.plain)
            .collect();
        is_program(&kind) && kind.contains('/') && !kind.starts_with(' ')
    } else {
        false
    };
    if found {
        breaks.push(at);
    }
}

/// Whether a word that begins after `head` is the rest of a longer one, as in `executeJavaScript:`. What may be the end of
/// an escape is none.
fn goes_on(head: &str) -> bool {
    let mut near = head.chars().rev().filter(|c| *c != BREAK).take(8);
    near.next().is_some_and(|c| c.is_ascii_alphanumeric())
        && !near.any(|c| matches!(c, '\\' | '%' | '&' | '#'))
}

/// What follows the sign at `at`, but for breaks: with them or without, it is the same text.
fn after(text: &str, at: usize) -> Option<char> {
    let mut rest = Cursor::new(text, glyph_end(text, at)?).map(|glyph| glyph.plain);
    rest.find(|c| *c != BREAK)
}

/// Whether `javascript`, `vbscript` or `data` can stand at the end of `head`.
fn may_be_scheme(head: &[u8]) -> bool {
    let Some(tail) = head.get(head.len().saturating_sub(4)..) else {
        return false;
    };
    // What is hidden, and what parsers of addresses leave out, may stand in between.
    tail.iter()
        .any(|byte| !fold::is_plain(*byte) || matches!(byte, b'}' | b'\n' | b'\t'))
        || tail.eq_ignore_ascii_case(b"ript")
        || tail.eq_ignore_ascii_case(b"data")
}

/// Whether an attribute that counts can stand at the end of `head`.
fn may_be_attribute(head: &[u8]) -> bool {
    let plain = head.last().is_some_and(|byte| fold::is_plain(*byte));
    if plain
        && head
            .last()
            .is_some_and(|byte| byte.is_ascii_punctuation() && *byte != b'}')
    {
        return false;
    }
    let blanks = head
        .iter()
        .rev()
        .take(32)
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n'))
        .count();
    let head = head.get(..head.len() - blanks).unwrap_or_default();
    let len = head
        .iter()
        .rev()
        .take(32)
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count();
    let (before, word) = head.split_at(head.len() - len);
    match before.last() {
        Some(b'}') => true,
        Some(byte) if !fold::is_plain(*byte) => true,
        _ => {
            len > 4
                && (word
                    .get(..2)
                    .is_some_and(|on| on.eq_ignore_ascii_case(b"on"))
                    || word.last().is_some_and(|d| d.eq_ignore_ascii_case(&b'd')))
        }
    }
}

/// An attribute that acts or that claims trust: `onerror=`, `untrusted=`. `at` is its equals sign.
#[inline(never)]
pub(crate) fn attribute(text: &str, at: usize, breaks: &mut Breaks) {
    let Some(head) = text.get(..at) else { return };
    if !may_be_attribute(head.as_bytes()) {
        return;
    }
    let mut back = Back::new(head);
    let back_end = back.rest().len();
    while back.rest().ends_with([' ', '\t', '\n']) {
        back.next();
    }
    let name_end = back.rest().len();
    let mut places = [name_end; 32];
    let mut letters = 0;
    for (slot, (at, _)) in places
        .iter_mut()
        .zip(back.take_while(|(_, c)| c.is_ascii_alphabetic()))
    {
        *slot = at;
        letters += 1;
    }
    if letters < 5 {
        return;
    }
    let start = places.get(letters - 1).copied().unwrap_or(name_end);
    let Some(raw) = head.get(start..name_end) else {
        return;
    };
    let name: String = Cursor::new(raw, 0).map(|glyph| glyph.plain).collect();
    let before = Back::new(head.get(..start).unwrap_or_default()).next();
    let apart =
        before.is_some_and(|(_, c)| c.is_whitespace() || matches!(c, '"' | '\'' | '/' | '`'));
    let value = after(text, at);
    let assigned = value.is_some_and(|c| !c.is_whitespace() && c != '=' && c != '>');
    let handles = apart
        && assigned
        && is_handler(&name)
        && !is_expression(raw, value)
        && !is_argument(head.get(..start).unwrap_or_default());
    if handles {
        breaks.push(start + 1);
    }
    let glued = name_end == back_end && matches!(value, Some('"' | '\''));
    if name.ends_with("untrusted") && (glued || in_tag(head.get(..start).unwrap_or_default())) {
        breaks.extend(places.get(8).map(|u| u + 1));
    }
}

/// Whether a tag is open at the end of `head`.
fn in_tag(head: &str) -> bool {
    let near = head.floor_char_boundary(head.len().saturating_sub(TAG_NEAR));
    head.get(near..)
        .is_some_and(|near| near.rfind('<') > near.rfind('>'))
}

/// Whether what follows `head` is an argument of a call, as in `rmtree(path, onerror=ignore)`.
fn is_argument(head: &str) -> bool {
    head.trim_end_matches([' ', '\t', '\n']).ends_with(',') && !in_tag(head)
}

/// `onClick={…}`: a program's text and not a page's.
fn is_expression(name: &str, value: Option<char>) -> bool {
    value == Some('{')
        && name.bytes().any(|byte| byte.is_ascii_uppercase())
        && name.starts_with("on")
}

/// A tag at `at` that loads or acts: by its name, by an attribute, by where an attribute leads.
pub(crate) fn tag(text: &str, at: usize, page: &mut Page, breaks: &mut Breaks) {
    let Some(rest) = text.get(at + 1..) else {
        return;
    };
    if rest.starts_with('?') {
        return instruction(text, at, breaks);
    }
    let closes = rest.starts_with('/');
    let name_start = at + 1 + usize::from(closes);
    let bytes = text.as_bytes();
    let len = bytes
        .get(name_start..)
        .unwrap_or_default()
        .iter()
        .take(24)
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-')
        .count();
    let Some(name) = text
        .get(name_start..name_start + len)
        .filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
    else {
        return;
    };
    // Of these alone the end is looked at.
    if closes && !name.starts_with(['s', 'S', 'i', 'I', 'p', 'P', 'f', 'F']) {
        return;
    }
    let mut lower = [0_u8; 24];
    for (slot, byte) in lower.iter_mut().zip(name.bytes()) {
        *slot = byte.to_ascii_lowercase();
    }
    let name = lower
        .get(..len)
        .and_then(|bytes| str::from_utf8(bytes).ok())
        .unwrap_or_default();
    let end = name_start + len;
    if parting(bytes, end) == 0 && bytes.get(end).is_some_and(|byte| *byte != b'>') {
        // `<a:b onclick=…>`: an element that nobody knows, which has styles and handlers all the same.
        if !closes
            && let Some(end) = odd_end(bytes, end)
            && attributes_act(text, prefixed(text, name_start, end), end, breaks)
        {
            breaks.push(at + 1);
        }
        return;
    }
    if matches!(name, "script" | "iframe" | "portal" | "fencedframe")
        && (closes || !is_type(text, at, name_start, len) || page.closes_script(text, at))
    {
        breaks.push(at + 1);
    } else if closes {
        return;
    }
    if name == "style"
        && !is_type(text, at, name_start, len)
        && page.sheets.loads(text, name_start + len)
    {
        breaks.push(at + 1);
    }
    if attributes_act(text, name, name_start + len, breaks) {
        breaks.push(at + 1);
    }
}

/// What `svg:image` is called in a document of XML; nothing for others, which load nothing there.
fn prefixed(text: &str, start: usize, end: usize) -> &'static str {
    let name = text.get(start..end).unwrap_or_default();
    match name.split_once(':') {
        Some((_, local)) => ["image", "use", "feImage", "script"]
            .into_iter()
            .find(|known| *known == local)
            .map_or(
                "",
                |known| if known == "feImage" { "feimage" } else { known },
            ),
        None => "",
    }
}

/// Where the name of a tag ends that has signs in it from `at` on.
fn odd_end(bytes: &[u8], at: usize) -> Option<usize> {
    let end = (at..at + ODD_MAX).find(|at| {
        let ends = match bytes.get(*at) {
            // Another tag begins.
            Some(b'<') => {
                // Also one that was broken: it is the same text.
                let name = skip_breaks(bytes, at + 1);
                bytes.get(name).is_some_and(u8::is_ascii_alphabetic)
            }
            Some(byte) => *byte == b'>',
            None => true,
        };
        ends || parting(bytes, *at) > 0
    })?;
    (parting(bytes, end) > 0).then_some(end)
}

/// Whether an attribute of the tag `name`, which are from `at` on, loads or acts.
fn attributes_act(text: &str, name: &str, at: usize, breaks: &mut Breaks) -> bool {
    let mut known = 0;
    loop {
        let mut found = false;
        let mut assigns = false;
        let mut attributes = Attributes::new(text, at, known);
        for attribute in attributes.by_ref() {
            assigns = true;
            let acts = acts(name, &attribute, text);
            breaks.extend(acts.program);
            if acts.acts {
                found = true;
                breaks.push(attribute.name_end);
            }
        }
        if attributes.is_doubtful() {
            return found || loads_by_itself(name);
        }
        // What has an odd name is mostly no tag at all: `struct.pack("<I", x)`, `a<b.c`.
        if !attributes.is_unread() || name.is_empty() {
            return found;
        }
        let breaks = attributes.breaks_from(at);
        if breaks <= known {
            // What was not read may load as well.
            return found || assigns || loads_by_itself(name);
        }
        known = breaks;
    }
}

/// Elements that load something by an attribute of their own.
fn loads_by_itself(element: &str) -> bool {
    matches!(
        element,
        "img"
            | "image"
            | "audio"
            | "video"
            | "source"
            | "track"
            | "embed"
            | "object"
            | "frame"
            | "link"
            | "base"
            | "meta"
            | "form"
            | "input"
            | "button"
            | "body"
            | "svg"
            | "use"
            | "feimage"
            | "applet"
            | "table"
    )
}

/// A style sheet for XML: `<?xml-stylesheet href="//e.example/a.css"?>`.
fn instruction(text: &str, at: usize, breaks: &mut Breaks) {
    const NAME: &[u8] = b"<?xml-stylesheet";
    let named = text
        .as_bytes()
        .get(at..at + NAME.len())
        .is_some_and(|name| name.eq_ignore_ascii_case(NAME));
    if named
        && Attributes::new(text, at + NAME.len(), 0).any(|attribute| {
            let whole = text.get(..attribute.value_end).unwrap_or_default();
            target(Cursor::new(whole, attribute.value_start)) != Target::Near
        })
    {
        breaks.push(at + 1);
    }
}

/// What is known of the whole text, as far as its tags need it.
#[derive(Debug, Default)]
pub(crate) struct Page {
    sheets: Sheets,
    /// Where the last end tag of a script ends, once it was looked for; 0 if there is none.
    script: Option<usize>,
}

impl Page {
    /// Whether a script that begins at `at` would end somewhere.
    fn closes_script(&mut self, text: &str, at: usize) -> bool {
        const END: &[u8] = b"</script";
        let last = *self.script.get_or_insert_with(|| {
            text.as_bytes()
                .windows(END.len())
                .rposition(|tag| tag.eq_ignore_ascii_case(END))
                .map_or(0, |start| start + END.len())
        });
        last > at
    }
}

/// Whether this is the parameter of a type, as in `Vec<Script>` and `Data::<Script>`.
fn is_type(text: &str, at: usize, name: usize, len: usize) -> bool {
    let bytes = text.as_bytes();
    // A break there may be of our own, and changes nothing.
    let head = text.get(..at).unwrap_or_default().trim_end_matches(BREAK);
    let before = head.as_bytes().last();
    let named = bytes.get(name..name + len).is_some_and(|name| {
        name.first().is_some_and(u8::is_ascii_uppercase) && name.iter().any(u8::is_ascii_lowercase)
    });
    named
        && before.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b':')
        && bytes.get(name + len) == Some(&b'>')
}

/// Whether the value of an attribute is this, in either case.
fn is_value(text: &str, attribute: &Attribute, known: &str) -> bool {
    value_of(text, attribute).trim() == known
}

/// How the value of an attribute reads, in small letters, as far as words of HTML are long.
fn value_of(text: &str, attribute: &Attribute) -> String {
    let whole = text.get(..attribute.value_end).unwrap_or_default();
    let letters = Cursor::new(whole, attribute.value_start).map(|glyph| glyph.plain);
    letters.take(64).collect()
}

/// Elements that fetch what `href` names: HTML's, and those of SVG that take over what stands there.
fn fetches(element: &str) -> bool {
    matches!(
        element,
        "link"
            | "base"
            | "image"
            | "use"
            | "feimage"
            | "script"
            | "textpath"
            | "mpath"
            | "lineargradient"
            | "radialgradient"
            | "pattern"
            | "filter"
            | "tref"
            | "cursor"
            | "glyphref"
            | "altglyph"
            | "font-face-uri"
            | "color-profile"
    )
}

/// What an attribute does.
#[derive(Default)]
struct Acts {
    acts: bool,
    program: Option<usize>,
}

fn acts(element: &str, attribute: &Attribute, text: &str) -> Acts {
    let raw = text
        .get(attribute.name_start..attribute.name_end)
        .unwrap_or_default();
    let mut lower = [0_u8; 40];
    let Some(lower) = lower.get_mut(..raw.len()) else {
        return Acts::default();
    };
    lower.copy_from_slice(raw.as_bytes());
    lower.make_ascii_lowercase();
    let name = str::from_utf8(lower).unwrap_or_default();
    if name.len() > 4 && name.starts_with("on") && is_handler(name) {
        let first = text
            .get(attribute.value_start..)
            .and_then(|v| v.chars().next());
        return Acts {
            acts: !is_expression(raw, first),
            program: None,
        };
    }
    let whole = text.get(..attribute.value_end).unwrap_or_default();
    let leads = |at: usize| target(Cursor::new(whole, at));
    let value = text
        .as_bytes()
        .get(attribute.value_start..attribute.value_end);
    // Without one of these an address leads nowhere else.
    let may_lead = value
        .unwrap_or_default()
        .iter()
        .any(|byte| matches!(byte, b':' | b'/' | b'\\' | b'&' | b'%') || !byte.is_ascii());
    let leads_to = if may_lead {
        leads(attribute.value_start)
    } else {
        Target::Near
    };
    if let Target::Program(colon) = leads_to {
        return Acts {
            acts: true,
            program: (colon < attribute.value_end).then_some(colon),
        };
    }
    let far = leads_to == Target::Far;
    let acts = match name {
        // Wherever a form leads, our own routes included, it is not the text's to send.
        "action" | "formaction" => matches!(element, "form" | "button" | "input"),
        "src" | "poster" | "background" | "lowsrc" | "dynsrc" | "ping" | "codebase" | "classid"
        | "archive" | "longdesc" | "profile" | "manifest" | "icon" => {
            far || matches!(element, "embed" | "frame")
        }
        "attributionsrc" => far,
        "value" => far && element == "param",
        // Without an address a form is sent to the page that it stands in.
        "method" => element == "form" && is_value(text, attribute, "post"),
        "attributename" => value_of(text, attribute).trim_start().starts_with("on"),
        "fill" | "stroke" | "filter" | "mask" | "clip-path" | "cursor" | "marker-start"
        | "marker-mid" | "marker-end" => {
            style::loads(text, attribute.value_start, attribute.value_end)
        }
        "data" | "code" => far || matches!(element, "object" | "applet"),
        "href" | "xlink:href" => far && fetches(element),
        "srcset" | "imagesrcset" => {
            let value = text
                .get(attribute.value_start..attribute.value_end)
                .unwrap_or_default();
            far || value
                .match_indices(',')
                .any(|(at, _)| leads(attribute.value_start + at + 1) != Target::Near)
        }
        "srcdoc" => true,
        // What the pages' own library would act upon.
        _ if name.starts_with("hx-") || name.starts_with("data-hx-") => true,
        "style" => style::loads(text, attribute.value_start, attribute.value_end),
        "http-equiv" => {
            let value = value_of(text, attribute);
            ["refresh", "set-cookie", "content-security-policy"]
                .iter()
                .any(|known| value.contains(known))
        }
        _ => false,
    };
    Acts {
        acts,
        program: None,
    }
}

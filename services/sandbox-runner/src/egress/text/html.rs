//! From HTML to plain text.
//!
//! The tokens of the page are enough for that. A tree is not built: hostile markup makes the building of
//! one take time that grows with the square of its depth, and its walk run out of stack.

use std::{
    cell::RefCell,
    fmt::Write as _,
    time::{Duration, Instant},
};

use html5ever::{
    LocalName,
    tendril::StrTendril,
    tokenizer::{
        BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
        states::RawKind,
    },
};
use url::Url;

use super::Readable;

/// Bytes that are read between two looks at the time.
const PIECE: usize = 4 * 1024;
/// How long one page may take. A plain one of the largest size takes some 50 ms; a tag with very many
/// attributes takes time that grows with the square of their number.
const TIME: Duration = Duration::from_secs(2);
/// Links that are listed.
const LINKS: usize = 200;
/// Bytes of a title that are kept.
const TITLE: usize = 500;

/// What is passed over with all that is in it: it is not read, or not meant for readers.
const PASSED: [&str; 16] = [
    "script", "style", "template", "iframe", "object", "embed", "canvas", "audio", "video", "svg",
    "math", "noembed", "noframes", "select", "datalist", "dialog",
];
/// What has no end tag. Source: "void elements" of the HTML Standard.
const VOID: [&str; 14] = [
    "area", "base", "basefont", "br", "col", "embed", "hr", "img", "input", "link", "meta",
    "source", "track", "wbr",
];
/// What begins and ends a line.
const LINES: [&str; 19] = [
    "address",
    "article",
    "aside",
    "center",
    "dd",
    "details",
    "div",
    "dt",
    "fieldset",
    "figcaption",
    "footer",
    "form",
    "header",
    "legend",
    "li",
    "main",
    "nav",
    "option",
    "tr",
];
/// What stands apart by an empty line.
const PARTS: [&str; 20] = [
    "blockquote",
    "body",
    "caption",
    "dl",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hgroup",
    "hr",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "ul",
];

/// Reads a page whose address is `at`.
pub(crate) fn read(html: &str, at: Option<&Url>) -> Readable {
    let began = Instant::now();
    read_until(html, at, || began.elapsed() > TIME)
}

/// Reads a page until `over`, which is asked before each piece.
fn read_until(html: &str, at: Option<&Url>, mut over: impl FnMut() -> bool) -> Readable {
    let tokenizer = Tokenizer::new(
        Reader(RefCell::new(Text::new(at))),
        TokenizerOpts::default(),
    );
    let input = BufferQueue::default();
    let mut rest = html;
    let mut unfinished = false;
    while !rest.is_empty() {
        if over() {
            unfinished = true;
            break;
        }
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(PIECE));
        rest = after;
        input.push_back(StrTendril::from_slice(piece));
        // It stops for scripts alone, and the reader never says that one has ended.
        let _ = tokenizer.feed(&input);
    }
    if !unfinished {
        tokenizer.end();
    }
    let text = tokenizer.sink.0.into_inner();
    Readable {
        unfinished,
        ..text.finish()
    }
}

/// Takes the tokens.
struct Reader<'u>(RefCell<Text<'u>>);

impl TokenSink for Reader<'_> {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut text = self.0.borrow_mut();
        match token {
            Token::CharacterTokens(characters) => text.characters(&characters),
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => return text.begin(&tag),
            Token::TagToken(tag) => text.end(&tag.name),
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }
}

/// What has to stand before the next character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    None,
    Space,
    Cell,
    Line,
    Part,
}

/// The text so far.
struct Text<'u> {
    at: Option<&'u Url>,
    base: Option<Url>,
    out: Readable,
    gap: Gap,
    /// What is being passed over, and how many of its kind are open.
    passing: Option<(LocalName, usize)>,
    in_title: bool,
    preformatted: usize,
    cells: usize,
    /// The number of the link that is open.
    link: Option<usize>,
}

impl<'u> Text<'u> {
    fn new(at: Option<&'u Url>) -> Self {
        Self {
            at,
            base: None,
            out: Readable::default(),
            gap: Gap::None,
            passing: None,
            in_title: false,
            preformatted: 0,
            cells: 0,
            link: None,
        }
    }

    fn finish(self) -> Readable {
        let mut out = self.out;
        out.title.truncate(out.title.floor_char_boundary(TITLE));
        out.title = out.title.split_whitespace().collect::<Vec<_>>().join(" ");
        out
    }

    fn begin(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name = &*tag.name;
        if let Some((passed, open)) = &mut self.passing {
            if *passed == tag.name && !tag.self_closing {
                *open += 1;
            }
            return raw(name);
        }
        let foreign = matches!(name, "svg" | "math");
        if VOID.contains(&name) || (foreign && tag.self_closing) {
            self.void(tag);
            return TokenSinkResult::Continue;
        }
        if PASSED.contains(&name) || hidden(tag) {
            self.passing = Some((tag.name.clone(), 1));
            return raw(name);
        }
        self.widen(name);
        match name {
            "title" => self.in_title = self.out.title.is_empty(),
            "pre" => self.preformatted += 1,
            "a" => self.link = attribute(tag, "href").and_then(|href| self.lead(href)),
            "li" => self.mark("- "),
            "tr" => self.cells = 0,
            "td" | "th" => {
                if self.cells > 0 {
                    self.gap = self.gap.max(Gap::Cell);
                }
                self.cells += 1;
            }
            _ => {
                if let Some(level) = heading(name) {
                    self.mark(level);
                }
            }
        }
        raw(name)
    }

    fn void(&mut self, tag: &Tag) {
        match &*tag.name {
            // A second one makes an empty line.
            "br" => {
                self.gap = if self.gap >= Gap::Line {
                    Gap::Part
                } else {
                    Gap::Line
                }
            }
            "base" if self.base.is_none() => {
                self.base = attribute(tag, "href").and_then(|href| match self.at {
                    Some(at) => at.join(href).ok(),
                    None => Url::parse(href).ok(),
                });
            }
            "img" if !hidden(tag) => {
                if let Some(words) = attribute(tag, "alt").filter(|words| !words.trim().is_empty())
                {
                    let words = format!("[image: {}]", words.trim());
                    self.words(&words);
                }
            }
            name => self.widen(name),
        }
    }

    fn end(&mut self, name: &LocalName) {
        if let Some((passed, open)) = &mut self.passing {
            if passed == name {
                *open -= 1;
                if *open == 0 {
                    self.passing = None;
                }
            }
            return;
        }
        match &**name {
            "title" => self.in_title = false,
            "pre" => self.preformatted = self.preformatted.saturating_sub(1),
            "a" => {
                if let Some(number) = self.link.take() {
                    // Before whatever gap there is: it belongs to the words of the link.
                    let _ = write!(self.out.text, " [{number}]");
                }
            }
            _ => {}
        }
        self.widen(name);
    }

    fn widen(&mut self, name: &str) {
        let gap = if PARTS.contains(&name) {
            Gap::Part
        } else if LINES.contains(&name) {
            Gap::Line
        } else {
            Gap::None
        };
        self.gap = self.gap.max(gap);
    }

    fn characters(&mut self, characters: &str) {
        if self.passing.is_some() {
            return;
        }
        if self.in_title {
            if self.out.title.len() < TITLE {
                self.out.title.push_str(characters);
            }
        } else if self.preformatted > 0 {
            self.open();
            self.out.text.push_str(characters);
        } else {
            self.words(characters);
        }
    }

    /// Text whose white space is one blank, whatever it is.
    fn words(&mut self, text: &str) {
        for (n, word) in text.split(char::is_whitespace).enumerate() {
            if n > 0 {
                self.gap = self.gap.max(Gap::Space);
            }
            if !word.is_empty() {
                self.open();
                self.out.text.push_str(word);
            }
        }
    }

    /// Writes what has to stand before the next character.
    fn open(&mut self) {
        let gap = std::mem::replace(&mut self.gap, Gap::None);
        if self.out.text.is_empty() {
            return;
        }
        self.out.text.push_str(match gap {
            Gap::None => "",
            Gap::Space => " ",
            Gap::Cell => " | ",
            Gap::Line => "\n",
            Gap::Part => "\n\n",
        });
    }

    /// A mark at the beginning of a line; what comes next follows it at once.
    fn mark(&mut self, mark: &str) {
        self.open();
        self.out.text.push_str(mark);
    }

    /// The number of the link to `href`, if it leads to the web and there is room in the list.
    fn lead(&mut self, href: &str) -> Option<usize> {
        let from = self.base.as_ref().or(self.at);
        let mut url = match from {
            Some(from) => from.join(href.trim()).ok()?,
            None => Url::parse(href.trim()).ok()?,
        };
        if !matches!(url.scheme(), "http" | "https") {
            return None;
        }
        // Within this very page it leads nowhere else.
        let fragment = url.fragment().is_some();
        url.set_fragment(None);
        if fragment && self.at == Some(&url) {
            return None;
        }
        let url = String::from(url);
        if let Some(known) = self.out.links.iter().position(|link| *link == url) {
            return Some(known + 1);
        }
        (self.out.links.len() < LINKS).then(|| {
            self.out.links.push(url);
            self.out.links.len()
        })
    }
}

/// How the tokenizer has to go on inside an element. Source: "parsing HTML fragments" of the HTML Standard,
/// without scripting.
fn raw(name: &str) -> TokenSinkResult<()> {
    match name {
        "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
        "style" | "xmp" | "iframe" | "noembed" | "noframes" => {
            TokenSinkResult::RawData(RawKind::Rawtext)
        }
        "script" => TokenSinkResult::RawData(RawKind::ScriptData),
        "plaintext" => TokenSinkResult::Plaintext,
        _ => TokenSinkResult::Continue,
    }
}

fn heading(name: &str) -> Option<&'static str> {
    Some(match name {
        "h1" => "# ",
        "h2" => "## ",
        "h3" => "### ",
        "h4" => "#### ",
        "h5" => "##### ",
        "h6" => "###### ",
        _ => return None,
    })
}

fn attribute<'t>(tag: &'t Tag, name: &str) -> Option<&'t str> {
    tag.attrs
        .iter()
        .find(|attribute| &*attribute.name.local == name)
        .map(|attribute| &*attribute.value)
}

/// Whether a reader would not see it, as far as the tag itself says. What a style sheet hides is seen.
fn hidden(tag: &Tag) -> bool {
    let style = attribute(tag, "style").is_some_and(|style| {
        let style: String = style
            .chars()
            .filter(|c| !c.is_whitespace())
            .collect::<String>()
            .to_ascii_lowercase();
        style.contains("display:none") || style.contains("visibility:hidden")
    });
    style
        || attribute(tag, "hidden").is_some_and(|value| !value.eq_ignore_ascii_case("until-found"))
        || attribute(tag, "aria-hidden").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

#[cfg(test)]
mod tests;

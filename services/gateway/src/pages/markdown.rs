//! The agent's replies as HTML, by an allow-list.
//!
//! A reply is written by a model that may have read hostile text. So nothing passes through: our own renderer writes
//! the few elements below from the parser's events, raw HTML is shown as the text it is, images are named and never
//! fetched (a picture's address is a way out for data), and a link shows where it really goes.

use std::fmt::{self, Write as _};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::text::{escape, shown_html};

/// Replies longer than this many bytes are shown as plain text: parsing them buys nothing.
pub const MARKDOWN_LIMIT: usize = 256 * 1024;

/// HTML made from a reply; only [`Markup::from_reply`] makes one, so a template may print it as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Markup(String);

impl Markup {
    /// Renders the agent's Markdown.
    pub fn from_reply(reply: &str) -> Self {
        if reply.len() > MARKDOWN_LIMIT {
            return Self(format!("<pre>{}</pre>", shown_html(reply)));
        }
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        let mut writer = Writer::default();
        for event in Parser::new_ext(reply, options) {
            writer.event(event);
        }
        Self(writer.html)
    }

    /// The HTML, safe to print unescaped.
    pub fn html(&self) -> &str {
        &self.0
    }
}

#[derive(Default)]
struct Writer {
    html: String,
    links: Vec<Link>,
    image: Option<(String, String)>,
    in_head: bool,
}

struct Link {
    target: String,
    starts_at: usize,
    followed: bool,
}

impl Writer {
    fn event(&mut self, event: Event<'_>) {
        if let Some((alt, _)) = &mut self.image {
            match event {
                Event::End(TagEnd::Image) => self.end_image(),
                Event::Text(text) | Event::Code(text) => alt.push_str(&text),
                _ => {}
            }
            return;
        }
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => {
                self.html.push_str(&shown_html(&text));
            }
            Event::Code(code) => self.push(format_args!(
                "<code dir=\"ltr\">{}</code>",
                shown_html(&code)
            )),
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html.push_str("<br>"),
            Event::Rule => self.html.push_str("<hr>"),
            Event::TaskListMarker(done) => self.html.push_str(if done { "[x] " } else { "[ ] " }),
        }
    }

    fn push(&mut self, html: fmt::Arguments<'_>) {
        // Writing into a string does not fail.
        let _ = self.html.write_fmt(html);
    }

    fn start(&mut self, tag: Tag<'_>) {
        let open = match tag {
            Tag::Heading { level, .. } => format!("<h{} dir=\"auto\">", heading(level as usize)),
            Tag::BlockQuote(_) => "<blockquote>".to_owned(),
            Tag::CodeBlock(CodeBlockKind::Indented | CodeBlockKind::Fenced(_)) => {
                "<pre dir=\"ltr\" tabindex=\"0\"><code>".to_owned()
            }
            Tag::List(None) => "<ul>".to_owned(),
            Tag::List(Some(first)) => format!("<ol start=\"{first}\">"),
            Tag::Item => "<li dir=\"auto\">".to_owned(),
            Tag::Table(_) => "<div class=\"wide\" tabindex=\"0\"><table>".to_owned(),
            Tag::TableHead => {
                self.in_head = true;
                "<thead><tr>".to_owned()
            }
            Tag::TableRow => "<tr>".to_owned(),
            Tag::TableCell if self.in_head => "<th dir=\"auto\">".to_owned(),
            Tag::TableCell => "<td dir=\"auto\">".to_owned(),
            Tag::Emphasis => "<em>".to_owned(),
            Tag::Strong => "<strong>".to_owned(),
            Tag::Strikethrough => "<del>".to_owned(),
            Tag::Link { dest_url, .. } => return self.start_link(dest_url.into_string()),
            Tag::Image { dest_url, .. } => {
                self.image = Some((String::new(), dest_url.into_string()));
                return;
            }
            Tag::Paragraph | Tag::HtmlBlock => "<p dir=\"auto\">".to_owned(),
            _ => return,
        };
        self.html.push_str(&open);
    }

    fn end(&mut self, tag: TagEnd) {
        let close = match tag {
            TagEnd::Heading(level) => format!("</h{}>", heading(level as usize)),
            TagEnd::BlockQuote(_) => "</blockquote>".to_owned(),
            TagEnd::CodeBlock => "</code></pre>".to_owned(),
            TagEnd::List(false) => "</ul>".to_owned(),
            TagEnd::List(true) => "</ol>".to_owned(),
            TagEnd::Item => "</li>".to_owned(),
            TagEnd::Table => "</tbody></table></div>".to_owned(),
            TagEnd::TableHead => {
                self.in_head = false;
                "</tr></thead><tbody>".to_owned()
            }
            TagEnd::TableRow => "</tr>".to_owned(),
            TagEnd::TableCell if self.in_head => "</th>".to_owned(),
            TagEnd::TableCell => "</td>".to_owned(),
            TagEnd::Emphasis => "</em>".to_owned(),
            TagEnd::Strong => "</strong>".to_owned(),
            TagEnd::Strikethrough => "</del>".to_owned(),
            TagEnd::Link => return self.end_link(),
            TagEnd::Paragraph | TagEnd::HtmlBlock => "</p>".to_owned(),
            _ => return,
        };
        self.html.push_str(&close);
    }

    fn start_link(&mut self, target: String) {
        let followed = ["https://", "http://", "mailto:"].iter().any(|scheme| {
            target
                .get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        if followed {
            self.push(format_args!(
                "<a href=\"{}\" rel=\"noopener noreferrer\" target=\"_blank\">",
                escape(&target)
            ));
        }
        self.links.push(Link {
            target,
            starts_at: self.html.len(),
            followed,
        });
    }

    /// Closes the link and says where it goes, unless its text already says exactly that.
    fn end_link(&mut self) {
        let Some(link) = self.links.pop() else { return };
        let shown = shown_html(&link.target);
        let says_so = self
            .html
            .get(link.starts_at..)
            .is_some_and(|text| text == shown || shown.strip_prefix("mailto:") == Some(text));
        if link.followed {
            self.html.push_str("</a>");
        }
        if !says_so {
            self.push(format_args!(
                " <span class=\"target\" dir=\"ltr\">({shown})</span>"
            ));
        }
    }

    fn end_image(&mut self) {
        let Some((alt, target)) = self.image.take() else {
            return;
        };
        let alt = if alt.is_empty() {
            String::new()
        } else {
            format!(": {}", shown_html(&alt))
        };
        self.push(format_args!(
            "<span class=\"target\">[picture not loaded{alt} — <bdi dir=\"ltr\">{}</bdi>]</span>",
            shown_html(&target)
        ));
    }
}

/// Headings of a reply start below those of the page.
fn heading(level: usize) -> usize {
    (level + 2).min(6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn html(reply: &str) -> String {
        Markup::from_reply(reply).0
    }

    #[test]
    fn the_usual_things_are_drawn() {
        assert_eq!(
            html(
                "# Result\n\nThe sum is **45**, see `sum()`.\n\n- one\n- two\n\n```python\nprint(1 < 2)\n```\n\n| a |\n|---|\n| 1 |\n"
            ),
            [
                r#"<h3 dir="auto">Result</h3>"#,
                r#"<p dir="auto">The sum is <strong>45</strong>, see <code dir="ltr">sum()</code>.</p>"#,
                r#"<ul><li dir="auto">one</li><li dir="auto">two</li></ul>"#,
                "<pre dir=\"ltr\" tabindex=\"0\"><code>print(1 &#60; 2)\n</code></pre>",
                r#"<div class="wide" tabindex="0"><table><thead><tr><th dir="auto">a</th></tr></thead>"#,
                r#"<tbody><tr><td dir="auto">1</td></tr></tbody></table></div>"#,
            ]
            .concat()
        );
    }

    #[test]
    fn a_link_says_where_it_goes() {
        assert_eq!(
            html("[your bank](https://evil.example/?q=1&r=2)"),
            "<p dir=\"auto\"><a href=\"https://evil.example/?q=1&#38;r=2\" rel=\"noopener noreferrer\" target=\"_blank\">your bank</a> \
             <span class=\"target\" dir=\"ltr\">(https://evil.example/?q=1&#38;r=2)</span></p>"
        );
        assert_eq!(html("<https://a.example>").matches("a.example").count(), 2);
    }

    #[test]
    fn other_schemes_are_not_followed() {
        for target in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "data:text/html,x",
            "/logout",
            "//evil.example",
            "vbscript:x",
        ] {
            let html = html(&format!("[x]({target})"));
            assert!(!html.contains("<a"), "{html}");
            assert!(html.contains("class=\"target\""), "{html}");
        }
    }

    #[test]
    fn raw_markup_and_pictures_are_inert() {
        let html = html(
            "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\nhi <b onclick=x>there</b> ![p](https://e.example/x.png?secret)",
        );
        assert!(
            !html.contains("<script") && !html.contains("<img") && !html.contains("<b "),
            "{html}"
        );
        assert!(html.contains("[picture not loaded: p — "), "{html}");
    }

    #[test]
    fn texts_that_attack_a_fence_are_inert_in_a_page() {
        let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/");
        for file in ["fence.jsonl", "fence-more.jsonl"] {
            let rows = std::fs::read_to_string(format!("{cases}{file}")).unwrap();
            for line in rows.lines() {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                let html = html(row["text"].as_str().unwrap());
                let lower = html.to_ascii_lowercase();
                for active in [
                    "<img",
                    "<script",
                    "<iframe",
                    "<svg",
                    "<style",
                    "<form",
                    "<link",
                    "<meta",
                    "<video",
                    "<object",
                    "href=\"javascript:",
                    "href=\"data:",
                    "href=\"//",
                    " src=\"",
                    " style=\"",
                ] {
                    assert!(!lower.contains(active), "{}: {html}", row["id"]);
                }
                // Whatever looks like a handler stands in text, where its quotation marks are escaped.
                assert!(!lower.contains("=\"alert"), "{}: {html}", row["id"]);
            }
        }
    }

    proptest! {
        #[test]
        fn only_our_elements_come_out(reply in "(<img |javascript:|\\]\\(|```|\u{202E}|[-<>&\"'a-z\\[\\]()!`*_~|#\n ]){0,80}") {
            let html = Markup::from_reply(&reply).0;
            for part in html.split('<').skip(1) {
                let name: String = part.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
                prop_assert!(["p", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "ul", "ol", "li", "div", "table", "thead",
                    "tbody", "tr", "th", "td", "em", "strong", "del", "a", "span", "bdi", "br", "hr"].contains(&name.as_str()), "{}", html);
            }
            let bare = html.contains('\u{202E}');
            prop_assert!(!bare);
        }
    }
}

//! Makes text show everything that is in it.
//!
//! A card is read before it is approved, so whatever a reader cannot see must not be able to hide in it: zero-width
//! characters, direction controls, tag characters that spell a second message, look-alike spaces. Each such character
//! becomes a chip with its code point. Characters that are invisible but do ordinary work in living scripts (a joiner
//! between Devanagari letters, the joiner of a family emoji) stay as they are: a page littered with chips teaches
//! people to look past them.
//!
//! The ranges are those of `Default_Ignorable_Code_Point`, `Bidi_Control` and `White_Space` in the Unicode Character
//! Database, plus the few assigned characters that fonts draw as nothing.

/// A stretch of text, or one character that would not be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// Text that shows itself.
    Plain(String),
    /// One character that would not show, or would change what stands around it.
    Hidden(char),
}

impl Span {
    /// The label of a hidden character, such as `U+200B`; nothing for plain text.
    pub fn code(&self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Hidden(c) => Some(format!("U+{:04X}", u32::from(*c))),
        }
    }
}

/// Splits `text` into what shows itself and what does not; joined again, the spans are the text.
///
/// Line feeds and tabs count as plain: the page lays them out.
pub fn visible(text: &str) -> Vec<Span> {
    let chars: Vec<char> = text.chars().collect();
    let mut spans = Vec::new();
    let mut plain = String::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        if let Some(len) = subdivision_flag(chars.get(at..).unwrap_or_default()) {
            plain.extend(chars.iter().skip(at).take(len));
            at += len;
            continue;
        }
        let before = at.checked_sub(1).and_then(|i| chars.get(i)).copied();
        let after = chars.get(at + 1).copied();
        if is_hidden(c) && !does_ordinary_work(before, c, after) {
            if !plain.is_empty() {
                spans.push(Span::Plain(std::mem::take(&mut plain)));
            }
            spans.push(Span::Hidden(c));
        } else {
            plain.push(c);
        }
        at += 1;
    }
    if !plain.is_empty() {
        spans.push(Span::Plain(plain));
    }
    spans
}

/// Whether a reader would not see `c`, or would see its neighbours out of order because of it.
fn is_hidden(c: char) -> bool {
    if matches!(c, '\n' | '\t') {
        return false;
    }
    c.is_control()
        || is_foreign_space(c)
        || matches!(c,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{1D159}' | '\u{13430}'..='\u{1343F}' | '\u{16FE4}' | '\u{FDD0}'..='\u{FDEF}'
            | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}'
            | '\u{FFFE}' | '\u{FFFF}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}'
            // Braille without dots, and the private use areas: assigned, and drawn as nothing or as anything.
            | '\u{2800}' | '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFF}')
        // The two noncharacters at the end of each plane.
        || u32::from(c) & 0xFFFE == 0xFFFE
}

/// Spaces and line separators other than the ASCII ones.
fn is_foreign_space(c: char) -> bool {
    matches!(
        c,
        '\u{00A0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200A}' | '\u{2028}' | '\u{2029}' | '\u{202F}' | '\u{205F}' | '\u{3000}'
    )
}

/// Whether an otherwise invisible `c` has an ordinary effect between these two neighbours.
///
/// Only one at a time: a second joiner or selector in a row never has an effect, and is how bytes are smuggled.
fn does_ordinary_work(before: Option<char>, c: char, after: Option<char>) -> bool {
    let Some(before) = before else { return false };
    match c {
        '\u{200D}' => after.is_some_and(|after| {
            (ends_emoji(before) && is_pictograph(after)) || (joins(before) && joins(after))
        }),
        '\u{200C}' => after.is_some_and(|after| joins(before) && joins(after)),
        '\u{FE0E}' | '\u{FE0F}' => {
            is_pictograph(before)
                || (c == '\u{FE0F}' && after == Some('\u{20E3}') && is_keycap(before))
        }
        '\u{180B}'..='\u{180D}' | '\u{180F}' => matches!(before, '\u{1820}'..='\u{18AA}'),
        _ => false,
    }
}

/// Letters and marks of scripts in which a joiner or non-joiner changes what is drawn.
fn joins(c: char) -> bool {
    matches!(c,
        '\u{0620}'..='\u{065F}' | '\u{066E}'..='\u{06D3}' | '\u{06FA}'..='\u{06FF}' | '\u{0710}'..='\u{074F}'
        | '\u{0750}'..='\u{077F}' | '\u{08A0}'..='\u{08FF}' | '\u{0900}'..='\u{0DFF}' | '\u{1000}'..='\u{109F}'
        | '\u{1780}'..='\u{17B3}' | '\u{17B6}'..='\u{17DD}' | '\u{1820}'..='\u{18AA}')
}

/// What a joiner may follow inside an emoji: a pictograph, its skin tone, or its selector.
fn ends_emoji(c: char) -> bool {
    is_pictograph(c) || c == '\u{FE0F}'
}

/// A close reading of `Extended_Pictographic`, together with the skin tones.
fn is_pictograph(c: char) -> bool {
    matches!(c,
        '\u{00A9}' | '\u{00AE}' | '\u{203C}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2194}'..='\u{21AA}'
        | '\u{231A}'..='\u{23FF}' | '\u{24C2}' | '\u{25AA}'..='\u{25FE}' | '\u{2600}'..='\u{27BF}'
        | '\u{2934}' | '\u{2935}' | '\u{2B05}'..='\u{2B55}' | '\u{3030}' | '\u{303D}' | '\u{3297}' | '\u{3299}'
        | '\u{1F000}'..='\u{1FAFF}')
}

fn is_keycap(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '#' | '*')
}

/// The length of a flag of England, Scotland or Wales at the start of `chars`: the only emoji spelled with tags.
fn subdivision_flag(chars: &[char]) -> Option<usize> {
    const REGIONS: [&str; 3] = ["gbeng", "gbsct", "gbwls"];
    if chars.first() != Some(&'\u{1F3F4}') {
        return None;
    }
    REGIONS.into_iter().find_map(|region| {
        let tags = region
            .chars()
            .filter_map(|c| char::from_u32(0xE_0000 + u32::from(c)))
            .chain(['\u{E007F}']);
        let len = region.len() + 1;
        chars
            .iter()
            .skip(1)
            .take(len)
            .copied()
            .eq(tags)
            .then_some(len + 1)
    })
}

/// Host names in `text` whose labels mix Latin letters with those of another alphabet that look like them.
///
/// Such a name is drawn like another name. At most eight are returned, each once.
pub fn lookalike_hosts(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-'))) {
        let word = word.trim_matches(['.', '-']);
        if word.contains('.')
            && word.split('.').any(mixes_scripts)
            && !found.iter().any(|seen| seen == word)
        {
            found.push(word.to_owned());
            if found.len() == 8 {
                break;
            }
        }
    }
    found
}

fn mixes_scripts(label: &str) -> bool {
    let latin = label
        .chars()
        .any(|c| c.is_ascii_alphabetic() || matches!(c, '\u{00C0}'..='\u{024F}'));
    // Greek, Cyrillic, Armenian, Cherokee, Coptic, Lisu, and letters of mathematics, of circles and of full width.
    let other = label.chars().any(|c| {
        matches!(c,
            '\u{0370}'..='\u{03FF}' | '\u{0400}'..='\u{052F}' | '\u{0531}'..='\u{0587}' | '\u{13A0}'..='\u{13FD}'
            | '\u{24B6}'..='\u{24E9}' | '\u{2C80}'..='\u{2CFF}' | '\u{A4D0}'..='\u{A4FD}' | '\u{AB70}'..='\u{ABBF}'
            | '\u{FF21}'..='\u{FF5A}' | '\u{1D400}'..='\u{1D7CB}')
    });
    latin && other
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hidden(text: &str) -> Vec<String> {
        visible(text).iter().filter_map(Span::code).collect()
    }

    fn joined(spans: &[Span]) -> String {
        spans.iter().fold(String::new(), |mut all, span| {
            match span {
                Span::Plain(text) => all.push_str(text),
                Span::Hidden(c) => all.push(*c),
            }
            all
        })
    }

    #[test]
    fn ordinary_writing_is_left_alone() {
        for text in [
            "print(sum(range(10)))\n\tif x:\n",
            "مرحبا بالعالم، كيف الحال؟",
            "می\u{200C}خواهم",
            "שלום עולם",
            "क्\u{200D}ष और श\u{094D}\u{200C}र",
            "👩\u{200D}👩\u{200D}👧\u{200D}👦 👍🏽 ❤\u{FE0F} 1\u{FE0F}\u{20E3} 👩🏽\u{200D}🚀 🏳\u{FE0F}\u{200D}🌈",
            "🏴\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}",
            "日本語とＡＢＣ",
            "naïve café e\u{0301}",
        ] {
            assert_eq!(hidden(text), Vec::<String>::new(), "{text:?}");
        }
    }

    #[test]
    fn what_hides_is_named() {
        for (text, codes) in [
            ("pay\u{200B}pal", vec!["U+200B"]),
            ("a\u{202E}cod.exe", vec!["U+202E"]),
            ("x\u{2066}y\u{2069}", vec!["U+2066", "U+2069"]),
            ("hi\u{E0068}\u{E0069}", vec!["U+E0068", "U+E0069"]),
            ("a\u{FE0F}", vec!["U+FE0F"]),
            ("😀\u{FE0F}\u{FE0F}", vec!["U+FE0F"]),
            ("😀\u{E0101}", vec!["U+E0101"]),
            ("rm\u{00A0}-rf", vec!["U+00A0"]),
            ("a\rb\u{1b}[2K\u{85}", vec!["U+000D", "U+001B", "U+0085"]),
            ("a\u{200D}b", vec!["U+200D"]),
            ("ب\u{200C}\u{200C}ب", vec!["U+200C", "U+200C"]),
            ("\u{FEFF}#!", vec!["U+FEFF"]),
            (
                "\u{3164}\u{2800}\u{00AD}",
                vec!["U+3164", "U+2800", "U+00AD"],
            ),
            ("🏴\u{E0067}\u{E0062}", vec!["U+E0067", "U+E0062"]),
        ] {
            assert_eq!(hidden(text), codes, "{text:?}");
        }
    }

    #[test]
    fn hosts_of_two_scripts_are_found() {
        assert_eq!(
            lookalike_hosts("see https://p\u{0430}ypal.com/x"),
            ["p\u{0430}ypal.com"]
        );
        assert_eq!(
            lookalike_hosts("https://пример.рф and https://example.com, яblocks."),
            Vec::<String>::new()
        );
    }

    proptest! {
        #[test]
        fn spans_give_the_text_back(text in any::<String>()) {
            prop_assert_eq!(joined(&visible(&text)), text);
        }

        #[test]
        fn dense_hidden_text_gives_itself_back_and_never_shows_two_in_a_row(
            picks in prop::collection::vec(prop::sample::select(vec![
                'a', 'ب', 'क', '😀', '\u{200C}', '\u{200D}', '\u{FE0F}', '\u{202E}', '\u{E0061}', '\u{1F3F4}', '\u{E007F}',
            ]), 0..40)
        ) {
            let text: String = picks.into_iter().collect();
            let spans = visible(&text);
            prop_assert_eq!(joined(&spans), text);
            for span in &spans {
                if let Span::Plain(plain) = span {
                    let chars: Vec<char> = plain.chars().collect();
                    for pair in chars.windows(2) {
                        prop_assert!(!(is_hidden(pair[0]) && is_hidden(pair[1])) || pair == ['\u{FE0F}', '\u{200D}'],
                            "{:?}", pair);
                    }
                    let bare = plain.contains(['\u{202E}', '\u{E0061}']);
                    prop_assert!(!bare);
                }
            }
        }
    }
}

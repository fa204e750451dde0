//! Characters that do not show, or that show something else than they are.

/// What becomes of a character that does not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stays: it shows, or it does ordinary work where it stands.
    Stays,
    /// It is written out as an escape.
    Escaped,
    /// It goes: the carriage return of a line that ends in both.
    Dropped,
}

/// Whether `c` does not show, or moves, hides or reorders others. Line feeds and tabs show.
///
/// Source: Unicode's `Default_Ignorable_Code_Point`, `Bidi_Control`, the controls of C0 and C1, line and
/// paragraph separators, the format characters of shorthand, music and hieroglyphs, noncharacters, and
/// the Braille pattern without dots.
#[inline]
pub(crate) const fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_control() && !matches!(c, '\n' | '\t')
    } else {
        is_hidden_beyond(c)
    }
}

/// The same beyond ASCII. Nothing between the Latin letters and the general punctuation is hidden but a
/// few, and nothing among the ideographs and the syllables of Korean.
const fn is_hidden_beyond(c: char) -> bool {
    match c {
        // Most of what is hidden in texts stands among these.
        '\u{2000}'..='\u{206f}' => {
            matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        }
        '\u{3165}'..='\u{fdcf}' => false,
        '\u{80}'..='\u{9f}'
        | '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fdd0}'..='\u{fdef}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{fffe}'
        | '\u{ffff}'
        | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d159}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        _ => c as u32 >= 0x1_fffe && c as u32 & 0xfffe == 0xfffe,
    }
}

/// What becomes of the hidden `c` between `before` and `text`, the rest of the text after it.
///
/// Only one joiner or selector in a row ever does ordinary work: a second is how bytes are smuggled.
pub(crate) fn fate(before: &str, c: char, after: &str) -> Fate {
    if matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
    {
        return Fate::Escaped;
    }
    let last = before.chars().next_back();
    let next = after.chars().next();
    let works = match c {
        '\r' if next == Some('\n') => return Fate::Dropped,
        '\u{200c}' => last.is_some_and(joins) && next.is_some_and(joins),
        '\u{200d}' => {
            (last.is_some_and(joins)
                && next.is_none_or(|n| joins(n) || (n.is_whitespace() && !is_hidden(n))))
                || (ends_emoji(before) && next.is_some_and(is_picture))
        }
        '\u{fe0e}' | '\u{fe0f}' => {
            last.is_some_and(is_picture)
                || (next == Some('\u{20e3}')
                    && last.is_some_and(|l| matches!(l, '0'..='9' | '#' | '*')))
        }
        '\u{fe00}'..='\u{fe02}' => last.is_some_and(|l| is_han(l) || is_operator(l)),
        '\u{180b}'..='\u{180f}' => last.is_some_and(|l| matches!(l, '\u{1820}'..='\u{18aa}')),
        '\u{e0100}'..='\u{e011f}' => last.is_some_and(is_han),
        '\u{2800}' => last.is_some_and(is_braille) || next.is_some_and(is_braille),
        '\u{e0020}'..='\u{e007f}' => in_flag(before, c, after),
        _ => false,
    };
    if works { Fate::Stays } else { Fate::Escaped }
}

/// Letters and marks of scripts in which a joiner or non-joiner changes what is drawn: Arabic, Syriac,
/// the Indic scripts, Myanmar, Khmer, Mongolian.
pub(crate) const fn joins(c: char) -> bool {
    matches!(c,
        '\u{620}'..='\u{65f}' | '\u{66e}'..='\u{6d3}' | '\u{6d5}'..='\u{6dc}' | '\u{6df}'..='\u{6ef}'
        | '\u{6fa}'..='\u{6ff}' | '\u{710}'..='\u{74f}' | '\u{750}'..='\u{77f}' | '\u{870}'..='\u{8ff}'
        | '\u{900}'..='\u{963}' | '\u{970}'..='\u{9e5}' | '\u{9f0}'..='\u{dff}' | '\u{f40}'..='\u{fbc}'
        | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17b3}' | '\u{17b6}'..='\u{17d3}' | '\u{17dd}'
        | '\u{1820}'..='\u{18aa}' | '\u{1a20}'..='\u{1aad}' | '\u{1b00}'..='\u{1b4c}'
        | '\u{a8e0}'..='\u{a8ff}' | '\u{a980}'..='\u{a9c0}' | '\u{fb50}'..='\u{fbb1}'
        | '\u{fbd3}'..='\u{fd3d}' | '\u{fd50}'..='\u{fdc7}' | '\u{fdf0}'..='\u{fdfb}'
        | '\u{fe70}'..='\u{fefc}' | '\u{11000}'..='\u{114c7}')
}

/// Whether a joiner may follow inside of an emoji: after a picture, its skin tone, or its selector.
fn ends_emoji(before: &str) -> bool {
    let mut back = before.chars().rev();
    match back.next() {
        Some('\u{fe0f}') => back.next().is_some_and(is_picture),
        last => last.is_some_and(is_picture),
    }
}

/// Unicode's `Extended_Pictographic`, closely, together with the skin tones.
const fn is_picture(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2194}'..='\u{21aa}'
        | '\u{231a}'..='\u{23ff}' | '\u{24c2}' | '\u{25aa}'..='\u{25fe}' | '\u{2600}'..='\u{27bf}'
        | '\u{2934}' | '\u{2935}' | '\u{2b05}'..='\u{2b55}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
        | '\u{1f000}'..='\u{1faff}')
}

pub(crate) const fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

/// Mathematical operators, some of which have a standardised variant.
const fn is_operator(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{22ff}' | '\u{2a00}'..='\u{2aff}')
}

const fn is_braille(c: char) -> bool {
    matches!(c, '\u{2801}'..='\u{28ff}')
}

/// Whether a tag character belongs to one of the three flags that are spelled with tags and that people
/// send: England, Scotland, Wales. Any other would carry letters that nobody sees.
fn in_flag(before: &str, c: char, after: &str) -> bool {
    const FLAGS: [&str; 3] = [
        "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
        "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
        "\u{1f3f4}\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
    ];
    FLAGS.iter().any(|flag| {
        flag.char_indices().skip(1).any(|(at, tag)| {
            tag == c
                && flag.get(..at).is_some_and(|head| before.ends_with(head))
                && flag
                    .get(at + c.len_utf8()..)
                    .is_some_and(|tail| after.starts_with(tail))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> bool {
        text.char_indices()
            .filter(|(_, c)| is_hidden(*c))
            .all(|(at, c)| fate(&text[..at], c, &text[at + c.len_utf8()..]) == Fate::Stays)
    }

    #[test]
    fn scripts_and_pictures_that_need_joiners_stay_whole() {
        for text in [
            "क्\u{200d}षेत्र",
            "می\u{200c}خواهم",
            "ه\u{200d} هجری",
            "ශ්\u{200d}රී",
            "👩\u{200d}👩\u{200d}👧",
            "🏳\u{fe0f}\u{200d}🌈",
            "👩🏽\u{200d}💻",
            "1\u{fe0f}\u{20e3}",
            "❤\u{fe0f}",
            "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
            "葛\u{e0100}城",
            "ᠮᠣᠩᠭᠣᠯ\u{180e}ᠠ",
            "⠓\u{2800}⠺",
        ] {
            assert!(kept(text), "{text:?}");
        }
    }

    #[test]
    fn elsewhere_they_do_not() {
        for text in [
            "im\u{200d}age",
            "a\u{200c}b",
            "می\u{200c}\u{200c}خواهم",
            "😀\u{fe0f}\u{fe0f}",
            "😀\u{e0162}\u{e0165}",
            "🏴\u{e0068}\u{e0069}\u{e007f}",
            "x\u{e0041}",
            "葛\u{e0162}",
            "a\u{2800}b",
            "a\u{fe01}",
        ] {
            assert!(!kept(text), "{text:?}");
        }
    }
}

//! Characters that do not show, or that show something else than they are.

/// What a character does to the reader of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It shows.
    Shown,
    /// It does not show; between letters and pictures of scripts that need it, it belongs there.
    Joiner,
    /// It does not show, or moves, hides or reorders others.
    Hidden,
}

/// What `c` is. Source: Unicode's `Default_Ignorable_Code_Point`, bidirectional controls, C0 and C1.
pub(crate) fn kind(c: char) -> Kind {
    match c {
        '\n' | '\t' => Kind::Shown,
        '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' => Kind::Joiner,
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0d}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => Kind::Hidden,
        _ => Kind::Shown,
    }
}

/// Whether a joiner after `before` belongs there: after a letter or picture outside the Latin blocks.
pub(crate) fn joins(before: Option<char>) -> bool {
    before.is_some_and(|c| c > '\u{24f}' && kind(c) != Kind::Hidden)
}

/// The plain character that `c` can be mistaken for, in lower case.
pub(crate) fn folded(c: char) -> char {
    let plain = match c {
        '\u{ff01}'..='\u{ff5e}' => u32::from(c)
            .checked_sub(0xfee0)
            .and_then(char::from_u32)
            .unwrap_or(c),
        '\u{1c0}' | '\u{2223}' | '\u{23d0}' | '\u{2502}' | '\u{2503}' | '\u{2758}' | '\u{ffe8}' => {
            '|'
        }
        '\u{2039}' | '\u{276e}' | '\u{3008}' | '\u{27e8}' | '\u{fe64}' | '\u{2329}' => '<',
        '\u{203a}' | '\u{276f}' | '\u{3009}' | '\u{27e9}' | '\u{fe65}' | '\u{232a}' => '>',
        '\u{2581}' => '_',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        'а' | 'А' => 'a',
        'с' | 'С' => 'c',
        'е' | 'Е' => 'e',
        'к' | 'К' => 'k',
        'м' | 'М' => 'm',
        'о' | 'О' => 'o',
        'р' | 'Р' => 'p',
        'ѕ' | 'Ѕ' => 's',
        'т' | 'Т' => 't',
        'і' | 'І' => 'i',
        other => other,
    };
    plain.to_ascii_lowercase()
}

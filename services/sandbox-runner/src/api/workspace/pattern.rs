//! A glob over one name: `*`, `?` and `[...]`. It runs in at most pattern times name steps.

use crate::executor::Refused;

/// The longest pattern, in characters.
pub(crate) const PATTERN_MAX: usize = 255;

/// A glob over names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Any,
    One,
    Is(char),
    Of {
        not: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Pattern {
    /// Reads a glob.
    ///
    /// # Errors
    ///
    /// Refuses one that is empty, too long, names folders, or whose `[` is not closed.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        let refuse = |reason: &str| Err(Refused::new("pattern", reason));
        if text.is_empty() {
            return refuse("The pattern is empty. Leave it out to see every name.");
        }
        if text.chars().count() > PATTERN_MAX {
            return refuse("The pattern is longer than 255 characters.");
        }
        if text.chars().any(|c| c == '/' || c.is_control()) {
            return refuse(
                "The pattern is over names, so it has no `/`. Put the folder into path.",
            );
        }
        let mut pieces = Vec::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            let piece = match c {
                '*' if pieces.last() == Some(&Piece::Any) => continue,
                '*' => Piece::Any,
                '?' => Piece::One,
                '[' => match class(&mut rest) {
                    Some(piece) => piece,
                    None => return refuse("A `[` of the pattern is not closed by `]`."),
                },
                c => Piece::Is(c),
            };
            pieces.push(piece);
        }
        Ok(Self(pieces))
    }

    /// Whether the whole of `name` fits.
    pub fn fits(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut at, mut piece) = (0, 0);
        // Where the last `*` stood, and how far its match reached: the only place to go back to.
        let mut star: Option<(usize, usize)> = None;
        loop {
            let here = name.get(at);
            match (self.0.get(piece), here) {
                (None, None) => return true,
                (Some(Piece::Any), _) => {
                    star = Some((piece, at));
                    piece += 1;
                    continue;
                }
                (Some(one), Some(&c)) if one.takes(c) => {
                    at += 1;
                    piece += 1;
                    continue;
                }
                _ => {}
            }
            match star {
                Some((stood, reached)) if reached < name.len() => {
                    star = Some((stood, reached + 1));
                    piece = stood + 1;
                    at = reached + 1;
                }
                _ => return false,
            }
        }
    }
}

impl Piece {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Any => false,
            Self::One => true,
            Self::Is(own) => *own == c,
            Self::Of { not, ranges } => ranges.iter().any(|(a, b)| (*a..=*b).contains(&c)) != *not,
        }
    }
}

/// Reads what stands between `[` and `]`. A `]` that comes first is meant literally.
fn class(rest: &mut std::str::Chars<'_>) -> Option<Piece> {
    let mut next = rest.next()?;
    let not = matches!(next, '!' | '^');
    if not {
        next = rest.next()?;
    }
    let mut ranges = Vec::new();
    loop {
        let from = next;
        let mut ahead = rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(to)) if to != ']' => {
                ranges.push((from, to));
                *rest = ahead;
            }
            _ => ranges.push((from, from)),
        }
        next = rest.next()?;
        if next == ']' {
            return Some(Piece::Of { not, ranges });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_whole_names() {
        for (pattern, name, fits) in [
            ("*.csv", "a.csv", true),
            ("*.csv", "a.csv.bak", false),
            ("*", "", true),
            ("a*b*c", "a--b--b-c", true),
            ("a*b*c", "a--c--b", false),
            ("?", "é", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[a-]", "-", true),
            ("A", "a", false),
            ("**", "abc", true),
        ] {
            assert_eq!(
                Pattern::parse(pattern).unwrap().fits(name),
                fits,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn a_pattern_that_means_nothing_is_refused() {
        for text in ["", "a/b", "[a", "[", "a\nb", &"a".repeat(256)] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_hostile_pattern_stays_cheap() {
        let pattern = Pattern::parse(&"*a".repeat(127)).unwrap();
        assert!(!pattern.fits(&format!("{}b", "a".repeat(250))));
    }
}

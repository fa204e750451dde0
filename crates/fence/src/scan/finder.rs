//! One walk over a text, and what it finds.

use crate::{
    active::{self, Page},
    byte::{self, HEX, MORE, ORNAMENT, PLAIN, SOLO},
    fold::{self, Cursor},
    markdown::Brackets,
    marker, nonce, place, role,
    role::Side,
    scan::{Breaks, Walk, anchor},
    shown, square, token,
};

/// What has been found so far.
pub(crate) struct Finder<'a> {
    text: &'a str,
    nonce: Option<&'a str>,
    breaks: Breaks,
    /// Whether something stands in the text that is nothing but a token of some model.
    certain: bool,
    /// Breaks of what is a token only beside others, such as `<user>`.
    doubtful: Vec<usize>,
    /// Breaks of lines that name a speaker, which count when both sides speak.
    speakers: Vec<(usize, Side)>,
    brackets: Brackets,
    page: Page,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(text: &'a str, nonce: Option<&'a str>) -> Self {
        Self {
            text,
            nonce,
            breaks: Vec::new(),
            certain: false,
            doubtful: Vec::new(),
            speakers: Vec::new(),
            brackets: Brackets::default(),
            page: Page::default(),
        }
    }

    /// Walks the text: where to break it, in order.
    pub(crate) fn breaks(mut self, walk: Walk) -> Breaks {
        match walk {
            Walk::Anchors => {
                if let Some(nonce) = self.nonce {
                    nonce::plain(self.text, nonce, &mut self.breaks);
                }
                self.anchors();
            }
            #[cfg(test)]
            Walk::Everywhere => {
                for (at, _) in self.text.char_indices() {
                    if let Some(middle) = self.nonce.and_then(|n| nonce::at(self.text, at, n)) {
                        self.breaks.push(middle);
                    }
                    self.look(at);
                }
            }
        }
        self.settle();
        // A few ascending runs: what `sort` is quick with.
        if !self.breaks.is_sorted_by(|a, b| a < b) {
            #[expect(
                clippy::stable_sort_primitive,
                reason = "it is quick with a few ascending runs, which these are"
            )]
            self.breaks.sort();
            self.breaks.dedup();
        }
        self.breaks
    }

    #[inline(never)]
    fn anchors(&mut self) {
        let bytes = self.text.as_bytes();
        anchor::each(bytes, |at| {
            let Some([byte, rest @ ..]) = bytes.get(at..) else {
                return;
            };
            let kinds = byte::of(*byte);
            if kinds & PLAIN == 0 {
                return self.beyond(*byte, at);
            }
            if kinds & (ORNAMENT | SOLO) > 0 {
                // Nothing begins within a run of the same sign, nor with most signs that stand alone.
                let before = at.checked_sub(1).and_then(|before| bytes.get(before));
                let more = rest.first().is_none_or(|next| byte::is(*next, MORE));
                if kinds & SOLO > 0 && !more || kinds & ORNAMENT > 0 && before == Some(byte) {
                    return;
                }
            }
            self.begin(char::from(*byte), at, true);
        });
    }

    /// What was put off until the whole text was seen.
    fn settle(&mut self) {
        let mut sides = self.speakers.iter().map(|(_, side)| *side);
        let model = sides.clone().any(|side| side == Side::Model);
        let other = sides
            .clone()
            .any(|side| matches!(side, Side::Person | Side::Other));
        // A form names a model once; in a talk the person goes on after it.
        let answered = [Side::Person, Side::Product, Side::Person]
            .into_iter()
            .all(|turn| sides.any(|side| side == turn));
        let both = model && other || answered;
        if self.certain {
            self.breaks.extend_from_slice(&self.doubtful);
        }
        if self.certain || both {
            let spoken = self
                .speakers
                .iter()
                .filter(|(_, side)| self.certain || *side != Side::Small);
            self.breaks.extend(spoken.map(|(at, _)| *at));
        }
        self.brackets.finish(self.text, &mut self.breaks);
    }

    /// Looks at what begins at `at`.
    #[cfg(test)]
    fn look(&mut self, at: usize) {
        let Some(byte) = self.text.as_bytes().get(at).copied() else {
            return;
        };
        if byte::is(byte, PLAIN) {
            self.begin(char::from(byte), at, true);
        } else {
            self.beyond(byte, at);
        }
    }

    /// The same where the `byte` at `at` begins more than itself.
    fn beyond(&mut self, byte: u8, at: usize) {
        let Some(rest) = self.text.get(at..) else {
            return;
        };
        if byte == b'\\' && shown::written(rest.as_bytes()) > 0 {
            let before = at.checked_sub(1);
            let before = before.and_then(|before| self.text.as_bytes().get(before));
            if before.is_some_and(|before| byte::is(*before, HEX)) {
                self.nonce_around(at);
            }
            return;
        }
        let Some((c, len)) = fold::spelled(rest) else {
            return;
        };
        let is_spelled = byte.is_ascii() && len > 1;
        if is_spelled || nonce::is_wide(c) {
            self.nonce_around(at);
        }
        if c.is_ascii() {
            self.begin(c, at, false);
        } else if anchor::may_begin(c) {
            let mut pieces = ['\0'; 4];
            let count = fold::fold(c, &mut pieces);
            if let Some(first) = count.checked_sub(1).and_then(|last| pieces.get(last)) {
                self.begin(*first, at, false);
            }
        }
    }

    #[inline]
    fn nonce_around(&mut self, at: usize) {
        if let Some(nonce) = self.nonce
            && nonce::may_be_around(self.text.as_bytes(), at)
        {
            nonce::around(self.text, at, nonce, &mut self.breaks);
        }
    }

    /// Looks at what begins with the folded `plain` at `at`; `raw` if the text holds just that.
    fn begin(&mut self, plain: char, at: usize, raw: bool) {
        match plain {
            '<' => self.angle(at, raw),
            '[' => self.opens(at, raw),
            ']' => self.closes(at, raw),
            '{' => self.brace(at),
            '#' => self.hash(at, raw),
            '=' => self.equals(at, raw),
            '-' | '\u{2014}' | '*' | '_' | '~' | '+' => {
                marker::ornament(self.text, at, plain, raw, &mut self.breaks);
            }
            ':' => self.colon(at),
            _ => {}
        }
    }

    // Each of these for itself, so that no more registers are saved than it needs.

    #[inline(never)]
    fn opens(&mut self, at: usize, raw: bool) {
        match square::square(self.text, at) {
            None => self.bracketed(at, raw, ']'),
            found => self.token(found),
        }
        if raw {
            self.brackets.open(self.text, at, &mut self.breaks);
        }
    }

    #[inline(never)]
    fn closes(&mut self, at: usize, raw: bool) {
        self.token(square::unbalanced(self.text, at));
        if raw {
            self.brackets.close(self.text, at, &mut self.breaks);
        }
    }

    #[inline(never)]
    fn brace(&mut self, at: usize) {
        self.token(square::brace(self.text, at));
        if self.text.as_bytes().get(at + 1) == Some(&b'{') {
            self.bracketed(at + 1, true, '}');
        }
    }

    #[inline(never)]
    fn hash(&mut self, at: usize, raw: bool) {
        self.token(role::heading(self.text, at));
        marker::ornament(self.text, at, '#', raw, &mut self.breaks);
    }

    #[inline(never)]
    fn equals(&mut self, at: usize, raw: bool) {
        // `==` compares or rules off.
        if !raw || self.text.as_bytes().get(at + 1) != Some(&b'=') {
            active::attribute(self.text, at, &mut self.breaks);
        }
        marker::ornament(self.text, at, '=', raw, &mut self.breaks);
    }

    #[inline(never)]
    fn colon(&mut self, at: usize) {
        if let Some((place, line)) = role::line(self.text, at) {
            match line {
                role::Line::Certain => self.certainly(place),
                role::Line::Speaker(side) => self.speakers.push((place, side)),
            }
        }
        active::scheme(self.text, at, &mut self.breaks);
    }

    #[inline(never)]
    fn angle(&mut self, at: usize, raw: bool) {
        let next = self.text.as_bytes().get(at + 1);
        if next == Some(&b'<') {
            // `>>> END OBSERVATION <<<`
            marker::before_ornament(self.text, at, &mut self.breaks);
        }
        let quick = if raw {
            token::ordinary(self.text, at)
        } else {
            None
        };
        match quick {
            Some(token::Angle::Token(found)) => self.token(Some(found)),
            quick => self.angled(at, raw, quick),
        }
    }

    #[inline(never)]
    fn angled(&mut self, at: usize, raw: bool, quick: Option<token::Angle>) {
        match quick.or_else(|| token::angle(self.text, at)) {
            Some(token::Angle::Token(found)) => {
                self.token(Some(found));
                // `<image/href=…>`: a document's tag after all.
                if raw && matches!(found, token::Found::Doubtful(_)) {
                    active::tag(self.text, at, &mut self.page, &mut self.breaks);
                }
            }
            Some(token::Angle::Marker) => marker::tag(self.text, at, &mut self.breaks),
            Some(token::Angle::Tag) | None => {
                self.bracketed(at, raw, '>');
                if raw {
                    active::tag(self.text, at, &mut self.page, &mut self.breaks);
                }
            }
        }
    }

    /// Looks for the words of a marker after the bracket at `at`.
    fn bracketed(&mut self, at: usize, raw: bool, close: char) {
        let end = if raw {
            Some(at + 1)
        } else {
            glyph_end(self.text, at)
        };
        if let Some(end) = end.filter(|end| marker::may_be_bracketed(self.text.as_bytes(), *end)) {
            marker::bracketed(self.text, end, close, &mut self.breaks);
        }
    }

    fn token(&mut self, found: Option<token::Found>) {
        match found {
            Some(token::Found::Certain(place)) => self.certainly(place),
            Some(token::Found::Doubtful(place)) => self.doubtful.push(place),
            Some(token::Found::Letter {
                open,
                place,
                closes,
            }) => {
                // Once there is a token, what may be one is broken too.
                if !self.certain && place::strikes(self.text, open, closes) {
                    self.doubtful.push(place);
                } else {
                    self.certainly(place);
                }
            }
            None => {}
        }
    }

    fn certainly(&mut self, place: usize) {
        self.certain = true;
        self.breaks.push(place);
    }
}

/// The end of the glyph at `at`.
pub(crate) fn glyph_end(text: &str, at: usize) -> Option<usize> {
    Cursor::new(text, at).next().map(|glyph| glyph.end)
}

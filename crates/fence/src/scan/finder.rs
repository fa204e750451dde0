//! One walk over a text, and what it finds.

use crate::{
    active,
    fold::{self, Cursor},
    hidden,
    markdown::Brackets,
    marker, nonce, role,
    role::Side,
    scan::{
        Change, Changes, Walk,
        anchor::{self, ALM_LEAD, ALM_TAIL},
    },
    square, token,
};

/// What has been found so far.
pub(crate) struct Finder<'a> {
    text: &'a str,
    nonce: Option<&'a str>,
    changes: Changes,
    /// Whether something stands in the text that is nothing but a token of some model.
    certain: bool,
    /// Breaks of what is a token only beside others, such as `<user>`.
    doubtful: Vec<usize>,
    /// Breaks of lines that name a speaker, which count when both sides speak.
    speakers: Vec<(usize, Side)>,
    brackets: Brackets,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(text: &'a str, nonce: Option<&'a str>) -> Self {
        Self {
            text,
            nonce,
            changes: Vec::new(),
            certain: false,
            doubtful: Vec::new(),
            speakers: Vec::new(),
            brackets: Brackets::default(),
        }
    }

    /// Walks the text: what to change in it, in order.
    pub(crate) fn changes(mut self, walk: Walk) -> Changes {
        match walk {
            Walk::Anchors => {
                if let Some(nonce) = self.nonce {
                    nonce::plain(self.text, nonce, &mut self.changes);
                }
                self.anchors();
            }
            #[cfg(test)]
            Walk::Everywhere => {
                for (at, _) in self.text.char_indices() {
                    if let Some(middle) = self.nonce.and_then(|n| nonce::at(self.text, at, n)) {
                        self.changes.push((middle, Change::Break));
                    }
                    self.look(at);
                }
            }
        }
        self.settle();
        // A few ascending runs: what `sort` is quick with.
        self.changes.sort();
        self.changes.dedup();
        self.changes
    }

    fn anchors(&mut self) {
        let bytes = self.text.as_bytes();
        anchor::each(bytes, |at| {
            let before = at.checked_sub(1).and_then(|before| bytes.get(before));
            let byte = bytes.get(at);
            if byte == before && matches!(byte, Some(b'=' | b'-' | b'*' | b'_' | b'#' | b'~')) {
                // Nothing begins within a run of the same sign.
                return;
            }
            if byte != Some(&ALM_TAIL) {
                self.look(at);
            } else if let Some(before) = at.checked_sub(1)
                && bytes.get(before) == Some(&ALM_LEAD)
            {
                self.look(before);
            }
        });
    }

    /// What was put off until the whole text was seen.
    fn settle(&mut self) {
        let both = self.speakers.iter().any(|(_, side)| *side == Side::Model)
            && self.speakers.iter().any(|(_, side)| *side == Side::Other);
        if self.certain {
            self.changes
                .extend(self.doubtful.iter().map(|at| (*at, Change::Break)));
        }
        if self.certain || both {
            let spoken = self
                .speakers
                .iter()
                .filter(|(_, side)| self.certain || *side != Side::Small);
            self.changes
                .extend(spoken.map(|(at, _)| (*at, Change::Break)));
        }
        let pictures = self.brackets.pictures();
        self.changes.extend(pictures.map(|at| (at, Change::Break)));
    }

    /// Looks at what begins at `at`.
    fn look(&mut self, at: usize) {
        let Some(rest) = self.text.get(at..) else {
            return;
        };
        let Some(byte) = rest.bytes().next() else {
            return;
        };
        if fold::is_plain(byte) {
            return self.begin(char::from(byte), at, true);
        }
        let Some((c, len)) = fold::spelled(rest) else {
            return;
        };
        let is_spelled = byte.is_ascii() && len > 1;
        if !is_spelled && hidden::is_hidden(c) {
            return self.hidden(at, c);
        }
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

    fn hidden(&mut self, at: usize, c: char) {
        let (Some(before), Some(after)) = (self.text.get(..at), self.text.get(at + c.len_utf8()..))
        else {
            return;
        };
        let change: Option<Change> = hidden::fate(before, c, after).into();
        self.changes.extend(change.map(|change| (at, change)));
        self.nonce_around(at);
    }

    #[inline]
    fn nonce_around(&mut self, at: usize) {
        if let Some(nonce) = self.nonce
            && nonce::may_be_around(self.text.as_bytes(), at)
        {
            nonce::around(self.text, at, nonce, &mut self.changes);
        }
    }

    /// Looks at what begins with the folded `plain` at `at`; `raw` if the text holds just that.
    fn begin(&mut self, plain: char, at: usize, raw: bool) {
        match plain {
            '<' => self.angle(at, raw),
            '[' => {
                self.token(square::square(self.text, at));
                if raw {
                    self.brackets.open(self.text, at);
                }
            }
            ']' => {
                self.token(square::unbalanced(self.text, at));
                if raw {
                    self.brackets.close(self.text, at, &mut self.changes);
                }
            }
            '{' => self.token(square::brace(self.text, at)),
            '#' => {
                self.token(role::heading(self.text, at));
                marker::ornament(self.text, at, plain, raw, &mut self.changes);
            }
            '=' => {
                // `==` compares or rules off.
                if !raw || self.text.as_bytes().get(at + 1) != Some(&b'=') {
                    active::attribute(self.text, at, &mut self.changes);
                }
                marker::ornament(self.text, at, plain, raw, &mut self.changes);
            }
            '-' | '\u{2014}' | '*' | '_' | '~' | '+' => {
                marker::ornament(self.text, at, plain, raw, &mut self.changes);
            }
            ':' => {
                if let Some((place, line)) = role::line(self.text, at) {
                    match line {
                        role::Line::Certain => self.certainly(place),
                        role::Line::Speaker(side) => self.speakers.push((place, side)),
                    }
                }
                active::scheme(self.text, at, &mut self.changes);
            }
            _ => {}
        }
    }

    fn angle(&mut self, at: usize, raw: bool) {
        match token::angle(self.text, at) {
            Some(token::Angle::Token(found)) => self.token(Some(found)),
            Some(token::Angle::Marker) => marker::tag(self.text, at, &mut self.changes),
            Some(token::Angle::Tag) | None if raw => {
                active::tag(self.text, at, &mut self.changes);
            }
            Some(token::Angle::Tag) | None => {}
        }
    }

    fn token(&mut self, found: Option<token::Found>) {
        match found {
            Some(token::Found::Certain(place)) => self.certainly(place),
            Some(token::Found::Doubtful(place)) => self.doubtful.push(place),
            None => {}
        }
    }

    fn certainly(&mut self, place: usize) {
        self.certain = true;
        self.changes.push((place, Change::Break));
    }
}

/// The end of the glyph at `at`.
pub(crate) fn glyph_end(text: &str, at: usize) -> Option<usize> {
    Cursor::new(text, at).next().map(|glyph| glyph.end)
}

//! The event stream format of the WHATWG HTML standard, section 9.2.6, as far as chat completions use it.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its type; empty unless the stream named one.
    pub(crate) kind: String,
    /// Its data; lines joined by a line feed.
    pub(crate) data: String,
}

/// A line or an event is longer than allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is too long")]
pub(crate) struct TooLong;

/// Turns bytes, in whatever pieces they come, into events.
#[derive(Debug)]
pub(crate) struct Decoder {
    line: Vec<u8>,
    kind: String,
    data: String,
    has_data: bool,
    at_start: bool,
    after_return: bool,
    max: usize,
}

impl Decoder {
    /// A decoder for one stream whose lines and events have at most `max` bytes.
    pub(crate) const fn new(max: usize) -> Self {
        Self {
            line: Vec::new(),
            kind: String::new(),
            data: String::new(),
            has_data: false,
            at_start: true,
            after_return: false,
            max,
        }
    }

    /// Takes more bytes and appends the events that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        for byte in bytes {
            let completes_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if completes_return => {}
                b'\n' => self.end_line(events)?,
                b'\r' => {
                    self.after_return = true;
                    self.end_line(events)?;
                }
                byte if self.line.len() < self.max => self.line.push(*byte),
                _ => return Err(TooLong),
            }
        }
        Ok(())
    }

    /// The event that the stream's end left without its blank line. The standard drops it; some
    /// servers send their last one so.
    pub(crate) fn rest(mut self) -> Result<Option<Event>, TooLong> {
        let mut events = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut events)?;
        }
        self.dispatch(&mut events);
        Ok(events.pop())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), TooLong> {
        let bytes = std::mem::take(&mut self.line);
        let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) if self.at_start => rest,
            _ => &bytes,
        };
        self.at_start = false;
        if bytes.is_empty() {
            self.dispatch(events);
            return Ok(());
        }
        let line = String::from_utf8_lossy(bytes);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                if self.data.len() + value.len() > self.max {
                    return Err(TooLong);
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            "event" => value.clone_into(&mut self.kind),
            // Comments have an empty field name; `id` and `retry` are for those who reconnect.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, events: &mut Vec<Event>) {
        let kind = std::mem::take(&mut self.kind);
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) {
            events.push(Event { kind, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String)> {
        let mut decoder = Decoder::new(1_000);
        let mut events = Vec::new();
        for piece in pieces {
            decoder.push(piece, &mut events).unwrap();
        }
        events
            .into_iter()
            .map(|event| (event.kind, event.data))
            .collect()
    }

    #[test]
    fn the_standard_is_followed() {
        let table: &[(&str, &[(&str, &str)])] = &[
            ("data: a\n\n", &[("", "a")]),
            ("data: a\r\n\r\n", &[("", "a")]),
            ("data: a\r\r", &[("", "a")]),
            ("data: a\r\n\ndata: b\n\r\n", &[("", "a"), ("", "b")]),
            ("data:a\n\n", &[("", "a")]),
            ("data:  a\n\n", &[("", " a")]),
            ("data: a\ndata: b\n\n", &[("", "a\nb")]),
            ("data\n\n", &[("", "")]),
            ("data\ndata\n\n", &[("", "\n")]),
            (": a comment\n\ndata: a\n\n", &[("", "a")]),
            (
                "event: error\ndata: a\n\ndata: b\n\n",
                &[("error", "a"), ("", "b")],
            ),
            ("event: lonely\n\ndata: b\n\n", &[("", "b")]),
            ("id: 7\nretry: 10\ndata: a\nunknown: x\n\n", &[("", "a")]),
            ("\u{feff}data: a\n\n", &[("", "a")]),
            ("data: a\n\n\u{feff}data: b\n\n", &[("", "a")]),
            ("data: [DONE]\n\n", &[("", "[DONE]")]),
            ("data: cut off\n", &[]),
            ("data: a: b\n\n", &[("", "a: b")]),
            ("\n\n\r\n", &[]),
        ];
        for (stream, expected) in table {
            let got = decode([stream.as_bytes()]);
            let got: Vec<_> = got.iter().map(|(k, d)| (k.as_str(), d.as_str())).collect();
            assert_eq!(got, *expected, "{stream:?}");
        }
    }

    #[test]
    fn what_the_end_left_open_can_be_had() {
        for (stream, expected) in [
            ("data: a\n\ndata: [DONE]", Some("[DONE]")),
            ("data: a\n\ndata: b\n", Some("b")),
            ("data: a\ndata: b", Some("a\nb")),
            ("data: a\n\n", None),
            ("data: a\n\n: ping", None),
            ("", None),
        ] {
            let mut decoder = Decoder::new(100);
            decoder.push(stream.as_bytes(), &mut Vec::new()).unwrap();
            let rest = decoder.rest().unwrap().map(|event| event.data);
            assert_eq!(rest.as_deref(), expected, "{stream:?}");
        }
    }

    #[test]
    fn a_line_or_an_event_without_end_is_refused() {
        let mut decoder = Decoder::new(10);
        let mut events = Vec::new();
        assert_eq!(decoder.push(&[b'x'; 11], &mut events), Err(TooLong));
        let mut decoder = Decoder::new(10);
        assert_eq!(
            decoder.push(b"data: aaaa\ndata: bbbb\ndata: cccc\n", &mut events),
            Err(TooLong)
        );
        assert_eq!(events, []);
    }

    proptest! {
        #[test]
        fn the_pieces_make_no_difference(
            text in "(data: ?[a-zé]{0,3}|data|event: x|: c|\u{feff}|[é:\r\n]|\r\n|\n\n){0,12}",
            cuts in proptest::collection::vec(0_usize..200, 0..8),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(decode(pieces), decode([bytes]));
        }

        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            decode([bytes.as_slice()]);
        }
    }
}

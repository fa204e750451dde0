//! What goes between the broker and the init of a container, over the container's standard streams.
//!
//! Inwards one [`Order`] and its task. Outwards frames: a byte that says what it is, a 32-bit big-endian
//! length, the content. What the init says for itself begins with the key that came with the order: in
//! gVisor a snippet can open the init's own output by way of `/proc`, and could otherwise report its own end.

use bytes::{Buf, Bytes, BytesMut};

use super::{OutputStream, report::Report};

const REPORT: u8 = 1;
const STDOUT: u8 = 2;
const STDERR: u8 = 3;
const TOTALS: u8 = 4;
const HEAD: usize = 5;
/// Bytes of one frame's content. The init never sends more; whoever does is not the init.
const CONTENT_MAX: usize = 64 * 1024;

/// What the broker and the init of one container know and nobody else. Zero before there is an order.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) [u8; KEY]);

const KEY: usize = 16;

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// What the broker asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    /// What begins every report from now on.
    pub(crate) key: Key,
    /// Bytes of the task that follows.
    pub(crate) task_bytes: u32,
    /// The time that the run has, in milliseconds.
    pub(crate) timeout_ms: u32,
    /// Bytes of each output that are passed on; the rest is counted.
    pub(crate) output_cap: u32,
}

impl Order {
    /// Bytes of an order.
    pub(crate) const SIZE: usize = KEY + 12;

    pub(crate) fn to_bytes(self) -> Bytes {
        let numbers = [self.task_bytes, self.timeout_ms, self.output_cap];
        let numbers = numbers.iter().flat_map(|number| number.to_be_bytes());
        self.key.0.into_iter().chain(numbers).collect()
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        let mut rest = &bytes[..];
        let mut key = [0; KEY];
        rest.copy_to_slice(&mut key);
        Self {
            key: Key(key),
            task_bytes: rest.get_u32(),
            timeout_ms: rest.get_u32(),
            output_cap: rest.get_u32(),
        }
    }
}

/// What the control group counted; nothing where it cannot be seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) oom_kills: Option<u64>,
    pub(crate) pids_refused: Option<u64>,
    pub(crate) peak_memory: Option<u64>,
}

/// What a run came to, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Bytes printed, passed on or not.
    pub(crate) stdout_bytes: u64,
    /// Bytes printed, passed on or not.
    pub(crate) stderr_bytes: u64,
    pub(crate) usage: Usage,
}

/// One frame from the init.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Report(Report),
    Output(OutputStream, Bytes),
    Totals(Totals),
}

/// The other side does not send frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sandbox does not speak as its init does")]
pub(crate) struct NotAFrame;

fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + content.len());
    bytes.push(kind);
    bytes.extend_from_slice(
        &u32::try_from(content.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes(),
    );
    bytes.extend_from_slice(content);
    bytes
}

fn keyed(kind: u8, key: Key, text: &str) -> Vec<u8> {
    let mut content = key.0.to_vec();
    content.extend_from_slice(text.as_bytes());
    content.truncate(CONTENT_MAX);
    frame(kind, &content)
}

pub(crate) fn report(key: Key, report: &Report) -> Vec<u8> {
    keyed(REPORT, key, &report.to_string())
}

pub(crate) fn output(stream: OutputStream, data: &[u8]) -> Vec<u8> {
    let kind = match stream {
        OutputStream::Stdout => STDOUT,
        OutputStream::Stderr => STDERR,
    };
    frame(kind, data)
}

pub(crate) fn totals(key: Key, totals: &Totals) -> Vec<u8> {
    let Usage {
        oom_kills,
        pids_refused,
        peak_memory,
    } = totals.usage;
    let numbers = [
        Some(totals.stdout_bytes),
        Some(totals.stderr_bytes),
        oom_kills,
        pids_refused,
        peak_memory,
    ];
    let words = numbers.map(|number| number.map_or_else(|| "-".to_owned(), |n| n.to_string()));
    keyed(TOTALS, key, &words.join(" "))
}

/// Takes the next whole frame off `bytes`; `None` until there is one. A report under another key is none.
pub(crate) fn next(bytes: &mut BytesMut, key: Key) -> Result<Option<Frame>, NotAFrame> {
    let Some(head) = bytes.first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let [kind, length @ ..] = *head;
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(|_| NotAFrame)?;
    if length > CONTENT_MAX || !(REPORT..=TOTALS).contains(&kind) {
        return Err(NotAFrame);
    }
    if bytes.len() < HEAD + length {
        return Ok(None);
    }
    bytes.advance(HEAD);
    let content = bytes.split_to(length).freeze();
    let text = || {
        let text = content.strip_prefix(&key.0).ok_or(NotAFrame)?;
        std::str::from_utf8(text).map_err(|_| NotAFrame)
    };
    Ok(Some(match kind {
        STDOUT => Frame::Output(OutputStream::Stdout, content),
        STDERR => Frame::Output(OutputStream::Stderr, content),
        REPORT => Frame::Report(Report::parse(text()?).ok_or(NotAFrame)?),
        _ => Frame::Totals(parse_totals(text()?).ok_or(NotAFrame)?),
    }))
}

fn parse_totals(text: &str) -> Option<Totals> {
    let mut words = text.split(' ');
    let mut number = || match words.next()? {
        "-" => Some(None),
        word => word.parse().ok().map(Some),
    };
    Some(Totals {
        stdout_bytes: number()??,
        stderr_bytes: number()??,
        usage: Usage {
            oom_kills: number()?,
            pids_refused: number()?,
            peak_memory: number()?,
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KNOWN: Key = Key([7; KEY]);

    fn all() -> Vec<Frame> {
        vec![
            Frame::Report(Report::Locked),
            Frame::Output(
                OutputStream::Stdout,
                Bytes::from_static(b"\x01\0\0\0\x08exited 0"),
            ),
            Frame::Output(OutputStream::Stderr, Bytes::new()),
            Frame::Totals(Totals {
                stdout_bytes: 13,
                stderr_bytes: 0,
                usage: Usage {
                    oom_kills: Some(1),
                    pids_refused: None,
                    peak_memory: Some(9),
                },
            }),
            Frame::Report(Report::Exited(3)),
        ]
    }

    fn written(frame: &Frame) -> Vec<u8> {
        match frame {
            Frame::Report(told) => report(KNOWN, told),
            Frame::Output(stream, data) => output(*stream, data),
            Frame::Totals(counted) => totals(KNOWN, counted),
        }
    }

    proptest! {
        #[test]
        fn frames_come_through_however_they_are_cut(step in 1_usize..40) {
            let sent: Vec<u8> = all().iter().flat_map(written).collect();
            let (mut buffer, mut got) = (BytesMut::new(), Vec::new());
            for piece in sent.chunks(step) {
                buffer.extend_from_slice(piece);
                while let Some(frame) = next(&mut buffer, KNOWN).unwrap() {
                    got.push(frame);
                }
            }
            prop_assert_eq!(got, all());
            prop_assert!(buffer.is_empty());
        }

        #[test]
        fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = next(&mut buffer, KNOWN) {}
        }
    }

    #[test]
    fn a_frame_too_long_is_none_at_once() {
        let mut bytes = BytesMut::from(&[STDOUT, 0, 2, 0, 0][..]);
        assert_eq!(next(&mut bytes, KNOWN), Err(NotAFrame));
    }

    #[test]
    fn a_report_under_another_key_is_none() {
        for forged in [
            report(Key::default(), &Report::Exited(0)),
            totals(Key([8; KEY]), &Totals::default()),
            frame(REPORT, b"exited 0"),
        ] {
            let mut bytes = BytesMut::from(&forged[..]);
            assert_eq!(next(&mut bytes, KNOWN), Err(NotAFrame));
        }
    }

    #[test]
    fn an_order_survives() {
        let order = Order {
            key: KNOWN,
            task_bytes: 1,
            timeout_ms: 300_000,
            output_cap: 7,
        };
        let bytes: [u8; Order::SIZE] = order.to_bytes()[..].try_into().unwrap();
        assert_eq!(Order::from_bytes(bytes), order);
    }
}

//! The frames of a sandbox: however they are cut they say the same, what is read is written the same, and
//! nothing that does not know the key reports an end.

#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;

// Not public; here stands the one type that they take from the crate around them.
#[path = "../../services/sandbox-runner/src/jail/frame.rs"]
#[allow(dead_code)]
mod frame;
#[path = "../../services/sandbox-runner/src/jail/report.rs"]
#[allow(dead_code)]
mod report;

use frame::{Frame, Key, NotAFrame};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    Stdout,
    Stderr,
}

const KEY: Key = Key([0x5c; 16]);
const OTHER: Key = Key([0xa3; 16]);

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>, key: Key) -> (Vec<Frame>, Result<(), NotAFrame>) {
    let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match frame::next(&mut buffer, key) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Err(error)),
            }
        }
    }
    (frames, Ok(()))
}

// How long the pieces are, and what the sandbox sends.
fuzz_target!(|data: &[u8]| {
    let Some((step, sent)) = data.split_first() else {
        return;
    };
    let (frames, end) = read(std::iter::once(sent), KEY);
    let (cut, cut_end) = read(sent.chunks(usize::from(*step).max(1)), KEY);
    assert_eq!((&frames, end), (&cut, cut_end));
    let (strange, _) = read(std::iter::once(sent), OTHER);
    for frame in &strange {
        let known = sent.windows(16).any(|window| window == OTHER.0);
        assert!(known || matches!(frame, Frame::Output(..)));
    }
    for frame in frames {
        let written = match &frame {
            Frame::Report(told) => frame::report(KEY, told),
            Frame::Output(stream, data) => frame::output(*stream, data),
            Frame::Totals(counted) => frame::totals(KEY, counted),
        };
        let again = read(std::iter::once(&written[..]), KEY);
        // A report may be written longer than a frame may be: then it is cut, and none.
        assert!(again == (vec![frame], Ok(())) || written.len() > 64 * 1024);
    }
    let order = frame::Order::from_bytes(std::array::from_fn(|at| sent.get(at).copied().unwrap_or(0)));
    let bytes: Bytes = order.to_bytes();
    assert_eq!(frame::Order::from_bytes(bytes[..].try_into().expect("its size")), order);
});

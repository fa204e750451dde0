//! The decoder of event streams: however a stream is cut, it says the same, and no more than its bound.

#![no_main]

use libfuzzer_sys::fuzz_target;

// Not public, and with nothing in it of the crate around it.
#[path = "../../services/gateway/src/model/sse.rs"]
mod sse;

const MAX: usize = 256;

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Option<Vec<sse::Event>> {
    let mut decoder = sse::Decoder::new(MAX);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut events).ok()?;
    }
    events.extend(decoder.rest().ok()?);
    Some(events)
}

// How long the pieces are, and the stream.
fuzz_target!(|data: &[u8]| {
    let Some((step, stream)) = data.split_first() else {
        return;
    };
    let whole = decode(std::iter::once(stream));
    let cut = decode(stream.chunks(usize::from(*step).max(1)));
    assert_eq!(whole, cut);
    for event in whole.into_iter().flatten() {
        // A byte that is no UTF-8 becomes three.
        assert!(event.data.len() <= 3 * MAX && event.kind.len() <= 3 * MAX);
        assert!(!event.data.contains('\r'));
        assert!(!event.kind.contains(['\r', '\n']));
    }
});

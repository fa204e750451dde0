//! The fence: whatever the text is, nothing inside looks like its markers, it ends where it ends, and fencing
//! again and again comes to an end.

#![no_main]

use kazma_fence::{Fence, Fenced, Source, defuse};
use libfuzzer_sys::fuzz_target;

const NONCE: [u8; 16] = [0x5c; 16];

fn fenced(text: &str) -> Fenced {
    Fence::new(NONCE).wrap(Source::Web, text, text)
}

fuzz_target!(|text: &str| {
    let once = fenced(text);
    assert!(!once.inner().contains(once.nonce()));
    assert!(!once.inner().contains("=== KAZMA UNTRUSTED DATA "));
    assert_eq!(once.open().lines().count(), 1);
    let whole = once.to_string();
    assert_eq!(whole.matches(once.close()).count(), 1);
    assert_eq!(Fenced::find(&whole).as_ref(), Some(&once));
    // Hidden characters are longer once they are written out, which may bring one more shape to be broken.
    let twice = fenced(once.inner());
    assert_eq!(fenced(twice.inner()).inner(), twice.inner());
    let defused = defuse(&defuse(text));
    assert_eq!(defuse(&defused), defused);
});

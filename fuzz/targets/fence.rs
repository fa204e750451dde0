//! The fence: whatever the text is, nothing inside looks like its markers, it ends where it ends, and fencing
//! again changes nothing.

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
    assert_eq!(fenced(once.inner()).inner(), once.inner());
    let defused = defuse(text);
    assert_eq!(defuse(&defused), defused);
});

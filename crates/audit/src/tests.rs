use proptest::prelude::*;
use serde_json::json;

use super::*;

#[derive(Debug)]
struct Same;

impl Entropy for Same {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

fn chain(length: i64) -> Vec<Stored> {
    let mut head = Head::GENESIS;
    (1..=length)
        .map(|n| {
            let fact = Fact {
                at: Timestamp::from_second(1_700_000_000 + n).unwrap(),
                kind: "call.filed",
                actor: "agent".to_owned(),
                subjects: [("call", format!("call_{n}"))].into(),
                payload: json!({"n": n}),
            };
            let link = head.append(fact, &Same).unwrap();
            head = link.head;
            Stored {
                seq: n,
                record: link.record,
                hash: link.hash,
                payload: Some(link.payload),
            }
        })
        .collect()
}

#[test]
fn a_chain_holds_and_an_erased_payload_does_not_break_it() {
    let mut records = chain(5);
    let whole = verify(&records, &[]).unwrap();
    assert_eq!((whole.records, whole.erased), (5, 0));
    records[2].payload = None;
    let erased = verify(&records, &[]).unwrap();
    assert_eq!((erased.records, erased.erased), (5, 1));
    assert_eq!(whole.head, erased.head);
}

#[test]
fn what_was_changed_dropped_or_swapped_is_found_where_it_is() {
    let mut dropped = chain(5);
    dropped.remove(2);
    assert_eq!(verify(&dropped, &[]).unwrap_err().seq, 3);

    let mut swapped = chain(5);
    swapped.swap(1, 2);
    assert_eq!(verify(&swapped, &[]).unwrap_err().seq, 2);

    let mut payload = chain(5);
    payload[3].payload = Some(payload[2].payload.clone().unwrap());
    assert_eq!(verify(&payload, &[]).unwrap_err().seq, 4);

    // Rewritten with a matching hash: the next record still points at the old one.
    let mut rewritten = chain(5);
    rewritten[1].record = rewritten[1].record.replace("agent", "other");
    rewritten[1].hash = Digest::of_bytes(rewritten[1].record.as_bytes());
    assert_eq!(verify(&rewritten, &[]).unwrap_err().seq, 3);
}

#[test]
fn a_tail_that_was_cut_off_shows_against_a_signed_head() {
    let key = SigningKey::generate().unwrap();
    let records = chain(5);
    let head = Head {
        seq: 5,
        hash: records[4].hash,
    };
    let at = Timestamp::from_second(1_700_000_100).unwrap();
    let signed = head.sign(&key, 1, at).unwrap();
    signed.verify(&key.verifying_key()).unwrap();
    assert_eq!(
        verify(&records, std::slice::from_ref(&signed))
            .unwrap()
            .heads,
        1
    );
    assert_eq!(
        verify(&records[..4], std::slice::from_ref(&signed))
            .unwrap_err()
            .seq,
        5
    );
    // Nor does a head that says something else about the same length.
    let other = Head {
        seq: 5,
        hash: Digest::of_bytes(b"other"),
    };
    let other = other.sign(&key, 1, at).unwrap();
    assert_eq!(
        verify(&records, std::slice::from_ref(&other))
            .unwrap_err()
            .seq,
        5
    );
    let stranger = SigningKey::generate().unwrap();
    assert!(other.verify(&stranger.verifying_key()).is_err());
}

proptest! {
    #[test]
    fn any_flipped_bit_is_found(record in 0_usize..5, place in any::<prop::sample::Index>(), bit in 0_u8..7, part in 0_u8..2) {
        let mut records = chain(5);
        let target = if part == 0 {
            &mut records[record].record
        } else {
            records[record].payload.as_mut().unwrap()
        };
        let mut bytes = target.clone().into_bytes();
        let at = place.index(bytes.len());
        bytes[at] ^= 1 << bit;
        *target = String::from_utf8(bytes).unwrap();
        let broken = verify(&records, &[]).unwrap_err();
        prop_assert_eq!(broken.seq, i64::try_from(record).unwrap() + 1);
    }
}

proptest! {
    #[test]
    fn a_record_is_written_in_its_canonical_form(
        actor in any::<String>(),
        id in any::<String>(),
        seq in 0_i64..1 << 50,
        payload in any::<String>(),
    ) {
        let fact = Fact {
            at: Timestamp::from_second(1_700_000_000 + seq % 1_000_000).unwrap(),
            kind: "call.filed",
            actor,
            subjects: [("thread", id.clone()), ("call", id)].into(),
            payload: json!({"text": payload}),
        };
        let link = Head { seq, hash: Head::GENESIS.hash }.append(fact, &Same).unwrap();
        let read: Record = serde_json::from_str(&link.record).unwrap();
        prop_assert_eq!(kazma_domain::canonical_json(&read).unwrap(), link.record.into_bytes());
    }
}

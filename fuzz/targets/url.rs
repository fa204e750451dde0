//! The judge of URLs: what passes reads the same again, and no address of this house passes, in whatever
//! spelling, as a literal, as an answer, or at the end of a redirect.

#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kazma_netguard::{Answers, Judge, Target};
use libfuzzer_sys::fuzz_target;

/// Addresses that nobody outside has. Told by the standard library, which knows fewer than the judge does.
fn inside(address: IpAddr) -> bool {
    let four = |four: Ipv4Addr| {
        four.is_private()
            || four.is_loopback()
            || four.is_link_local()
            || four.is_unspecified()
            || four.is_broadcast()
            || four.is_multicast()
    };
    let six = |six: Ipv6Addr| {
        six.is_loopback()
            || six.is_unspecified()
            || six.is_multicast()
            || six.is_unique_local()
            || six.is_unicast_link_local()
            || six.to_ipv4().is_some_and(four)
    };
    match address {
        IpAddr::V4(address) => four(address),
        IpAddr::V6(address) => six(address),
    }
}

fn literal(target: &Target) -> Option<IpAddr> {
    target
        .url()
        .host_str()?
        .trim_matches(['[', ']'])
        .parse()
        .ok()
}

fn passed(judge: &Judge, target: &Target) {
    let again = judge.url(target.url().as_str());
    assert_eq!(again.as_ref(), Ok(target));
    assert!(matches!(target.url().scheme(), "http" | "https"));
    assert!(matches!(target.port(), 80 | 443));
    assert!(target.url().username().is_empty() && target.url().password().is_none());
    assert!(
        literal(target).is_none_or(|address| !inside(address)),
        "{target:?}"
    );
}

// A URL on the first line, where it redirects on the second, and 16 bytes of an address behind.
fuzz_target!(|data: &[u8]| {
    let (text, address) = data.split_at(data.len().saturating_sub(16));
    let text = String::from_utf8_lossy(text);
    let (url, location) = text.split_once('\n').unwrap_or((&text, ""));
    let judge = Judge::default();
    let Ok(target) = judge.url(url) else { return };
    passed(&judge, &target);
    if let Ok(next) = judge.redirect(&[target.clone()], location) {
        passed(&judge, &next);
    }
    let _ = judge.refresh(&target, location);
    let _ = judge.alt_svc(location);
    if let Ok(bytes) = <[u8; 16]>::try_from(address) {
        for address in [
            IpAddr::from(bytes),
            IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
        ] {
            let answers = Answers {
                addresses: vec![address],
                aliases: Vec::new(),
            };
            let judged = judge.answers(&target, &answers).unwrap_or_default();
            assert!(!judged.iter().any(|address| inside(*address)), "{judged:?}");
        }
    }
});

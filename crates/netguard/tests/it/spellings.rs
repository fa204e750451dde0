//! Special addresses in every spelling that the parser of URLs accepts.

use std::net::{Ipv4Addr, Ipv6Addr};

use kazma_netguard::{Answers, Judge};
use proptest::prelude::*;

/// Special blocks, by a first address and the bits that are free: written anew here, so that a slip in
/// the crate's own table shows.
const V4: [([u8; 4], u32); 17] = [
    ([0, 0, 0, 0], 24),
    ([10, 0, 0, 0], 24),
    ([100, 64, 0, 0], 22),
    ([127, 0, 0, 0], 24),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 20),
    ([192, 0, 0, 0], 8),
    ([192, 0, 2, 0], 8),
    ([192, 88, 99, 0], 8),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 17),
    ([198, 51, 100, 0], 8),
    ([203, 0, 113, 0], 8),
    ([224, 0, 0, 0], 28),
    ([240, 0, 0, 0], 28),
    ([168, 63, 129, 16], 0),
    ([100, 100, 100, 200], 0),
];

fn special_v4() -> impl Strategy<Value = Ipv4Addr> {
    (proptest::sample::select(&V4[..]), any::<u32>()).prop_map(|((first, free), low)| {
        let mask = u32::MAX.checked_shl(free).unwrap_or(0);
        let first = u32::from_be_bytes(first);
        Ipv4Addr::from_bits(first | (low & !mask))
    })
}

/// One number in a base, with zeros before it.
fn number(value: u32, base: u8, zeros: usize, upper: bool) -> String {
    let text = match base {
        0 => format!("{value}"),
        1 => format!("0{}{value:o}", "0".repeat(zeros)),
        _ => format!("0x{}{value:x}", "0".repeat(zeros)),
    };
    if upper { text.to_uppercase() } else { text }
}

/// The address in some of the ways in which a browser reads one.
fn spelled(
    address: Ipv4Addr,
    bases: [u8; 4],
    parts: usize,
    zeros: usize,
    upper: bool,
    wide: u8,
) -> String {
    let bytes = address.octets();
    let rest = |from: usize| {
        bytes[from..]
            .iter()
            .fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte))
    };
    let mut pieces: Vec<String> = (0..parts - 1)
        .map(|n| number(u32::from(bytes[n]), bases[n], zeros, upper))
        .collect();
    pieces.push(number(rest(parts - 1), bases[3], zeros, upper));
    let dot = match wide {
        1 => "。",
        2 => "．",
        3 => "｡",
        _ => ".",
    };
    let text = pieces.join(dot);
    match wide {
        4 => text
            .chars()
            .map(|c| {
                if c.is_ascii_digit() {
                    char::from_u32(u32::from(c) + 0xfee0).unwrap()
                } else {
                    c
                }
            })
            .collect(),
        5 => format!("{text}."),
        _ => text,
    }
}

fn disguises(address: Ipv4Addr, prefix: u16) -> Vec<Ipv6Addr> {
    let [a, b, c, d] = address.octets();
    let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    vec![
        Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
        Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
        Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
        Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
        Ipv6Addr::new(0x64, 0xff9b, 1, prefix, 0, 0, high, low),
        Ipv6Addr::new(0x2002, high, low, prefix, 0, 0, 0, 1),
        Ipv6Addr::new(0x2001, 0, prefix, 0, 0, 0, !high, !low),
        Ipv6Addr::new(0x2a00, prefix, 0, 0, 0, 0x5efe, high, low),
        Ipv6Addr::new(0x2a00, prefix, 0, 0, 0x200, 0x5efe, high, low),
    ]
}

proptest! {
    #[test]
    fn no_spelling_of_a_special_address_passes(
        address in special_v4(), bases in any::<[u8; 4]>(), parts in 1..=4_usize, zeros in 0..3_usize,
        upper in any::<bool>(), wide in 0..6_u8, https in any::<bool>(),
    ) {
        let host = spelled(address, bases.map(|base| base % 3), parts, zeros, upper, wide);
        let scheme = if https { "https" } else { "http" };
        let judged = Judge::default().url(&format!("{scheme}://{host}/"));
        prop_assert!(judged.is_err(), "{host} is {address}");
    }

    #[test]
    fn no_disguise_of_a_special_address_passes(address in special_v4(), prefix in any::<u16>()) {
        let judge = Judge::default();
        let target = judge.url("https://example.com/").unwrap();
        for disguise in disguises(address, prefix) {
            prop_assert!(judge.url(&format!("http://[{disguise}]/")).is_err(), "{disguise}");
            let answers = Answers { addresses: vec![[93, 184, 215, 14].into(), disguise.into()], aliases: Vec::new() };
            prop_assert!(judge.answers(&target, &answers).is_err(), "{disguise}");
        }
    }

    #[test]
    fn what_passes_names_a_public_host(text in "(https?|HTTP|ftp|)(:|)[/\\\\@]{0,3}[0-9a-fx.\\[\\]:%@ -]{0,24}[/?#@\\\\]{0,2}[a-z.]{0,6}") {
        if let Ok(target) = Judge::default().url(&text) {
            let url = target.url();
            prop_assert!(url.username().is_empty() && matches!(url.port_or_known_default(), Some(80 | 443)), "{}", url);
            match url.host().unwrap() {
                url::Host::Ipv4(address) => prop_assert!(
                    !address.is_private() && !address.is_loopback() && !address.is_link_local() && !address.is_unspecified()
                        && !address.is_multicast() && !address.is_broadcast() && !address.is_documentation(), "{}", url),
                url::Host::Ipv6(address) => prop_assert!(address.segments()[0] & 0xe000 == 0x2000, "{}", url),
                url::Host::Domain(name) => prop_assert!(name.trim_end_matches('.').contains('.'), "{}", url),
            }
        }
    }
}

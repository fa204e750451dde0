//! Whether an address is one of the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::special::{Block, IPV4, IPV6, IPV6_UNICAST};

impl Block<Ipv4Addr> {
    fn holds(&self, address: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
        (address.to_bits() ^ self.first.to_bits()) & mask == 0
    }
}

impl Block<Ipv6Addr> {
    fn holds(&self, address: Ipv6Addr) -> bool {
        let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
        (address.to_bits() ^ self.first.to_bits()) & mask == 0
    }
}

/// What `address` is if no fetch may reach it.
pub(crate) fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    IPV4.iter()
        .find(|block| block.holds(address))
        .map(|block| block.what)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    if let Some(block) = IPV6.iter().find(|block| block.holds(address)) {
        // What an IPv4 address within stands for says more.
        return embedded(address).and_then(special_v4).or(Some(block.what));
    }
    if !IPV6_UNICAST.holds(address) {
        return Some("not allocated to hosts");
    }
    is_isatap(address).then_some("an IPv4 address in an ISATAP tunnel (RFC 5214)")
}

/// The IPv4 address that a mapped, compatible, translated, 6to4 or Teredo address carries.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    let low = part(bits, 0);
    match bits >> 32 {
        // Unspecified and loopback carry none.
        0 if low <= 1 => None,
        0 | 0xffff | 0xffff_0000 => Some(Ipv4Addr::from_bits(low)),
        _ if bits >> 96 == 0x64_ff9b => Some(Ipv4Addr::from_bits(low)),
        _ if bits >> 112 == 0x2002 => Some(Ipv4Addr::from_bits(part(bits, 80))),
        // Teredo hides the client's address by turning its bits.
        _ if bits >> 96 == 0x2001_0000 => Some(Ipv4Addr::from_bits(!low)),
        _ => None,
    }
}

/// The 32 bits above the lowest `shift`.
fn part(bits: u128, shift: u32) -> u32 {
    u32::try_from((bits >> shift) & u128::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// Whether the last half says `0:5efe` or `200:5efe` and an IPv4 address.
fn is_isatap(address: Ipv6Addr) -> bool {
    matches!(part(address.to_bits(), 32), 0x5efe | 0x0200_5efe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_special(address: &str) -> bool {
        special(address.parse().unwrap()).is_some()
    }

    #[test]
    fn both_ends_of_every_block_are_special() {
        for block in &IPV4 {
            let size = 1_u64 << (32 - block.bits);
            let last = u32::try_from(u64::from(block.first.to_bits()) + size - 1).unwrap();
            for end in [block.first, Ipv4Addr::from_bits(last)] {
                assert!(special_v4(end).is_some(), "{end}");
            }
        }
        for block in &IPV6 {
            let rest = u128::MAX.checked_shr(block.bits).unwrap_or(0);
            for end in [
                block.first,
                Ipv6Addr::from_bits(block.first.to_bits() | rest),
            ] {
                assert!(special_v6(end).is_some(), "{end}");
            }
            assert_eq!(
                block.first.to_bits() & rest,
                0,
                "{}/{}",
                block.first,
                block.bits
            );
        }
    }

    #[test]
    fn neighbours_of_the_blocks_are_public() {
        for address in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "191.255.255.255",
            "192.0.1.0",
            "192.0.3.0",
            "192.31.195.255",
            "192.88.98.255",
            "192.88.100.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.255",
            "198.51.101.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "168.63.129.15",
            "168.63.129.17",
            "2000::1",
            "2001:200::1",
            "2001:db7:ffff::1",
            "2001:db9::1",
            "2003::1",
            "2606:4700:4700::1111",
            "2620:4f:7fff::1",
            "3ffd:ffff::1",
            "3fff:1000::1",
            "2a00:1450::1",
            "2606:4700::1:5efe:808:808",
        ] {
            assert!(!is_special(address), "{address}");
        }
    }

    #[test]
    fn an_ipv4_address_is_found_in_every_disguise() {
        for address in [
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b:1::7f00:1",
            "2002:7f00:1::",
            "2001:0:4136:e378:8000:63bf:80ff:fffe",
            "2606:4700::5efe:7f00:1",
            "2606:4700::200:5efe:a00:1",
            "64:ff9b:1:ffff::1",
            "::ffff:8.8.8.8",
            "fe80::5efe:7f00:1",
            "1000::1",
            "4000::1",
            "e000::1",
            "200::1",
        ] {
            assert!(is_special(address), "{address}");
        }
        assert_eq!(
            special("::ffff:10.1.2.3".parse().unwrap()),
            Some("a private network (RFC 1918)")
        );
    }
}

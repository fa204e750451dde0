//! The special-purpose addresses, as IANA lists them, and those of the clouds' metadata services.
//!
//! Sources: the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890 and its updates), the
//! IPv4 and IPv6 multicast registries, the IPv6 address space registry, and the providers' manuals for
//! the metadata addresses. Entries that the registries call globally reachable are here too: nobody
//! reads a page from an anycast relay or a name server of AS112.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A block of addresses and what it is.
pub(crate) struct Block<A> {
    /// Its first address.
    pub(crate) first: A,
    /// How many bits of it are fixed.
    pub(crate) bits: u32,
    /// What it is, for a sentence: "… is …".
    pub(crate) what: &'static str,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u32, what: &'static str) -> Block<Ipv4Addr> {
    Block {
        first: Ipv4Addr::new(a, b, c, d),
        bits,
        what,
    }
}

const fn v6(first: u128, bits: u32, what: &'static str) -> Block<Ipv6Addr> {
    Block {
        first: Ipv6Addr::from_bits(first),
        bits,
        what,
    }
}

/// IPv4 blocks that no fetch may reach; the more specific ones first.
pub(crate) const IPV4: [Block<Ipv4Addr>; 26] = [
    v4(169, 254, 169, 254, 32, "a cloud's metadata service"),
    v4(169, 254, 170, 2, 32, "a cloud's container credentials"),
    v4(168, 63, 129, 16, 32, "a cloud's host service"),
    v4(100, 100, 100, 200, 32, "a cloud's metadata service"),
    v4(192, 0, 0, 192, 32, "a cloud's metadata service"),
    v4(0, 0, 0, 0, 8, "this network (RFC 791)"),
    v4(10, 0, 0, 0, 8, "a private network (RFC 1918)"),
    v4(100, 64, 0, 0, 10, "a carrier's shared network (RFC 6598)"),
    v4(127, 0, 0, 0, 8, "this machine (loopback, RFC 1122)"),
    v4(169, 254, 0, 0, 16, "link-local (RFC 3927)"),
    v4(172, 16, 0, 0, 12, "a private network (RFC 1918)"),
    v4(192, 0, 0, 0, 24, "a protocol assignment (RFC 6890)"),
    v4(192, 0, 2, 0, 24, "documentation (RFC 5737)"),
    v4(192, 31, 196, 0, 24, "AS112 (RFC 7535)"),
    v4(192, 52, 193, 0, 24, "an AMT relay (RFC 7450)"),
    v4(192, 88, 99, 0, 24, "a 6to4 relay (RFC 7526)"),
    v4(192, 168, 0, 0, 16, "a private network (RFC 1918)"),
    v4(192, 175, 48, 0, 24, "AS112 (RFC 7534)"),
    v4(198, 18, 0, 0, 15, "benchmarking (RFC 2544)"),
    v4(198, 51, 100, 0, 24, "documentation (RFC 5737)"),
    v4(203, 0, 113, 0, 24, "documentation (RFC 5737)"),
    v4(224, 0, 0, 0, 4, "multicast (RFC 5771)"),
    v4(255, 255, 255, 255, 32, "broadcast (RFC 8190)"),
    v4(240, 0, 0, 0, 4, "reserved (RFC 1112)"),
    v4(192, 0, 0, 8, 32, "the dummy address (RFC 7600)"),
    v4(192, 0, 0, 170, 31, "NAT64 discovery (RFC 8880)"),
];

/// What is global unicast; everything else is not allocated to hosts.
pub(crate) const IPV6_UNICAST: Block<Ipv6Addr> = v6(
    0x2000_0000_0000_0000_0000_0000_0000_0000,
    3,
    "global unicast",
);

/// IPv6 blocks that no fetch may reach; the more specific ones first.
pub(crate) const IPV6: [Block<Ipv6Addr>; 31] = [
    v6(
        0x0000_0000_0000_0000_0000_0000_0000_0000,
        128,
        "the unspecified address",
    ),
    v6(
        0x0000_0000_0000_0000_0000_0000_0000_0001,
        128,
        "this machine (loopback)",
    ),
    v6(
        0xfd00_0ec2_0000_0000_0000_0000_0000_0254,
        128,
        "a cloud's metadata service",
    ),
    v6(
        0xfd20_00ce_0000_0000_0000_0000_0000_0254,
        128,
        "a cloud's metadata service",
    ),
    v6(
        0x0000_0000_0000_0000_0000_ffff_0000_0000,
        96,
        "a mapped IPv4 address",
    ),
    v6(
        0x0000_0000_0000_0000_ffff_0000_0000_0000,
        96,
        "a translated IPv4 address (RFC 2765)",
    ),
    v6(
        0x0000_0000_0000_0000_0000_0000_0000_0000,
        96,
        "an IPv4-compatible address (RFC 4291)",
    ),
    v6(
        0x0064_ff9b_0000_0000_0000_0000_0000_0000,
        96,
        "NAT64 (RFC 6052)",
    ),
    v6(
        0x0064_ff9b_0001_0000_0000_0000_0000_0000,
        48,
        "local NAT64 (RFC 8215)",
    ),
    v6(
        0x0100_0000_0000_0000_0000_0000_0000_0000,
        64,
        "discard-only (RFC 6666)",
    ),
    v6(
        0x0100_0000_0000_0001_0000_0000_0000_0000,
        64,
        "a dummy prefix (RFC 9780)",
    ),
    v6(
        0x2001_0000_0000_0000_0000_0000_0000_0000,
        32,
        "Teredo (RFC 4380)",
    ),
    v6(
        0x2001_0001_0000_0000_0000_0000_0000_0000,
        32,
        "anycast of protocols (RFC 7723, RFC 8155)",
    ),
    v6(
        0x2001_0002_0000_0000_0000_0000_0000_0000,
        48,
        "benchmarking (RFC 5180)",
    ),
    v6(
        0x2001_0003_0000_0000_0000_0000_0000_0000,
        32,
        "an AMT relay (RFC 7450)",
    ),
    v6(
        0x2001_0004_0112_0000_0000_0000_0000_0000,
        48,
        "AS112 (RFC 7535)",
    ),
    v6(
        0x2001_0010_0000_0000_0000_0000_0000_0000,
        28,
        "ORCHID (RFC 4843)",
    ),
    v6(
        0x2001_0020_0000_0000_0000_0000_0000_0000,
        28,
        "ORCHIDv2 (RFC 7343)",
    ),
    v6(
        0x2001_0030_0000_0000_0000_0000_0000_0000,
        28,
        "drone identifiers (RFC 9374)",
    ),
    v6(
        0x2001_0000_0000_0000_0000_0000_0000_0000,
        23,
        "a protocol assignment (RFC 2928)",
    ),
    v6(
        0x2001_0db8_0000_0000_0000_0000_0000_0000,
        32,
        "documentation (RFC 3849)",
    ),
    v6(
        0x2002_0000_0000_0000_0000_0000_0000_0000,
        16,
        "6to4 (RFC 3056)",
    ),
    v6(
        0x2620_004f_8000_0000_0000_0000_0000_0000,
        48,
        "AS112 (RFC 7534)",
    ),
    v6(
        0x3ffe_0000_0000_0000_0000_0000_0000_0000,
        16,
        "the former 6bone (RFC 3701)",
    ),
    v6(
        0x3fff_0000_0000_0000_0000_0000_0000_0000,
        20,
        "documentation (RFC 9637)",
    ),
    v6(
        0x5f00_0000_0000_0000_0000_0000_0000_0000,
        16,
        "segment routing (RFC 9602)",
    ),
    v6(
        0xfc00_0000_0000_0000_0000_0000_0000_0000,
        7,
        "a private network (RFC 4193)",
    ),
    v6(
        0xfe80_0000_0000_0000_0000_0000_0000_0000,
        10,
        "link-local (RFC 4291)",
    ),
    v6(
        0xfec0_0000_0000_0000_0000_0000_0000_0000,
        10,
        "site-local (RFC 3879)",
    ),
    v6(
        0xff00_0000_0000_0000_0000_0000_0000_0000,
        8,
        "multicast (RFC 4291)",
    ),
    v6(
        0x0200_0000_0000_0000_0000_0000_0000_0000,
        7,
        "the former OSI prefix (RFC 4048)",
    ),
];

//! Forwarded headers: believed from declared proxies alone.
//!
//! A header such as `X-Forwarded-For` from anybody else means that there is a proxy nobody declared, so
//! that the peer address of every request is the proxy's. It is ignored, and the gateway remembers and
//! says so until it is started again.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering},
};

use http::HeaderMap;

const FORWARDED: [&str; 5] = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-real-ip",
    "forwarded",
];

/// A range of addresses in CIDR form, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Net {
    address: IpAddr,
    bits: u8,
}

/// The text is neither an address nor a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an address or a range such as 10.0.0.0/8")]
pub struct NotANet;

impl FromStr for Net {
    type Err = NotANet;

    fn from_str(text: &str) -> Result<Self, NotANet> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| NotANet)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotANet)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        // A range that holds everybody declares nobody.
        if bits == 0 || bits > most {
            Err(NotANet)
        } else {
            Ok(Self { address, bits })
        }
    }
}

impl Net {
    fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                Ipv4Addr::to_bits(a) & mask == Ipv4Addr::to_bits(b) & mask
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.bits))
                    .unwrap_or(0);
                Ipv6Addr::to_bits(a) & mask == Ipv6Addr::to_bits(b) & mask
            }
            _ => false,
        }
    }
}

/// Which proxies are declared, and whether an undeclared one was seen.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    declared: Vec<Net>,
    latched: AtomicBool,
}

impl Proxies {
    /// Believes the forwarded headers of these peers alone.
    pub(crate) fn new(declared: Vec<Net>) -> Self {
        Self {
            declared,
            latched: AtomicBool::new(false),
        }
    }

    /// The address of the client behind `peer`; remembers when somebody undeclared forwards.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.is_declared(peer) {
            if FORWARDED.iter().any(|name| headers.contains_key(*name))
                && !self.latched.swap(true, Ordering::Relaxed)
            {
                tracing::warn!(%peer, "forwarded headers from a peer that KAZMA_TRUSTED_PROXIES does not name");
            }
            return peer;
        }
        // The right-most address that no declared proxy has: what stands left of it, anybody can write.
        let named = headers
            .get_all("x-forwarded-for")
            .iter()
            .filter_map(|v| v.to_str().ok());
        let hops: Vec<&str> = named
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .collect();
        for hop in hops.iter().rev() {
            match hop.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
                Ok(ip) if self.is_declared(ip) => {}
                Ok(ip) => return ip,
                Err(_) => return peer,
            }
        }
        peer
    }

    fn is_declared(&self, ip: IpAddr) -> bool {
        self.declared.iter().any(|net| net.contains(ip))
    }

    /// `direct`, `declared` or `undeclared_proxy`, and what to do about it.
    pub(crate) fn state(&self) -> (&'static str, &'static str) {
        if self.latched.load(Ordering::Relaxed) {
            (
                "undeclared_proxy",
                "A proxy forwards to this gateway without being declared. Its forwarded headers are ignored. Name its address in KAZMA_TRUSTED_PROXIES and start again.",
            )
        } else if self.declared.is_empty() {
            ("direct", "")
        } else {
            ("declared", "")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(forwarded_for: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", forwarded_for.parse().unwrap());
        headers
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_undeclared_proxy_is_ignored_and_remembered() {
        let proxies = Proxies::default();
        assert_eq!(
            proxies.client(ip("127.0.0.1"), &HeaderMap::new()),
            ip("127.0.0.1")
        );
        assert_eq!(proxies.state().0, "direct");
        assert_eq!(
            proxies.client(ip("127.0.0.1"), &headers("8.8.8.8")),
            ip("127.0.0.1")
        );
        assert_eq!(proxies.state().0, "undeclared_proxy");
        assert!(!proxies.state().1.is_empty());
    }

    #[test]
    fn a_declared_proxy_names_the_client_and_clients_cannot() {
        let proxies = Proxies::new(vec!["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()]);
        for (list, client) in [
            ("8.8.8.8", "8.8.8.8"),
            ("1.2.3.4, 8.8.8.8", "8.8.8.8"),
            ("8.8.8.8, 10.1.2.3", "8.8.8.8"),
            ("8.8.8.8, nonsense", "10.0.0.1"),
            ("10.0.0.9", "10.0.0.1"),
        ] {
            assert_eq!(
                proxies.client(ip("10.0.0.1"), &headers(list)),
                ip(client),
                "{list}"
            );
        }
        assert_eq!(
            proxies.client(ip("::ffff:10.0.0.1"), &headers("8.8.8.8")),
            ip("8.8.8.8")
        );
        assert_eq!(proxies.state().0, "declared");
        assert_eq!(
            proxies.client(ip("11.0.0.1"), &headers("8.8.8.8")),
            ip("11.0.0.1")
        );
        assert_eq!(proxies.state().0, "undeclared_proxy");
    }

    #[test]
    fn everybody_is_no_range() {
        for wrong in ["*", "0.0.0.0/0", "::/0", "10.0.0.0/33", "10.0.0/8", ""] {
            assert_eq!(wrong.parse::<Net>(), Err(NotANet), "{wrong}");
        }
    }
}

//! The judge of addresses. It reads and decides; it looks nothing up.

use std::net::IpAddr;

use url::{Host, Url};

use crate::{Refusal, address, names, spelling};

/// How often a fetch is sent on.
const REDIRECTS: usize = 5;
/// How variables end by which programs are told of a proxy.
const PROXY: &str = "_proxy";
/// The one of them that names no proxy.
const NO_PROXY: &str = "no_proxy";

/// What is let pass.
#[derive(Debug, Clone)]
pub struct Judge {
    ports: Vec<u16>,
    redirects: usize,
    downgrade: bool,
    /// Addresses and ports of tests' own servers; nothing else fills it.
    own: Vec<(IpAddr, u16)>,
}

/// A URL whose spelling, scheme, port and name have been judged; its addresses have not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
}

/// What a lookup of a name was answered with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// Every address, of both kinds.
    pub addresses: Vec<IpAddr>,
    /// Every name on the way to them.
    pub aliases: Vec<String>,
}

impl Target {
    /// The URL as it was read.
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// The name to look up; none if the URL names an address.
    pub fn name(&self) -> Option<&str> {
        match self.url.host() {
            Some(Host::Domain(name)) => Some(name),
            _ => None,
        }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
    }

    fn literal(&self) -> Option<IpAddr> {
        match self.url.host() {
            Some(Host::Ipv4(address)) => Some(address.into()),
            Some(Host::Ipv6(address)) => Some(address.into()),
            _ => None,
        }
    }
}

impl Default for Judge {
    /// Ports 80 and 443, five redirects, never from https to http.
    fn default() -> Self {
        Self {
            ports: vec![80, 443],
            redirects: REDIRECTS,
            downgrade: false,
            own: Vec::new(),
        }
    }
}

impl Judge {
    /// Lets these ports pass too, as the operator listed them.
    #[must_use]
    pub fn with_ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.ports
            .extend(ports.into_iter().filter(|port| *port != 0));
        self
    }

    /// Lets a redirect lead from https to http, as the operator set it.
    #[must_use]
    pub const fn with_downgrade(mut self) -> Self {
        self.downgrade = true;
        self
    }

    /// Lets a server of a test pass: this address at this port, and nothing else.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn with_own(mut self, address: IpAddr, port: u16) -> Self {
        self.own.push((address, port));
        self.ports.push(port);
        self
    }

    /// How often a fetch is sent on at most.
    pub(crate) const fn most_redirects(&self) -> usize {
        self.redirects
    }

    /// Judges the environment that a fetch would run in: one that names a proxy is refused.
    pub fn environment<'a>(
        &self,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), Refusal> {
        variables
            .into_iter()
            .find(|(name, value)| {
                let name = name.to_ascii_lowercase();
                !value.trim().is_empty() && name.ends_with(PROXY) && name != NO_PROXY
            })
            .map_or(Ok(()), |(name, _)| Err(Refusal::Proxy(name.to_owned())))
    }

    /// Judges the text of a URL.
    pub fn url(&self, text: &str) -> Result<Target, Refusal> {
        self.target(spelling::read(text)?)
    }

    /// Judges where a redirect leads after the hops of `trail`, the last of which sent it.
    pub fn redirect(&self, trail: &[Target], location: &str) -> Result<Target, Refusal> {
        let Some(from) = trail.last() else {
            return self.url(location);
        };
        if trail.len() > self.redirects {
            return Err(Refusal::TooManyRedirects(self.redirects));
        }
        let next = self.target(spelling::read_from(&from.url, location)?)?;
        if from.url.scheme() == "https" && next.url.scheme() == "http" && !self.downgrade {
            return Err(Refusal::Downgrade);
        }
        if trail.contains(&next) {
            return Err(Refusal::Circle);
        }
        Ok(next)
    }

    fn target(&self, mut url: Url) -> Result<Target, Refusal> {
        // Nothing behind `#` is sent, and it would hide a circle.
        url.set_fragment(None);
        let target = Target { url };
        let port = target.port();
        if !self.ports.contains(&port) {
            return Err(Refusal::Port(port));
        }
        if let Some(address) = target.literal() {
            self.address(address, port)?;
        }
        Ok(target)
    }

    /// Judges what the name of `target` was answered with: which addresses a fetch may connect to. One bad
    /// answer refuses all. A target that names an address needs no answers.
    pub fn answers(&self, target: &Target, answers: &Answers) -> Result<Vec<IpAddr>, Refusal> {
        if let Some(address) = target.literal() {
            return Ok(vec![address]);
        }
        for alias in &answers.aliases {
            // Names of the DNS may hold more than those of URLs; only what they end in counts.
            if let Some(what) = names::special(&alias.to_ascii_lowercase()) {
                return Err(Refusal::Name(what));
            }
        }
        for address in &answers.addresses {
            self.address(*address, target.port())?;
        }
        if answers.addresses.is_empty() {
            return Err(Refusal::Unresolved);
        }
        Ok(answers.addresses.clone())
    }

    fn address(&self, address: IpAddr, port: u16) -> Result<(), Refusal> {
        if self.own.contains(&(address, port)) {
            return Ok(());
        }
        match address::special(address) {
            Some(what) => Err(Refusal::Special { address, what }),
            None => Ok(()),
        }
    }

    /// Judges whom a connection was made to, after `judged` were let pass.
    pub fn peer(&self, judged: &[IpAddr], peer: IpAddr, port: u16) -> Result<(), Refusal> {
        self.address(peer, port)?;
        if judged.contains(&peer) {
            Ok(())
        } else {
            Err(Refusal::Peer(peer))
        }
    }

    /// Judges a Refresh header. No fetch follows one; an answer whose header leads where none may is refused.
    pub fn refresh(&self, from: &Target, header: &str) -> Result<(), Refusal> {
        // As HTML reads it: a number, then a semicolon, a comma or only a blank, then the address.
        let header = header.trim_start();
        let rest = header.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if !rest.starts_with([' ', '\t', '\n', '\r', '\u{c}', ';', ',']) {
            return Ok(());
        }
        let rest = rest.trim_start();
        let rest = rest.strip_prefix([';', ',']).unwrap_or(rest).trim();
        let place = rest
            .get(..3)
            .filter(|url| url.eq_ignore_ascii_case("url"))
            .and_then(|_| rest.get(3..))
            .and_then(|rest| rest.trim_start().strip_prefix('='))
            .unwrap_or(rest)
            .trim()
            .trim_matches(['"', '\'']);
        if place.is_empty() {
            return Ok(());
        }
        spelling::read_from(&from.url, place)
            .and_then(|url| self.target(url))
            .map(|_| ())
            .map_err(|why| Refusal::Header {
                header: "Refresh",
                why: Box::new(why),
            })
    }

    /// Judges an Alt-Svc header (RFC 7838) in the same way.
    pub fn alt_svc(&self, header: &str) -> Result<(), Refusal> {
        header
            .split(',')
            .filter_map(|service| service.split_once('='))
            .map(|(_, value)| {
                value
                    .split(';')
                    .next()
                    .unwrap_or_default()
                    .trim()
                    .trim_matches('"')
            })
            // A place without a port is none; judged as one all the same, so that no reader takes it for more.
            .filter(|place| place.contains([':', '.']))
            .try_for_each(|place| match place.strip_prefix(':') {
                // `:443` is the same host.
                Some(port) => match port.parse::<u16>() {
                    Ok(port) if !self.ports.contains(&port) => Err(Refusal::Port(port)),
                    _ => Ok(()),
                },
                None => self.url(&format!("https://{place}/")).map(|_| ()),
            })
            .map_err(|why| Refusal::Header {
                header: "Alt-Svc",
                why: Box::new(why),
            })
    }
}

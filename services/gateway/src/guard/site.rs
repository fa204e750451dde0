//! Where people reach this gateway: the hosts it answers to, and its own origin.
//!
//! A page of another site can point any name at this machine (DNS rebinding), so a request is answered
//! only when its `Host` is one that the operator or the listening socket gave. Reads too.

use std::net::{IpAddr, SocketAddr};

/// The addresses of this gateway.
#[derive(Debug, Clone)]
pub struct Site {
    base: String,
    secure: bool,
    /// Whether the listener speaks TLS itself.
    https: bool,
    public: Option<Authority>,
    listen: SocketAddr,
}

/// The public URL cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the public URL must look like https://kazma.example or http://localhost:9090, without a path"
)]
pub struct NotAPublicUrl;

/// A host and, where it is written, a port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Authority {
    host: String,
    port: Option<u16>,
}

impl Authority {
    fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (inside, after) = rest.split_once(']')?;
                inside.parse::<std::net::Ipv6Addr>().ok()?;
                (
                    format!("[{inside}]"),
                    after
                        .strip_prefix(':')
                        .map_or((!after.is_empty()).then_some(""), Some),
                )
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host.to_owned(), Some(port)),
                None => (text.clone(), None),
            },
        };
        let named =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '[' | ']' | ':');
        if host.is_empty() || !host.chars().all(named) {
            return None;
        }
        let port = match port {
            None => None,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            Some(_) => return None,
        };
        Some(Self { host, port })
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .ok()
    }

    fn at(&self, default: u16) -> (&str, u16) {
        (&self.host, self.port.unwrap_or(default))
    }
}

impl Site {
    /// A gateway that listens on `listen`, over TLS of its own or not, and is known to people as `public_url`.
    ///
    /// Without a public URL it is `localhost` on loopback, else the listening address.
    ///
    /// # Errors
    ///
    /// Refuses a URL that has a path, a user, or a scheme other than http and https.
    pub fn new(
        public_url: Option<&str>,
        listen: SocketAddr,
        https: bool,
    ) -> Result<Self, NotAPublicUrl> {
        let Some(url) = public_url else {
            let scheme = if https { "https" } else { "http" };
            let base = if listen.ip().is_loopback() || listen.ip().is_unspecified() {
                format!("{scheme}://localhost:{}", listen.port())
            } else {
                format!("{scheme}://{listen}")
            };
            return Ok(Self {
                base,
                secure: https,
                https,
                public: None,
                listen,
            });
        };
        let url = url.strip_suffix('/').unwrap_or(url);
        let (scheme, authority) = url.split_once("://").ok_or(NotAPublicUrl)?;
        let secure = match scheme {
            "https" => true,
            "http" if !https => false,
            _ => return Err(NotAPublicUrl),
        };
        let public = Authority::parse(authority).ok_or(NotAPublicUrl)?;
        Ok(Self {
            base: url.to_ascii_lowercase(),
            secure,
            https,
            public: Some(public),
            listen,
        })
    }

    /// The URL that people are given, without a slash at its end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether people reach it over https.
    pub const fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether the listener speaks TLS itself.
    pub(crate) const fn is_https(&self) -> bool {
        self.https
    }

    /// Whether `host` is the public name that people type without a port.
    pub(crate) fn is_known_as(&self, host: &str) -> bool {
        Authority::parse(host).is_some_and(|asked| asked.at(443).1 == 443 && self.is_public(&asked))
    }

    /// The name of the session cookie. The prefix `__Host-` (RFC 6265bis) needs https.
    pub const fn cookie(&self) -> &'static str {
        if self.secure { "__Host-kazma" } else { "kazma" }
    }

    /// Whether a request for `host` that came in on the socket address `local` is for this gateway.
    pub(crate) fn answers_to(&self, host: &str, local: SocketAddr) -> bool {
        let Some(asked) = Authority::parse(host) else {
            return false;
        };
        if self.is_public(&asked) {
            return true;
        }
        let (name, port) = asked.at(if self.https { 443 } else { 80 });
        if port != self.listen.port() {
            return false;
        }
        match asked.ip() {
            None => name == "localhost",
            Some(ip) if ip.is_loopback() => matches!(name, "127.0.0.1" | "[::1]"),
            // A name can be pointed anywhere; the bare address of the socket cannot.
            Some(ip) => {
                ip == self.listen.ip() && !ip.is_unspecified()
                    || self.listen.ip().is_unspecified() && ip == local.ip().to_canonical()
            }
        }
    }

    fn is_public(&self, asked: &Authority) -> bool {
        let default = if self.secure { 443 } else { 80 };
        self.public
            .as_ref()
            .is_some_and(|public| public.at(default) == asked.at(default))
    }

    /// The origin of a request for `host`, as a browser writes it.
    pub(crate) fn origin(&self, host: &str) -> Option<String> {
        let asked = Authority::parse(host)?;
        let secure = self.https || self.secure && self.is_public(&asked);
        let (scheme, default) = if secure { ("https", 443) } else { ("http", 80) };
        Some(match asked.at(default) {
            (name, port) if port == default => format!("{scheme}://{name}"),
            (name, port) => format!("{scheme}://{name}:{port}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn only_its_own_names_are_answered() {
        let site = Site::new(None, at("127.0.0.1:9090"), false).unwrap();
        let local = at("127.0.0.1:9090");
        for host in [
            "localhost:9090",
            "LOCALHOST:9090",
            "127.0.0.1:9090",
            "[::1]:9090",
        ] {
            assert!(site.answers_to(host, local), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9090",
            "localhost",
            "localhost:9091",
            "localhost.:9090",
            "localhost:9090@evil",
            "127.0.0.2:9090",
            "192.168.1.5:9090",
            "localhost.evil.example:9090",
            "",
            "[::1",
            "[::1]x:9090",
            "localhost:",
            "localhost:+9090",
            "0.0.0.0:9090",
            "a b:9090",
        ] {
            assert!(!site.answers_to(host, local), "{host}");
        }
    }

    #[test]
    fn a_public_url_adds_its_host_and_nothing_else() {
        let site = Site::new(Some("https://kazma.example/"), at("127.0.0.1:9090"), false).unwrap();
        let local = at("127.0.0.1:9090");
        assert!(site.answers_to("kazma.example", local));
        assert!(site.answers_to("kazma.example:443", local));
        assert!(site.answers_to("localhost:9090", local));
        assert!(!site.answers_to("kazma.example:9090", local));
        assert!(!site.answers_to("x.kazma.example", local));
        assert_eq!(
            site.origin("kazma.example").as_deref(),
            Some("https://kazma.example")
        );
        assert_eq!(
            site.origin("localhost:9090").as_deref(),
            Some("http://localhost:9090")
        );
        assert_eq!(site.cookie(), "__Host-kazma");
        for wrong in [
            "kazma.example",
            "ftp://x",
            "https://x/y",
            "https://u@x",
            "https://",
        ] {
            assert_eq!(
                Site::new(Some(wrong), local, false).unwrap_err(),
                NotAPublicUrl,
                "{wrong}"
            );
        }
    }

    #[test]
    fn on_every_interface_the_bare_address_of_the_socket_is_its_name() {
        let site = Site::new(None, at("0.0.0.0:9090"), false).unwrap();
        assert!(site.answers_to("192.168.1.5:9090", at("192.168.1.5:9090")));
        assert!(!site.answers_to("192.168.1.6:9090", at("192.168.1.5:9090")));
        assert!(!site.answers_to("box.lan:9090", at("192.168.1.5:9090")));
    }

    #[test]
    fn with_tls_of_its_own_every_name_of_it_is_https() {
        let local = at("127.0.0.1:9090");
        let site = Site::new(None, local, true).unwrap();
        assert_eq!(site.base(), "https://localhost:9090");
        assert_eq!(site.cookie(), "__Host-kazma");
        let origin = site.origin("127.0.0.1:9090");
        assert_eq!(origin.as_deref(), Some("https://127.0.0.1:9090"));
        let site = Site::new(Some("https://kazma.example"), at("0.0.0.0:443"), true).unwrap();
        for host in ["localhost", "localhost:443", "kazma.example"] {
            assert!(site.answers_to(host, at("127.0.0.1:443")), "{host}");
        }
        assert!(!site.answers_to("localhost:80", at("127.0.0.1:443")));
        assert!(site.is_known_as("KAZMA.example") && site.is_known_as("kazma.example:443"));
        assert!(!site.is_known_as("localhost"));
        let other = Site::new(Some("https://kazma.example:9090"), local, true).unwrap();
        assert!(!other.is_known_as("kazma.example:9090"));
        assert!(Site::new(Some("http://kazma.example"), local, true).is_err());
    }
}

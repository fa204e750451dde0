//! Where a service listens, as its callers know it.

use std::{fmt, net::SocketAddr, str::FromStr, sync::Arc};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::{Deserialize, Serialize};

/// A host and a port. A name is looked up anew for every connection: a container that was started again may
/// have another address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    host: String,
    port: u16,
}

/// The text is no host with a port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no HOST:PORT, such as gate-registry:9440 or 127.0.0.1:9440")]
pub struct NotAnAddress(String);

impl Address {
    /// The host: a name or an IP address, the latter without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl From<SocketAddr> for Address {
    fn from(at: SocketAddr) -> Self {
        Self {
            host: at.ip().to_string(),
            port: at.port(),
        }
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl TryFrom<String> for Address {
    type Error = NotAnAddress;

    fn try_from(text: String) -> Result<Self, NotAnAddress> {
        text.parse()
    }
}

impl FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let text = text.trim();
        if let Ok(at) = text.parse::<SocketAddr>() {
            return Ok(at.into());
        }
        let wrong = || NotAnAddress(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        if is_host_name(host) {
            Ok(Self {
                host: host.to_owned(),
                port,
            })
        } else {
            Err(wrong())
        }
    }
}

/// RFC 1123, section 2.1, and the low line, which engines take in names of containers.
fn is_host_name(host: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    host.len() <= 253 && host.split('.').all(label)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Finds the one service it is for, whatever name is asked for: that name is the certificate's.
#[derive(Debug)]
pub(crate) struct Lookup(pub(crate) Arc<Address>);

impl Resolve for Lookup {
    fn resolve(&self, _: Name) -> Resolving {
        let at = Arc::clone(&self.0);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((at.host(), at.port()))
                .await?
                .collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_read_back() {
        for text in [
            "registry:9440",
            "gate-registry.kazma_mesh:1",
            "127.0.0.1:9440",
            "[::1]:9440",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            let json = serde_json::to_string(&address).unwrap();
            assert_eq!(serde_json::from_str::<Address>(&json).unwrap(), address);
        }
    }

    #[test]
    fn what_is_no_host_with_a_port_is_refused() {
        for text in [
            "",
            "registry",
            ":9440",
            "registry:",
            "registry:65536",
            "a b:1",
            "-a:1",
            "a..b:1",
            "https://a:1",
            "::1:9440",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}

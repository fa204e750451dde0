//! Why an address is refused.

use std::net::IpAddr;

/// Why a fetch is refused. Each is a sentence for a person, without the address's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is no address that the WHATWG parser reads.
    #[error("this is not a URL: {0}")]
    Malformed(String),
    /// Parsers disagree about what it says.
    #[error("the URL is written so that two programs may read it differently: {0}")]
    Ambiguous(&'static str),
    /// It is not of the web.
    #[error("only http and https are fetched")]
    Scheme,
    /// It carries a name or a password.
    #[error("a URL with a user name or password is not fetched")]
    UserInfo,
    /// It names no port of the web.
    #[error("port {0} is not one that is fetched from")]
    Port(u16),
    /// It names a host that is none of the internet.
    #[error("the host is {0}")]
    Name(&'static str),
    /// It leads, or its name resolves, to a special address.
    #[error("the address {address} is {what}")]
    Special {
        /// Which.
        address: IpAddr,
        /// What it is.
        what: &'static str,
    },
    /// What answered the lookup is no address.
    #[error("the lookup of the name was answered with what is no address")]
    NotAnAddress,
    /// The name does not resolve.
    #[error("the name of the host does not resolve")]
    Unresolved,
    /// It was sent on too often.
    #[error("it redirects more than {0} times")]
    TooManyRedirects(usize),
    /// It was sent on to where it was before.
    #[error("it redirects in a circle")]
    Circle,
    /// From an encrypted to a plain connection.
    #[error("it redirects from https to http")]
    Downgrade,
    /// A configured service sends elsewhere.
    #[error("a configured service may not redirect to another origin")]
    OtherOrigin,
    /// The connection goes elsewhere than was judged.
    #[error("the connection went to {0}, which is not an address of the host that was judged")]
    Peer(IpAddr),
    /// The environment would send it through a proxy.
    #[error(
        "the environment names a proxy ({0}); fetches go to the judged address and to none else"
    )]
    Proxy(String),
    /// A header that would have a client go elsewhere leads where no fetch may.
    #[error("the answer's {header} header leads where no fetch may: {why}")]
    Header {
        /// Which.
        header: &'static str,
        /// Why it may not.
        why: Box<Refusal>,
    },
}

impl Refusal {
    /// The name of the rule, for records and cards.
    pub const fn rule(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "url-malformed",
            Self::Ambiguous(_) => "url-ambiguous",
            Self::Scheme => "url-scheme",
            Self::UserInfo => "url-user-info",
            Self::Port(_) => "url-port",
            Self::Name(_) => "url-name",
            Self::Special { .. } => "url-special-address",
            Self::NotAnAddress => "url-not-an-address",
            Self::Unresolved => "url-unresolved",
            Self::TooManyRedirects(_) => "url-redirects",
            Self::Circle => "url-circle",
            Self::Downgrade => "url-downgrade",
            Self::OtherOrigin => "url-other-origin",
            Self::Peer(_) => "url-peer",
            Self::Proxy(_) => "url-proxy",
            Self::Header { .. } => "url-header",
        }
    }

    /// What to do instead, as a sentence.
    pub const fn fix(&self) -> &'static str {
        match self {
            Self::Malformed(_) | Self::Ambiguous(_) => {
                "Write it in full and plainly, as in https://example.com/page."
            }
            Self::Scheme => "Name an address that begins with https:// or http://.",
            Self::UserInfo => "Leave the user name and the password out.",
            Self::Port(_) => "Name an address at the usual port: 443 for https, 80 for http.",
            Self::Name(_) | Self::Special { .. } | Self::Peer(_) => {
                "Fetches reach the public internet alone. A service of this network has to be configured by \
                 the operator."
            }
            Self::NotAnAddress | Self::Unresolved => {
                "Look whether the host is spelled right, and whether this machine's name server answers."
            }
            Self::TooManyRedirects(_) | Self::Circle => {
                "Name the address that it leads to in the end, if you know it."
            }
            Self::Downgrade => {
                "Name the http address itself, if it shall be fetched without encryption."
            }
            Self::OtherOrigin => {
                "Have the operator configure the address that the service answers at."
            }
            Self::Proxy(_) => "Start Kazma without a proxy in its environment.",
            Self::Header { .. } => "Name the page itself rather than one that sends on to it.",
        }
    }
}

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

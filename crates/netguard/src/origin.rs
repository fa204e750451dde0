//! Origins that the operator configured: a model server, a search engine, a calendar on the local network.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::Refusal;

/// The origin of a service that settings name: scheme, host and port. It may be anywhere, and it may not
/// send a fetch to another origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Origin(Url);

impl TryFrom<String> for Origin {
    type Error = NotAnOrigin;

    fn try_from(text: String) -> Result<Self, NotAnOrigin> {
        Self::read(&text)
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.0.into()
    }
}

/// The setting is no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not the origin of a service: use http://host:port or https://host:port, with no user name"
)]
pub struct NotAnOrigin;

impl Origin {
    /// Reads a setting. A path is kept as the base of what is fetched from there.
    ///
    /// # Errors
    ///
    /// It is no URL of the web, or it carries a user name, a query or a fragment.
    pub fn read(text: &str) -> Result<Self, NotAnOrigin> {
        let url = Url::parse(text).map_err(|_| NotAnOrigin)?;
        let plain = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if plain {
            Ok(Self(url))
        } else {
            Err(NotAnOrigin)
        }
    }

    /// The port that it is at.
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    /// The URL of `path` there; `path` cannot leave the origin.
    pub fn at(&self, path: &str, query: &[(&str, &str)]) -> Url {
        let mut url = self.0.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{}", path.trim_start_matches('/')));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Judges where a redirect from `from` leads: to the same origin.
    pub(crate) fn redirect(&self, from: &Url, location: &str) -> Result<Url, Refusal> {
        let next = from
            .join(location)
            .map_err(|error| Refusal::Malformed(error.to_string()))?;
        if next.origin() != self.0.origin()
            || !next.username().is_empty()
            || next.password().is_some()
        {
            return Err(Refusal::OtherOrigin);
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_what_settings_may_name() {
        for good in [
            "http://localhost:8080",
            "https://search.lan/base/",
            "http://[::1]:9",
        ] {
            assert!(Origin::read(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "localhost:8080",
            "ftp://a",
            "http://u@a",
            "http://u:p@a",
            "http://a/?q",
            "http://a/#f",
            "/path",
            "file:///etc",
        ] {
            assert_eq!(Origin::read(bad), Err(NotAnOrigin), "{bad}");
        }
    }

    #[test]
    fn no_path_leaves_it() {
        let origin = Origin::read("http://a.lan:8080/base/").unwrap();
        for path in [
            "search",
            "/search",
            "//evil.example/x",
            "..//..//x",
            "http://evil.example",
            "\\\\evil.example",
            "@evil.example",
        ] {
            let url = origin.at(path, &[("q", "a b&c")]);
            assert_eq!(url.origin(), origin.0.origin(), "{url}");
        }
        assert_eq!(
            origin.at("search", &[("q", "a&b")]).as_str(),
            "http://a.lan:8080/base/search?q=a%26b"
        );
    }

    #[test]
    fn it_sends_to_itself_alone() {
        let origin = Origin::read("http://a.lan:8080").unwrap();
        let from = origin.at("x", &[]);
        assert!(origin.redirect(&from, "/y").is_ok());
        for elsewhere in [
            "https://a.lan:8080/y",
            "http://a.lan/y",
            "//b.lan:8080/y",
            "http://u@a.lan:8080/",
            "file:///etc",
            "http://169.254.169.254/",
        ] {
            assert_eq!(
                origin.redirect(&from, elsewhere),
                Err(Refusal::OtherOrigin),
                "{elsewhere}"
            );
        }
    }
}

//! What is refused in the text of a URL before it is read, because programs read it differently.
//!
//! The WHATWG parser takes much that others take otherwise: backslashes, missing slashes, control
//! characters that it drops, percent signs in a host. Nobody needs them.

use url::{Host, Url};

use crate::{Refusal, names};

/// The longest URL, in bytes.
const URL_MAX: usize = 8_192;

/// Reads a URL that stands on its own.
pub(crate) fn read(text: &str) -> Result<Url, Refusal> {
    let text = clean(text)?;
    let Some((scheme, rest)) = text.split_once(':') else {
        return Err(Refusal::Malformed("it has no scheme".to_owned()));
    };
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(Refusal::Scheme);
    }
    let Some(rest) = rest.strip_prefix("//") else {
        return Err(Refusal::Ambiguous("two slashes are missing"));
    };
    authority(rest)?;
    checked(Url::parse(text).map_err(|error| Refusal::Malformed(error.to_string()))?)
}

/// Reads where a redirect leads, from `base`.
pub(crate) fn read_from(base: &Url, text: &str) -> Result<Url, Refusal> {
    let text = clean(text)?;
    let has_scheme = text
        .split_once(':')
        .is_some_and(|(scheme, _)| !scheme.is_empty() && !scheme.contains(['/', '?', '#']));
    if has_scheme {
        return read(text);
    }
    if let Some(rest) = text.strip_prefix("//") {
        authority(rest)?;
    }
    checked(
        base.join(text)
            .map_err(|error| Refusal::Malformed(error.to_string()))?,
    )
}

/// The text without blanks around it, if nothing in it is dropped or turned by parsers.
fn clean(text: &str) -> Result<&str, Refusal> {
    if text.len() > URL_MAX {
        return Err(Refusal::Malformed(format!(
            "it is longer than {URL_MAX} bytes"
        )));
    }
    let text = text.trim_matches(' ');
    if text.chars().any(char::is_control) {
        return Err(Refusal::Ambiguous("it holds a control character"));
    }
    let before_query = text.split(['?', '#']).next().unwrap_or_default();
    if before_query.contains('\\') {
        return Err(Refusal::Ambiguous("it holds a backslash"));
    }
    Ok(text)
}

/// Looks at what stands after the two slashes.
fn authority(rest: &str) -> Result<(), Refusal> {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err(Refusal::Ambiguous("it names no host"));
    }
    if authority.contains('@') {
        return Err(Refusal::UserInfo);
    }
    if authority.contains('%') {
        return Err(Refusal::Ambiguous("its host holds a percent sign"));
    }
    if authority.contains(' ') {
        return Err(Refusal::Ambiguous("its host holds a blank"));
    }
    Ok(())
}

/// What holds of the parsed URL whatever its text was.
fn checked(url: Url) -> Result<Url, Refusal> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Refusal::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refusal::UserInfo);
    }
    match url.host() {
        None => Err(Refusal::Malformed("it names no host".to_owned())),
        Some(Host::Domain(name)) => match names::special(name) {
            Some(what) => Err(Refusal::Name(what)),
            None => Ok(url),
        },
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => Ok(url),
    }
}

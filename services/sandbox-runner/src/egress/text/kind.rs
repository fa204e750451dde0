//! What kind of thing a body is. Source: RFC 9110 section 8.3 and the MIME Sniffing Standard, of which only
//! as much is done as tells text from the rest.

/// What a body is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A page.
    Html {
        /// The character set that the header names.
        charset: Option<String>,
    },
    /// Text that is shown as it is.
    Plain {
        /// The character set that the header names.
        charset: Option<String>,
    },
    /// Something else.
    Other {
        /// What it calls itself.
        name: String,
    },
}

/// Names of what is text though it does not begin with `text/`.
const TEXTUAL: [&str; 9] = [
    "application/json",
    "application/ld+json",
    "application/xml",
    "application/javascript",
    "application/ecmascript",
    "application/yaml",
    "application/toml",
    "application/x-sh",
    "application/sql",
];
/// Bytes that are looked at where nothing says what it is. Source: the resource header of the MIME Sniffing
/// Standard.
const HEADER: usize = 1_445;

/// What `body` is, by its header and else by its beginning.
pub(crate) fn of(content_type: Option<&str>, body: &[u8]) -> Kind {
    let Some(content_type) = content_type.filter(|name| name.contains('/')) else {
        return by_looks(body);
    };
    let mut parts = content_type.split(';');
    let name = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (key, value) = part.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        (key.trim().eq_ignore_ascii_case("charset") && !value.is_empty()).then(|| value.to_owned())
    });
    let textual = name.starts_with("text/")
        || TEXTUAL.contains(&name.as_str())
        || name.ends_with("+json")
        || name.ends_with("+xml");
    if matches!(name.as_str(), "text/html" | "application/xhtml+xml") {
        Kind::Html { charset }
    } else if textual && name != "image/svg+xml" {
        Kind::Plain { charset }
    } else {
        Kind::Other { name }
    }
}

fn by_looks(body: &[u8]) -> Kind {
    let head = body.get(..HEADER.min(body.len())).unwrap_or_default();
    let start = head.trim_ascii_start();
    let begins = |tag: &str| {
        start
            .get(..tag.len())
            .is_some_and(|bytes| bytes.eq_ignore_ascii_case(tag.as_bytes()))
    };
    let wide = head.starts_with(&[0xFE, 0xFF]) || head.starts_with(&[0xFF, 0xFE]);
    if ["<!doctype html", "<html", "<head", "<body"]
        .into_iter()
        .any(begins)
    {
        Kind::Html { charset: None }
    } else if wide || !head.iter().any(|byte| is_binary(*byte)) {
        Kind::Plain { charset: None }
    } else {
        Kind::Other {
            name: "something that does not say what it is".to_owned(),
        }
    }
}

/// A byte that no text holds. Source: "binary data byte" of the MIME Sniffing Standard.
const fn is_binary(byte: u8) -> bool {
    matches!(byte, 0x00..=0x08 | 0x0B | 0x0E..=0x1A | 0x1C..=0x1F)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_told_by_the_header_and_else_by_the_looks() {
        let html = |charset: Option<&str>| Kind::Html {
            charset: charset.map(str::to_owned),
        };
        let plain = |charset: Option<&str>| Kind::Plain {
            charset: charset.map(str::to_owned),
        };
        let other = |name: &str| Kind::Other {
            name: name.to_owned(),
        };
        for (header, body, kind) in [
            (Some("text/html"), "", html(None)),
            (
                Some("TEXT/HTML; Charset=\"UTF-8\""),
                "",
                html(Some("UTF-8")),
            ),
            (Some("application/xhtml+xml"), "", html(None)),
            (Some("text/plain;charset=koi8-r"), "", plain(Some("koi8-r"))),
            (Some("application/problem+json"), "", plain(None)),
            (Some("application/rss+xml; x=y"), "", plain(None)),
            (Some("image/svg+xml"), "<svg>", other("image/svg+xml")),
            (Some("application/pdf"), "%PDF", other("application/pdf")),
            // What a header says counts, whatever the bytes look like.
            (Some("image/png"), "<html>", other("image/png")),
            (None, "  \n<!DOCTYPE HTML>", html(None)),
            (None, "plain words", plain(None)),
            (Some("nonsense"), "<HTML lang=de>", html(None)),
            (None, "", plain(None)),
        ] {
            assert_eq!(of(header, body.as_bytes()), kind, "{header:?} {body:?}");
        }
        assert!(matches!(
            of(None, b"\x7fELF\x02\x01\x01\0"),
            Kind::Other { .. }
        ));
        assert_eq!(of(None, b"\xFF\xFEa\0"), plain(None));
    }
}

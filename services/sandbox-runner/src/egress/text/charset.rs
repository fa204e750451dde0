//! From bytes to text. Source: the Encoding Standard, and "determining the character encoding" of the HTML
//! Standard.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Bytes in which a page may name its character set. Source: the HTML Standard.
const PRESCAN: usize = 1_024;

/// Decodes `bytes`: by their byte order mark, else by `header`, else by what the page says (of `html`), else
/// as UTF-8 where they are, else as Windows-1252, as browsers do. What is wrong becomes U+FFFD.
pub(crate) fn decode(bytes: &[u8], header: Option<&str>, html: bool) -> String {
    let named = header
        .and_then(|label| Encoding::for_label(label.as_bytes()))
        .or_else(|| html.then(|| in_page(bytes)).flatten());
    let encoding = named.unwrap_or_else(|| {
        // A cut may stand in the middle of a character.
        match std::str::from_utf8(bytes) {
            Err(error) if error.error_len().is_some() => WINDOWS_1252,
            _ => UTF_8,
        }
    });
    let (text, used, _) = encoding.decode(bytes);
    let mut text = text.into_owned();
    if used == UTF_8
        && matches!(std::str::from_utf8(bytes), Err(error) if error.error_len().is_none())
    {
        // The half of a character that the cut left.
        text.truncate(text.trim_end_matches('\u{FFFD}').len());
    }
    text
}

/// The character set that a page names in its beginning.
fn in_page(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes.get(..PRESCAN.min(bytes.len()))?.to_ascii_lowercase();
    let head = String::from_utf8_lossy(&head);
    let found = head.split("<meta").skip(1).find_map(|rest| {
        let tag = rest.split('>').next()?;
        let (_, value) = tag.split_once("charset")?;
        let value = value.trim_start().strip_prefix('=')?.trim_start();
        let label = value
            .trim_start_matches(['"', '\''])
            .split(['"', '\'', ';', ' ', '/', '\t', '\n', '\r'])
            .next()?;
        Encoding::for_label(label.as_bytes())
    })?;
    // What can be read as ASCII is not what it says.
    Some(if found == UTF_16BE || found == UTF_16LE {
        UTF_8
    } else {
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_name_a_character_set_is_heard_in_its_order() {
        let meta = |label: &str, rest: &[u8]| {
            let mut page = format!("<html><META charset=\"{label}\">").into_bytes();
            page.extend_from_slice(rest);
            page
        };
        for (bytes, header, end) in [
            (
                b"\xEF\xBB\xBFgr\xC3\xBC\xC3\x9F".to_vec(),
                Some("koi8-r"),
                "grüß",
            ),
            (b"\xFF\xFEg\0r\0\xFC\0\xDF\0".to_vec(), None, "grüß"),
            (b"gr\xFC\xDF".to_vec(), Some("iso-8859-1"), "grüß"),
            (b"gr\xFC\xDF".to_vec(), None, "grüß"),
            ("grüß".as_bytes().to_vec(), None, "grüß"),
            ("grüß".as_bytes().to_vec(), Some("no such set"), "grüß"),
            (meta("windows-1251", b"\xEC\xE8\xF0"), None, "мир"),
            (meta("shift_jis", b"\x93\xFA"), None, "日"),
            (meta("utf-16", "né".as_bytes()), None, "né"),
            (
                b"<meta http-equiv=content-type content='text/html; charset=gb2312'>\xD6\xD0"
                    .to_vec(),
                None,
                "中",
            ),
        ] {
            let text = decode(&bytes, header, true);
            assert!(text.ends_with(end), "{header:?}: {text:?}");
        }
    }

    #[test]
    fn a_cut_leaves_no_half_character_and_nonsense_is_marked() {
        assert_eq!(decode(&"abcé".as_bytes()[..4], None, false), "abc");
        assert_eq!(decode(b"a\xFFb", Some("utf-8"), false), "a\u{FFFD}b");
        // Text that names a set is not a page that does.
        assert_eq!(
            decode("<meta charset=koi8-r>é".as_bytes(), None, false),
            "<meta charset=koi8-r>é"
        );
    }
}

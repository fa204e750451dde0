//! The files the pages need, embedded by `build.rs`.

use std::fmt::Write as _;

use askama::filters::Safe;

/// One embedded file. Its URL carries its digest, so it may be cached as immutable.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// The name templates use, such as `app.css`.
    pub name: &'static str,
    /// The path it is served under, such as `/assets/app-0123456789abcdef.css`.
    pub url: &'static str,
    /// Its media type.
    pub content_type: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Every embedded file.
pub fn assets() -> &'static [Asset] {
    &ASSETS
}

/// The file served under `/assets/{hashed_name}`, if this build has it.
pub fn asset(hashed_name: &str) -> Option<&'static Asset> {
    ASSETS
        .iter()
        .find(|asset| asset.url.strip_prefix("/assets/") == Some(hashed_name))
}

/// The path of the file that templates call `name`; empty where there is none, which a test rules out.
pub fn asset_url(name: &str) -> &'static str {
    ASSETS
        .iter()
        .find(|asset| asset.name == name)
        .map_or("", |asset| asset.url)
}

/// An inline icon, hidden from screen readers: the word beside it says the same.
pub fn icon(name: &str) -> Safe<String> {
    let inner = ICONS
        .iter()
        .find(|(known, _)| *known == name)
        .map_or("", |(_, inner)| inner);
    let mut svg = String::new();
    let _ = write!(
        svg,
        r#"<svg class="icon" width="20" height="20" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">{inner}</svg>"#,
    );
    Safe(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_asset_is_found_under_its_hashed_name_only() {
        for known in assets() {
            let hashed = known.url.strip_prefix("/assets/").unwrap();
            assert_eq!(asset(hashed).unwrap().name, known.name);
            assert!(asset(known.name).is_none());
            assert_eq!(asset_url(known.name), known.url);
        }
    }

    #[test]
    fn the_style_sheet_stays_small() {
        let css = assets()
            .iter()
            .find(|asset| asset.name == "app.css")
            .unwrap();
        assert!(css.bytes.len() < 15 * 1024, "{} bytes", css.bytes.len());
    }

    #[test]
    fn our_script_stays_small_and_never_writes_markup() {
        let script = assets()
            .iter()
            .find(|asset| asset.name == "app.js")
            .unwrap();
        let script = std::str::from_utf8(script.bytes).unwrap();
        assert!(
            script.lines().count() < 250,
            "{} lines",
            script.lines().count()
        );
        for sink in [
            "innerHTML",
            "outerHTML =",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "createPolicy",
        ] {
            assert!(!script.contains(sink), "{sink}");
        }
    }
}

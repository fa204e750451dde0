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
            script.lines().count() < 300,
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

    /// Relative luminance of `#rgb` or `#rrggbb`, as WCAG 2.2 defines it.
    fn luminance(colour: &str) -> f64 {
        let digits = colour.trim().trim_start_matches('#');
        let wide = if digits.len() == 3 { 1 } else { 2 };
        let part = |n: usize| {
            let text = &digits[n * wide..(n + 1) * wide];
            let value = u8::from_str_radix(&text.repeat(3 - wide), 16).unwrap();
            let value = f64::from(value) / 255.0;
            if value <= 0.040_45 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2)
    }

    #[test]
    fn text_and_controls_stand_out_in_both_themes() {
        let css = include_str!("../../assets/app.css");
        let token = |name: &str, theme: usize| {
            let (_, rest) = css.split_once(&format!("--{name}: light-dark(")).unwrap();
            let pair = rest.split_once(')').unwrap().0;
            luminance(pair.split(',').nth(theme).unwrap())
        };
        let text = [
            "text", "muted", "accent", "known", "tool", "nobody", "danger",
        ];
        for theme in [0, 1] {
            let contrast = |a: &str, b: &str| {
                let (a, b) = (token(a, theme), token(b, theme));
                (a.max(b) + 0.05) / (a.min(b) + 0.05)
            };
            for ground in ["ground", "raised", "sunk"] {
                for colour in text {
                    assert!(
                        contrast(colour, ground) >= 4.5,
                        "{colour} on {ground}, theme {theme}"
                    );
                }
                assert!(
                    contrast("edge", ground) >= 3.0,
                    "edge on {ground}, theme {theme}"
                );
            }
            for ground in ["add", "del", "caution"] {
                assert!(
                    contrast("text", ground) >= 4.5,
                    "text on {ground}, theme {theme}"
                );
            }
            assert!(
                contrast("muted", "add") >= 4.5 && contrast("muted", "del") >= 4.5,
                "line numbers, theme {theme}"
            );
            assert!(
                contrast("on-accent", "accent") >= 4.5,
                "primary, theme {theme}"
            );
            assert!(contrast("ground", "nobody") >= 4.5, "chip, theme {theme}");
        }
    }
}

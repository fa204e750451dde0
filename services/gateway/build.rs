//! Embeds the pages' assets under names that carry their digest, so that they can be cached for good, and the icons as
//! inline SVG.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

use sha2::{Digest as _, Sha256};

/// Name in templates, file below `assets/`, content type.
const ASSETS: [(&str, &str, &str); 5] = [
    ("app.css", "app.css", "text/css; charset=utf-8"),
    ("app.js", "app.js", "text/javascript; charset=utf-8"),
    ("icon.svg", "icon.svg", "image/svg+xml"),
    (
        "htmx.js",
        "vendor/htmx.js",
        "text/javascript; charset=utf-8",
    ),
    (
        "hx-csp.js",
        "vendor/hx-csp.js",
        "text/javascript; charset=utf-8",
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=assets");
    println!("cargo::rerun-if-changed=build.rs");
    let root = required("CARGO_MANIFEST_DIR")?;
    let folder = Path::new(&root).join("assets");
    if !folder.join("vendor/icons").is_dir() {
        println!("cargo::error=run scripts/assets first");
        return Err("run scripts/assets first".into());
    }
    let out = required("OUT_DIR")?;
    let out = Path::new(&out);
    let code = format!(
        "{}{}",
        manifest(&folder, out)?,
        icons(&folder.join("vendor/icons"))?
    );
    fs::write(out.join("assets.rs"), code)?;
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a build script's settings are cargo's variables"
)]
fn required(name: &str) -> Result<String, env::VarError> {
    env::var(name)
}

fn manifest(folder: &Path, out: &Path) -> Result<String, Box<dyn Error>> {
    let mut code = format!("static ASSETS: [Asset; {}] = [\n", ASSETS.len());
    for (name, file, content_type) in ASSETS {
        let source = folder.join(file);
        let content = if file == "app.css" {
            squeeze(&fs::read_to_string(&source)?).into_bytes()
        } else {
            fs::read(&source)?
        };
        let path = out.join(name);
        fs::write(&path, &content)?;
        let path = path
            .to_str()
            .ok_or("a build folder whose name is not text")?;
        let digest = Sha256::digest(&content);
        let hash = digest
            .iter()
            .take(8)
            .try_fold(String::new(), |mut hash, byte| {
                write!(hash, "{byte:02x}").map(|()| hash)
            })?;
        let (stem, extension) = name
            .split_once('.')
            .ok_or("an asset without an extension")?;
        writeln!(
            code,
            "Asset {{ name: {name:?}, url: \"/assets/{stem}-{hash}.{extension}\", content_type: {content_type:?}, bytes: include_bytes!({path:?}) }},",
        )?;
    }
    code.push_str("];\n");
    Ok(code)
}

/// The style sheet without comments and indentation. Enough for our own: no string in it holds these pairs.
fn squeeze(css: &str) -> String {
    let mut out = String::with_capacity(css.len());
    let mut rest = css;
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    let mut out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for (long, short) in [
        (": ", ":"),
        ("; ", ";"),
        (", ", ","),
        (" {", "{"),
        ("{ ", "{"),
        (";}", "}"),
        ("} ", "}"),
        (" > ", ">"),
    ] {
        out = out.replace(long, short);
    }
    out
}

/// The drawing inside each icon file; size and stroke are ours and written once.
fn icons(folder: &Path) -> Result<String, Box<dyn Error>> {
    let mut files: Vec<_> = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    let mut code = format!("static ICONS: [(&str, &str); {}] = [\n", files.len());
    for file in files {
        let path = file.path();
        let svg = fs::read_to_string(&path)?;
        let inner = svg
            .split_once("<svg")
            .and_then(|(_, rest)| rest.split_once('>'))
            .and_then(|(_, rest)| rest.split_once("</svg>"))
            .map(|(inner, _)| inner.split_whitespace().collect::<Vec<_>>().join(" "))
            .ok_or_else(|| format!("{} is not an SVG drawing", path.display()))?;
        let name = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .ok_or("an icon without a name")?;
        writeln!(code, "({name:?}, {inner:?}),")?;
    }
    code.push_str("];\n");
    Ok(code)
}

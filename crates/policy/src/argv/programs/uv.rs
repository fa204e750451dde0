//! `uv`: nearly all of it runs programs, fetches or builds; what only tells is left.

use crate::argv::{Permitted, Refusal, Tier, paths::Workspace, verdict::refuse};

/// What is taken, each whole: words in this order, and options that may stand among them.
const TAKEN: &[(&[&str], &str)] = &[
    (&["--version"], ""),
    (&["-V"], ""),
    (&["--help"], ""),
    (&["-h"], ""),
    (&["help"], ""),
    (&["self", "version"], "--short --output-format=json"),
    (&["version"], "--short --output-format=json"),
    (&["cache", "dir"], ""),
    (&["tool", "dir"], ""),
    (&["python", "dir"], ""),
];

pub(super) fn judge(arguments: &[String], workspace: &Workspace<'_>) -> Result<Permitted, Refusal> {
    let (options, words): (Vec<&str>, Vec<&str>) = arguments
        .iter()
        .map(String::as_str)
        .filter(|it| {
            !matches!(
                *it,
                "--offline" | "-q" | "--quiet" | "--no-config" | "--no-progress"
            )
        })
        .partition(|it| {
            it.starts_with('-') && !matches!(*it, "--version" | "-V" | "--help" | "-h")
        });
    for (taken, allowed) in TAKEN {
        if *taken == words.as_slice() {
            if let Some(other) = options
                .iter()
                .find(|it| !allowed.split_whitespace().any(|known| known == **it))
            {
                return refuse!("uv: the option `{}` is refused", other.escape_debug());
            }
            let mut permitted = super::permitted("uv", arguments, workspace, Tier::Read);
            for (name, value) in [
                ("UV_NO_CONFIG", "1"),
                ("UV_OFFLINE", "1"),
                ("UV_NO_CACHE", "1"),
                ("UV_PYTHON_DOWNLOADS", "never"),
                ("UV_NO_ENV_FILE", "1"),
            ] {
                permitted.env.insert(name.to_owned(), value.to_owned());
            }
            return Ok(permitted);
        }
    }
    let asked = words.first().copied().unwrap_or("nothing");
    refuse!(
        "uv: `{}` is refused: uv runs interpreters of the workspace, builds projects and fetches packages; only what \
         tells versions and folders is taken",
        asked.escape_debug()
    )
}

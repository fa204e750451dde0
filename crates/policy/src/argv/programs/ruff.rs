//! `ruff`: it checks and shows, and writes nothing.

use crate::argv::{
    Permitted, Refusal, Tier,
    grammar::{Grammar, Kind, Operands},
    options,
    paths::{Entry, Workspace},
    text,
    verdict::refuse,
};

use super::{settings, sources};

/// Entries looked at in search of configuration.
const LOOKED_AT: usize = 50_000;
/// Folders that ruff passes over by itself, and that can be very large.
const PASSED_OVER: [&str; 9] = [
    ".git",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    ".venv",
    "node_modules",
    "site-packages",
    "venv",
];

const WRITES: &str = "writes files";

static COMMON: Grammar = Grammar {
    name: "ruff",
    flags: "--diff --preview --no-preview --respect-gitignore --no-respect-gitignore --force-exclude \
            --no-force-exclude -n --no-cache -v --verbose -q --quiet -s --silent --isolated -h --help",
    values: &[
        ("--target-version", Kind::Text),
        ("--extension", Kind::Text),
        ("--exclude", Kind::Text),
        ("--extend-exclude", Kind::Text),
        ("--line-length", Kind::Number),
        ("--color", Kind::Words("auto always never")),
    ],
    refused: &[
        (
            "--config",
            "takes configuration from a file, or settings that can write",
        ),
        ("--cache-dir -o --output-file", WRITES),
        ("--stdin-filename", "reads its input"),
    ],
    ..Grammar::EMPTY
};

static CHECK: Grammar = Grammar {
    name: "ruff check",
    flags: "--no-fix --no-fix-only --no-unsafe-fixes --unsafe-fixes --show-fixes --no-show-fixes --ignore-noqa \
            --statistics --show-files --show-settings -e --exit-zero --exit-non-zero-on-fix",
    values: &[
        ("--select", Kind::Text),
        ("--ignore", Kind::Text),
        ("--extend-select", Kind::Text),
        ("--per-file-ignores", Kind::Text),
        ("--extend-per-file-ignores", Kind::Text),
        ("--fixable", Kind::Text),
        ("--unfixable", Kind::Text),
        ("--extend-fixable", Kind::Text),
        (
            "--output-format",
            Kind::Words(
                "concise full json json-lines junit grouped github gitlab pylint rdjson azure sarif",
            ),
        ),
    ],
    refused: &[
        ("--fix --fix-only --add-noqa --add-ignore", WRITES),
        ("-w --watch", "waits for ever"),
    ],
    also: &[&COMMON],
    operands: Operands::Judged,
    check: Some(plain_files),
    ..Grammar::EMPTY
};

static FORMAT: Grammar = Grammar {
    name: "ruff format",
    flags: "--check --exit-non-zero-on-format",
    values: &[("--range", Kind::Text), ("--output-format", Kind::Text)],
    also: &[&COMMON],
    operands: Operands::Judged,
    check: Some(|parsed, workspace| {
        if !parsed.has(&["--check", "--diff", "-h", "--help"]) {
            return refuse!("without --check or --diff it writes files");
        }
        plain_files(parsed, workspace)
    }),
    ..Grammar::EMPTY
};

static TELLS: Grammar = Grammar {
    name: "ruff",
    flags: "--all -h --help -V --version",
    values: &[("--output-format", Kind::Words("text json"))],
    operands: Operands::Text(2),
    ..Grammar::EMPTY
};

pub(super) fn judge(arguments: &[String], workspace: &Workspace<'_>) -> Result<Permitted, Refusal> {
    text::no_response_files(arguments)
        .map_err(|refusal| Refusal::new(format_args!("ruff: {refusal}")))?;
    let (name, rest) = match arguments.split_first() {
        Some((first, rest)) => (first.as_str(), rest),
        None => ("--help", arguments),
    };
    let (grammar, forced): (_, &[&str]) = match name {
        "check" => (&CHECK, &["--no-fix", "--no-fix-only", "--no-cache"]),
        "format" => (&FORMAT, &["--no-cache"]),
        "rule" | "linter" | "version" | "config" | "help" => (&TELLS, &[]),
        "--version" | "-V" | "--help" | "-h" if rest.is_empty() => (&TELLS, &[]),
        _ => {
            return refuse!(
                "ruff: `{}` is refused: only check, format --check, rule, linter, config and version are taken",
                name.escape_debug()
            );
        }
    };
    let parsed = grammar.read(rest, workspace)?;
    if !forced.is_empty() {
        let here = [".".to_owned()];
        let targets = if parsed.operands.is_empty() {
            &here[..]
        } else {
            &parsed.operands
        };
        for target in targets {
            configured(target, workspace)
                .map_err(|refusal| Refusal::new(format_args!("ruff: {refusal}")))?;
        }
    }
    let argv = ["ruff".to_owned(), name.to_owned()]
        .into_iter()
        .chain(forced.iter().map(|it| (*it).to_owned()))
        .chain(rest.iter().cloned());
    Ok(super::rewritten(argv.collect(), workspace, Tier::Read))
}

fn plain_files(parsed: &options::Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    let mut operands = parsed.operands.iter();
    operands.try_for_each(|operand| options::read(operand, workspace))
}

/// Refuses configuration that extends what lies out of the workspace. Looks above and beneath what is checked.
fn configured(target: &str, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    let place = workspace.follow(target)?;
    let root = workspace.tree.root();
    let mut above = place.path.clone();
    if place.entry != Entry::Folder {
        above.truncate(above.rfind('/').unwrap_or_default());
    }
    loop {
        extends(&above, workspace)?;
        if above == root {
            break;
        }
        above.truncate(above.rfind('/').unwrap_or_default());
    }
    let mut open = vec![place];
    let mut left = LOOKED_AT;
    while let Some(folder) = open.pop() {
        let name = folder.path.rsplit('/').next().unwrap_or_default();
        if folder.entry != Entry::Folder || PASSED_OVER.contains(&name) {
            continue;
        }
        let Some(names) = workspace.tree.list(&folder.path, left) else {
            return refuse!("there is too much in `{target}` to look for configuration");
        };
        left = left.saturating_sub(names.len());
        extends(&folder.path, workspace)?;
        for name in names {
            let path = format!("{}/{name}", folder.path);
            let entry = workspace.tree.entry(&path);
            let link = matches!(entry, Entry::Link(_)) && sources::is_source(&name);
            if link && workspace.follow(&path).is_err() {
                return refuse!(
                    "the link `{}` leads out of the workspace, and would be read as a source",
                    workspace.below_root(&path)
                );
            }
            open.push(super::super::paths::Place { path, entry });
        }
    }
    Ok(())
}

fn extends(folder: &str, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    for name in ["ruff.toml", ".ruff.toml", "pyproject.toml"] {
        let Some(text) = settings::file(folder, name, workspace)? else {
            continue;
        };
        if settings::has_escaped_key(&text) {
            return refuse!("{name} has keys with escapes");
        }
        for value in settings::assigned(&text, "extend") {
            let path = value.trim().trim_matches(['"', '\'', ' ', '}']);
            if path.starts_with(['~', '$']) || workspace.within(folder)?.follow(path).is_err() {
                return refuse!("{name} extends `{path}`, which is out of the workspace");
            }
        }
    }
    Ok(())
}

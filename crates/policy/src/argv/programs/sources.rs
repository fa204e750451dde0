//! Python sources beneath a folder, as tools look for them: what they read through links.

use std::collections::BTreeSet;

use crate::argv::{
    Refusal,
    paths::{Entry, Workspace},
    verdict::refuse,
};

/// Entries looked at in search of links.
const LOOKED_AT: usize = 50_000;

/// Links that are told to a tool one by one.
const LINKS: usize = 64;

/// Whether a tool reads a file of this name as a source.
pub(super) fn is_source(name: &str) -> bool {
    [".py", ".pyi", ".pyw", ".ipynb"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// The links beneath a folder through which a search that goes through links, as mypy's does, would come out of the
/// workspace. Hidden folders and those of packages are passed over, as mypy passes over them, and so are the interpreters
/// of a virtual environment.
pub(super) fn links_out(target: &str, workspace: &Workspace<'_>) -> Result<Vec<String>, Refusal> {
    let mut found = Vec::new();
    // Folders, and whether a link led there: then what is in them has other names for the tool than here.
    let mut open = vec![(workspace.follow(target)?.path, false)];
    let mut seen = BTreeSet::new();
    let mut left = LOOKED_AT;
    while let Some((folder, linked)) = open.pop() {
        if workspace.tree.entry(&folder) != Entry::Folder || !seen.insert((folder.clone(), linked))
        {
            continue;
        }
        let Some(names) = workspace.tree.list(&folder, left) else {
            return refuse!("there is too much in `{target}` to look for links that lead out");
        };
        left = left.saturating_sub(names.len());
        let interpreters = folder.strip_suffix("/bin").is_some_and(|environment| {
            workspace.tree.entry(&format!("{environment}/pyvenv.cfg")) == Entry::File
        });
        for name in names {
            if passed_over(&name) || interpreters && name.starts_with("python") {
                continue;
            }
            let path = format!("{folder}/{name}");
            match workspace.tree.entry(&path) {
                Entry::Folder => open.push((path, linked)),
                Entry::Link(_) => match workspace.follow(&path) {
                    Ok(place) => open.push((place.path, true)),
                    Err(_) if linked || found.len() >= LINKS => {
                        return refuse!(
                            "the link `{}` leads out of the workspace, and sources are looked for through it",
                            workspace.below_root(&path)
                        );
                    }
                    Err(_) => found.push(path),
                },
                _ => {}
            }
        }
    }
    Ok(found)
}

/// Names that mypy does not look into.
fn passed_over(name: &str) -> bool {
    name.starts_with('.') || matches!(name, "__pycache__" | "site-packages" | "node_modules")
}

/// An expression of Python's that only matches a path, as a tool names it that was started in the workspace's folder.
pub(super) fn only(path: &str, workspace: &Workspace<'_>) -> String {
    let here: Vec<&str> = workspace.below_root(&workspace.cwd).split('/').collect();
    let there: Vec<&str> = workspace.below_root(path).split('/').collect();
    let here: Vec<&str> = here.into_iter().filter(|name| !name.is_empty()).collect();
    let common = here.iter().zip(&there).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", here.len() - common);
    let names: Vec<&str> = up.chain(there.into_iter().skip(common)).collect();
    let mut pattern = "^".to_owned();
    for c in names.join("/").chars() {
        if c.is_ascii_punctuation() || c == ' ' {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern + "/?$"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Empty;

    impl crate::argv::Tree for Empty {
        fn root(&self) -> &'static str {
            "/ws"
        }

        fn entry(&self, _: &str) -> Entry {
            Entry::Folder
        }

        fn read(&self, _: &str, _: usize) -> Option<Vec<u8>> {
            None
        }

        fn list(&self, _: &str, _: usize) -> Option<Vec<String>> {
            Some(Vec::new())
        }
    }

    #[test]
    fn a_path_is_matched_from_the_folder_that_the_tool_starts_in() {
        let from = |cwd, path| only(path, &Workspace::enter(&Empty, cwd).unwrap());
        assert_eq!(from(None, "/ws/link_out"), "^link\\_out/?$");
        assert_eq!(from(Some("a"), "/ws/a/b c"), "^b\\ c/?$");
        assert_eq!(from(Some("a/b"), "/ws/a/c.d"), "^\\.\\.\\/c\\.d/?$");
        assert_eq!(from(Some("a"), "/ws/b/c"), "^\\.\\.\\/b\\/c/?$");
    }
}

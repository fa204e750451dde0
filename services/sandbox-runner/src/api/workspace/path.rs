//! Paths as the agent names them, and what they come to beneath the workspace.
//!
//! A path is judged as text before the kernel sees it, so that a refusal can say what is wrong with it.
//! The kernel judges again (`openat2`), because text knows nothing of links.

use camino::Utf8Path;

use crate::executor::Refused;

/// The longest name of one file or folder, in bytes. Source: `NAME_MAX` of Linux.
pub(crate) const NAME_MAX: usize = 255;
/// The longest path, in bytes. Source: `PATH_MAX` of Linux, less the closing zero.
pub(crate) const PATH_MAX: usize = 4_095;

/// A path beneath the workspace: names with `/` between them, none of them `.` or `..`. Empty for the
/// workspace itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelPath(String);

impl RelPath {
    /// Reads a path of a tool call. An absolute one must lie beneath `root`, name by name.
    ///
    /// # Errors
    ///
    /// Refuses what is empty, leaves the workspace, holds control characters or is too long.
    pub fn parse(text: &str, root: &Utf8Path) -> Result<Self, Refused> {
        if text.is_empty() {
            return Err(Refused::new(
                "path-empty",
                "The path is empty. Name a file, such as notes.txt.",
            ));
        }
        if text.chars().any(char::is_control) {
            return Err(Refused::new(
                "path-control",
                "The path holds a control character, such as a line break or NUL. Leave it out.",
            ));
        }
        let beneath = match text.strip_prefix('/') {
            Some(_) => beneath(text, root)?,
            None => text,
        };
        let mut names = Vec::new();
        for name in beneath.split('/') {
            match name {
                "" | "." => {}
                ".." => {
                    return Err(Refused::new(
                        "path-parent",
                        "The path has a part `..`. Write it without, from the workspace down.",
                    ));
                }
                name if name.len() > NAME_MAX => {
                    return Err(Refused::new(
                        "path-long",
                        format!("A part of the path is longer than {NAME_MAX} bytes."),
                    ));
                }
                name => names.push(name),
            }
        }
        let path = names.join("/");
        if path.len() > PATH_MAX {
            return Err(Refused::new(
                "path-long",
                format!("The path is longer than {PATH_MAX} bytes."),
            ));
        }
        Ok(Self(path))
    }

    /// The same, for a tool that needs a file and not a folder.
    ///
    /// # Errors
    ///
    /// As [`Self::parse`]; also refuses the workspace itself and a path that ends in `/`.
    pub(crate) fn parse_file(text: &str, root: &Utf8Path) -> Result<Self, Refused> {
        let path = Self::parse(text, root)?;
        if path.0.is_empty() || text.ends_with('/') || text.ends_with("/.") {
            return Err(Refused::new(
                "path-folder",
                "The path names a folder. Name a file in it.",
            ));
        }
        Ok(path)
    }

    /// The workspace itself.
    pub(crate) const fn workspace() -> Self {
        Self(String::new())
    }

    /// As text; empty for the workspace itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// For the kernel: never empty.
    pub(crate) fn for_open(&self) -> &str {
        if self.0.is_empty() { "." } else { &self.0 }
    }

    /// The folders above the last name, outermost first, and the last name.
    pub(crate) fn folders_and_name(&self) -> (Vec<&str>, &str) {
        match self.0.rsplit_once('/') {
            Some((folders, name)) => (folders.split('/').collect(), name),
            None => (Vec::new(), &self.0),
        }
    }

    /// Refuses a path that writes into version control's own data, at any depth.
    ///
    /// A hook or setting planted there runs with the person's rights the next time they use git.
    pub(crate) fn refuse_git(&self) -> Result<(), Refused> {
        if self.0.split('/').any(is_git_name) {
            return Err(Refused::new(
                "path-git",
                "The path leads into .git, which no tool may write: hooks and settings there would \
                 run outside the sandbox.",
            ));
        }
        Ok(())
    }
}

/// The part of an absolute path beneath `root`, compared name by name, so that `/data/a-evil` is not
/// beneath `/data/a`.
fn beneath<'t>(text: &'t str, root: &Utf8Path) -> Result<&'t str, Refused> {
    let outside = || {
        Refused::new(
            "path-outside",
            "The path lies outside the workspace. Give one relative to it, such as notes.txt.",
        )
    };
    let root = root.as_str().trim_end_matches('/');
    let rest = text.strip_prefix(root).ok_or_else(outside)?;
    if rest.is_empty() || rest.starts_with('/') {
        Ok(rest)
    } else {
        Err(outside())
    }
}

/// Whether git would take `name` for its own folder on any file system it knows of: in other case, with
/// characters that HFS+ ignores, or in the forms that NTFS takes for the same name.
pub(crate) fn is_git_name(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| {
            !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
        })
        .flat_map(char::to_lowercase)
        .collect();
    let plain = plain.split(':').next().unwrap_or_default();
    let plain = plain.trim_end_matches([' ', '.']);
    matches!(plain, ".git" | "git~1")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<String, &'static str> {
        RelPath::parse(text, Utf8Path::new("/data/a"))
            .map(|p| p.0)
            .map_err(|r| r.rule)
    }

    #[test]
    fn a_path_is_taken_or_refused_by_its_kind() {
        let long = "n".repeat(NAME_MAX);
        let longer = "n".repeat(NAME_MAX + 1);
        for (text, expected) in [
            ("notes.txt", Ok("notes.txt")),
            ("./a//b/./c.txt", Ok("a/b/c.txt")),
            (".", Ok("")),
            ("a/..b/c..", Ok("a/..b/c..")),
            // Taken as written: another file, not a shorter way to say the same.
            ("run ", Ok("run ")),
            ("%2e%2e/x", Ok("%2e%2e/x")),
            ("/data/a", Ok("")),
            ("/data/a/x/y", Ok("x/y")),
            (long.as_str(), Ok(long.as_str())),
            ("", Err("path-empty")),
            ("/etc/passwd", Err("path-outside")),
            ("/data/a-evil/x", Err("path-outside")),
            ("/data", Err("path-outside")),
            ("/data/A/x", Err("path-outside")),
            ("/data/a/../b", Err("path-parent")),
            ("../x", Err("path-parent")),
            ("a/../../x", Err("path-parent")),
            ("a/..", Err("path-parent")),
            ("a\0b", Err("path-control")),
            ("a\nb", Err("path-control")),
            ("a\u{85}b", Err("path-control")),
            (longer.as_str(), Err("path-long")),
        ] {
            assert_eq!(
                parse(text).as_deref(),
                expected.as_ref().copied(),
                "{text:?}"
            );
        }
        assert_eq!(parse(&"abc/".repeat(1_100)), Err("path-long"));
    }

    #[test]
    fn a_file_tool_refuses_what_names_a_folder() {
        let root = Utf8Path::new("/data/a");
        for text in [".", "./", "a/", "a/.", "/data/a", "/data/a/"] {
            assert_eq!(
                RelPath::parse_file(text, root).map_err(|r| r.rule),
                Err("path-folder"),
                "{text}"
            );
        }
        assert!(RelPath::parse_file("a/b", root).is_ok());
    }

    #[test]
    fn git_is_known_at_any_depth_and_in_any_spelling() {
        let root = Utf8Path::new("/w");
        for text in [
            ".git",
            ".git/config",
            "vendor/sub/.git/hooks/pre-commit",
            ".GIT/config",
            "a/.Git",
            ".git./config",
            ".git /config",
            ".g\u{200c}it/config",
            "GIT~1/config",
            ".git::$INDEX_ALLOCATION/config",
        ] {
            let path = RelPath::parse(text, root).unwrap();
            assert_eq!(
                path.refuse_git().map_err(|r| r.rule),
                Err("path-git"),
                "{text}"
            );
        }
        for text in [".gitignore", ".github/x", "git", "a.git/x", "digit~1"] {
            let path = RelPath::parse(text, root).unwrap();
            assert_eq!(path.refuse_git(), Ok(()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_leads_out_of_the_workspace(
            text in "(/|/data/a/|/data/|)?((\\.|\\.\\.|[a-z.]{1,4}|\\.git| |é|\\\\)/?){0,8}"
        ) {
            if let Ok(path) = RelPath::parse(&text, Utf8Path::new("/data/a")) {
                prop_assert!(!path.as_str().starts_with('/'));
                for name in path.as_str().split('/').filter(|_| !path.as_str().is_empty()) {
                    prop_assert!(!matches!(name, "" | "." | ".."));
                }
                // Reading the result again changes nothing.
                if !path.as_str().is_empty() {
                    prop_assert_eq!(RelPath::parse(path.as_str(), Utf8Path::new("/data/a")), Ok(path));
                }
            }
        }
    }
}

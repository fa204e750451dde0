//! The repository that git would find, and what its configuration would run.

use crate::argv::{
    Refusal, Tier,
    paths::{Entry, Place, Workspace},
    verdict::refuse,
};

use super::{
    config::{self, Variable},
    subcommands::Subcommand,
};

/// The longest index, in bytes.
const INDEX: usize = 64 * 1024 * 1024;
/// The mode of a submodule's entry in an index of any version, as it stands there (octal 160000).
const GITLINK: [u8; 4] = [0, 0, 0xe0, 0];
/// Links are looked for in this many entries of a repository, its loose objects apart.
const LOOKED_AT: usize = 100_000;
/// The longest configuration file, in bytes.
const CONFIG: usize = 1024 * 1024;

/// Where git is to work. All paths are absolute, without links, and in the workspace.
#[derive(Debug)]
pub(super) struct Repository {
    pub(super) work_tree: String,
    pub(super) git_dir: String,
    /// The same but for linked work trees.
    pub(super) common_dir: String,
}

impl Repository {
    /// Looks from the current folder up to the workspace's root, and no further. A folder that only looks like a bare
    /// repository is none.
    pub(super) fn find(workspace: &Workspace<'_>) -> Result<Self, Refusal> {
        workspace.not_git(".", &workspace.cwd)?;
        let root = workspace.tree.root();
        let mut work_tree = workspace.cwd.clone();
        loop {
            let dot_git = format!("{work_tree}/.git");
            if workspace.tree.entry(&dot_git) != Entry::Missing {
                return Self::at(workspace, work_tree, &dot_git);
            }
            if work_tree == root {
                return refuse!("there is no repository in the workspace");
            }
            let end = work_tree.rfind('/').unwrap_or_default();
            work_tree.truncate(end);
        }
    }

    fn at(workspace: &Workspace<'_>, work_tree: String, dot_git: &str) -> Result<Self, Refusal> {
        let place = workspace.follow(dot_git)?;
        let git_dir = match place.entry {
            Entry::Folder => place.path,
            // A linked work tree or a submodule says where its repository is.
            Entry::File => {
                let text = content(workspace, &place)?;
                let Some(folder) = text.strip_prefix("gitdir:") else {
                    return refuse!("`.git` does not say where the repository is");
                };
                folder_at(workspace, &work_tree, folder.trim())?
            }
            _ => return refuse!("`.git` is neither a folder nor a file"),
        };
        let common = workspace.follow(&format!("{git_dir}/commondir"))?;
        let common_dir = match common.entry {
            Entry::File => {
                let text = content(workspace, &common)?;
                folder_at(workspace, &git_dir, text.trim())?
            }
            _ => git_dir.clone(),
        };
        let repository = Self {
            work_tree,
            git_dir,
            common_dir,
        };
        repository.keeps_inside(workspace)?;
        Ok(repository)
    }

    /// Refuses a repository whose parts lie elsewhere.
    fn keeps_inside(&self, workspace: &Workspace<'_>) -> Result<(), Refusal> {
        for folder in [&self.git_dir, &self.common_dir] {
            for part in [
                "HEAD",
                "config",
                "config.worktree",
                "index",
                "objects",
                "objects/pack",
                "objects/info",
                "refs",
                "packed-refs",
                "logs",
                "info",
            ] {
                workspace.follow(&format!("{folder}/{part}"))?;
            }
        }
        for folder in [&self.git_dir, &self.common_dir] {
            no_link_leads_out(workspace, folder)?;
        }
        let alternates = format!("{}/objects/info/alternates", self.common_dir);
        let place = workspace.follow(&alternates)?;
        if place.entry != Entry::Missing {
            let text = content(workspace, &place)?;
            let within = workspace.within(&format!("{}/objects", self.common_dir))?;
            for line in text
                .lines()
                .filter(|it| !it.is_empty() && !it.starts_with('#'))
            {
                within.follow(line.trim_matches('"'))?;
            }
        }
        Ok(())
    }

    /// What has to be switched off besides, of what the repository itself names; or that it cannot be.
    pub(super) fn defuse(
        &self,
        workspace: &Workspace<'_>,
        tier: Tier,
        subcommand: &Subcommand,
        converts: bool,
    ) -> Result<Vec<String>, Refusal> {
        let mut overrides = Vec::new();
        for variable in self.variables(workspace)? {
            let name = |driver: &str| format!("{}.{driver}.{}", variable.section, variable.key);
            let driver = variable.subsection.as_deref();
            match (variable.section.as_str(), driver, variable.key.as_str()) {
                ("include" | "includeif", _, _) => {
                    return refuse!("the repository's configuration takes in other files");
                }
                ("hook", _, _) => {
                    return refuse!("the repository's configuration has hooks of its own");
                }
                ("filter", Some(driver), "clean" | "smudge" | "process" | "required") => {
                    if tier == Tier::Write {
                        return refuse!(
                            "the filter `{}` would have to run to write; it is not run here",
                            driver.escape_debug()
                        );
                    }
                    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                    if !driver.chars().all(plain) {
                        return refuse!("a filter named `{}`", driver.escape_debug());
                    }
                    let off = if variable.key == "required" {
                        "false"
                    } else {
                        ""
                    };
                    overrides.push(format!("{}={off}", name(driver)));
                }
                ("diff", Some(driver), "textconv" | "command") if converts => {
                    return refuse!(
                        "{} would run, and cannot be switched off here",
                        name(driver).escape_debug()
                    );
                }
                ("diff", None, "external") if converts => {
                    return refuse!("diff.external would run, and cannot be switched off here");
                }
                ("merge", Some(driver), "driver") if subcommand.merges => {
                    return refuse!("{} would run", name(driver).escape_debug());
                }
                (
                    "core" | "mailmap" | "blame" | "diff" | "commit" | "format" | "fsck",
                    None,
                    "excludesfile" | "file" | "ignorerevsfile" | "orderfile" | "template"
                    | "signaturefile" | "skiplist",
                ) => named_file(workspace, &self.work_tree, &variable)?,
                _ => {}
            }
        }
        Ok(overrides)
    }

    /// Whether the index may have submodules in it. It is searched for their mode, which stands elsewhere by chance in
    /// one of very many.
    pub(super) fn may_have_submodules(&self, workspace: &Workspace<'_>) -> Result<bool, Refusal> {
        let Some(names) = workspace.tree.list(&self.git_dir, 10_000) else {
            return Ok(true);
        };
        let indexes = names
            .iter()
            .filter(|name| *name == "index" || name.starts_with("sharedindex."));
        for name in indexes {
            let place = workspace.follow(&format!("{}/{name}", self.git_dir))?;
            let Some(bytes) = workspace.tree.read(&place.path, INDEX) else {
                return Ok(true);
            };
            if bytes.windows(GITLINK.len()).any(|mode| mode == GITLINK) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn variables(&self, workspace: &Workspace<'_>) -> Result<Vec<Variable>, Refusal> {
        let mut variables = Vec::new();
        for file in [
            format!("{}/config", self.common_dir),
            format!("{}/config.worktree", self.common_dir),
            format!("{}/config.worktree", self.git_dir),
        ] {
            let place = workspace.follow(&file)?;
            if place.entry == Entry::Missing {
                continue;
            }
            let Some(read) = config::parse(&content(workspace, &place)?) else {
                return refuse!("the repository's configuration is not plainly understood");
            };
            variables.extend(read);
        }
        Ok(variables)
    }
}

/// Refuses a repository with a file of git's that is a link out of the workspace: a reference, an ignore list, a pack.
/// Loose objects are passed over: what is no object, git does not show. So are the repositories of submodules and the
/// stores of extensions, which git itself does not read.
fn no_link_leads_out(workspace: &Workspace<'_>, git_dir: &str) -> Result<(), Refusal> {
    let objects = format!("{git_dir}/objects");
    let mut open = vec![git_dir.to_owned()];
    let mut left = LOOKED_AT;
    while let Some(folder) = open.pop() {
        let Some(names) = workspace.tree.list(&folder, left) else {
            return refuse!("there is too much in the repository to look for links that lead out");
        };
        left = left.saturating_sub(names.len());
        for name in names {
            let apart = folder == objects && name.len() == 2
                || folder == git_dir && matches!(name.as_str(), "modules" | "lfs" | "annex");
            let path = format!("{folder}/{name}");
            match workspace.tree.entry(&path) {
                Entry::Folder if !apart => open.push(path),
                Entry::Link(_) => drop(workspace.follow(&path)?),
                _ => {}
            }
        }
    }
    Ok(())
}

/// A file that the configuration names must be in the workspace.
fn named_file(
    workspace: &Workspace<'_>,
    work_tree: &str,
    variable: &Variable,
) -> Result<(), Refusal> {
    if variable.value.is_empty() {
        return Ok(());
    }
    let said = |_| {
        Refusal::new(format_args!(
            "the repository's configuration names a file out of the workspace: {}.{}",
            variable.section, variable.key
        ))
    };
    if variable.value.starts_with(['~', '%']) {
        return Err(said(Refusal::new("")));
    }
    workspace
        .within(work_tree)?
        .follow(&variable.value)
        .map(|_| ())
        .map_err(said)
}

fn folder_at(workspace: &Workspace<'_>, base: &str, folder: &str) -> Result<String, Refusal> {
    let place = workspace.within(base)?.follow(folder)?;
    if place.entry != Entry::Folder {
        return refuse!("the repository is not where `.git` says");
    }
    Ok(place.path)
}

fn content(workspace: &Workspace<'_>, place: &Place) -> Result<String, Refusal> {
    let bytes = workspace.tree.read(&place.path, CONFIG);
    match bytes.map(String::from_utf8) {
        Some(Ok(text)) => Ok(text),
        _ => refuse!("the repository's configuration cannot be read"),
    }
}

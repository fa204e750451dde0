use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
};

use kazma_domain::{Entropy, plan::Window};

use super::*;
use crate::executor::Redeemed;

/// A workspace in a folder of its own, with a neighbour that nothing may touch.
struct Ground {
    dir: tempfile::TempDir,
    workspace: Workspace,
}

#[derive(Debug)]
struct Zeros;

impl Entropy for Zeros {
    fn fill(&self, _: &mut [u8]) {}
}

fn permit() -> Redeemed {
    let call = kazma_domain::CallId::new(jiff::Timestamp::UNIX_EPOCH, &Zeros);
    Redeemed::for_tests(call, Digest::of_bytes(b""))
}

impl Ground {
    fn new() -> Self {
        Self::with(Bounds::default())
    }

    fn with(bounds: Bounds) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        let at = Utf8PathBuf::from_path_buf(dir.path().join("work")).unwrap();
        let workspace = Workspace::open(&at, bounds).unwrap();
        Self { dir, workspace }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("work").join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.at(name), content).unwrap();
    }

    fn path(&self, text: &str) -> RelPath {
        RelPath::parse_file(text, self.workspace.at()).unwrap()
    }

    fn plan(&self, path: &str, content: &str) -> Result<PlannedWrite, Refused> {
        self.workspace
            .plan_write(self.path(path), content.to_owned())
    }

    fn write(&self, path: &str, content: &str) -> Result<(), WriteFailed> {
        self.plan(path, content)?.write(&permit())
    }

    fn read(&self, path: &str, window: Window) -> Result<Returned, String> {
        self.workspace
            .plan_read(&self.path(path), window)
            .map_err(|r| r.rule.to_owned())?
            .read(&permit())
    }

    fn bytes(&self, path: &str, offset: u64, limit: u64) -> Result<Returned, String> {
        self.read(path, Window::Bytes { offset, limit })
    }

    fn lines(&self, path: &str, first: u64, last: u64) -> Result<Returned, String> {
        self.read(path, Window::Lines { first, last })
    }

    fn list(&self, path: &str, pattern: Option<&str>) -> Result<Returned, String> {
        let path = RelPath::parse(path, self.workspace.at()).unwrap();
        let pattern = pattern.map(|p| Pattern::parse(p).unwrap());
        self.workspace
            .plan_list(&path, pattern)
            .map_err(|r| r.rule.to_owned())?
            .list(&permit())
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.at(""))
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Every kind of thing that is not a plain file of the workspace, with the rule that refuses it.
fn traps(ground: &Ground) -> Vec<(&'static str, &'static str)> {
    let secret = ground.dir.path().join("secret");
    symlink(&secret, ground.at("link")).unwrap();
    symlink("link", ground.at("link-to-link")).unwrap();
    symlink("/proc/self/exe", ground.at("magic")).unwrap();
    symlink("nowhere", ground.at("dangling")).unwrap();
    symlink(ground.dir.path(), ground.at("out")).unwrap();
    fs::create_dir(ground.at("folder")).unwrap();
    symlink("folder", ground.at("alias")).unwrap();
    fs::hard_link(&secret, ground.at("hard")).unwrap();
    let fifo = ground.at("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::from(0o600)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(ground.at("socket")).unwrap();
    vec![
        ("link", "path-symlink"),
        ("link-to-link", "path-symlink"),
        ("magic", "path-symlink"),
        ("dangling", "path-symlink"),
        ("out/secret", "path-symlink"),
        ("alias/new", "path-symlink"),
        ("hard", "path-hard-link"),
        ("fifo", "path-special"),
        ("socket", "path-special"),
        ("folder", "path-folder"),
    ]
}

#[test]
fn only_plain_files_of_the_workspace_are_read_or_written() {
    let ground = Ground::new();
    for (path, rule) in traps(&ground) {
        assert_eq!(ground.bytes(path, 0, 10).unwrap_err(), rule, "read {path}");
        assert_eq!(
            ground.plan(path, "x").unwrap_err().rule,
            rule,
            "write {path}"
        );
    }
    assert_eq!(ground.bytes("gone", 0, 1).unwrap_err(), "file-missing");
    ground.put("plain", "x");
    assert_eq!(
        ground.plan("plain/x", "x").unwrap_err().rule,
        "path-not-folder"
    );
    assert_eq!(
        fs::read_to_string(ground.dir.path().join("secret")).unwrap(),
        "secret"
    );
}

#[test]
fn a_device_is_refused_without_being_opened() {
    let ground = Ground::new();
    let device = rustix::fs::makedev(1, 3);
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        ground.at("null"),
        FileType::CharacterDevice,
        Mode::from(0o666),
        device,
    );
    // Only root may make one; as anyone else there is none to be refused.
    if made.is_ok() {
        assert_eq!(ground.bytes("null", 0, 1).unwrap_err(), "path-special");
        assert_eq!(ground.plan("null", "x").unwrap_err().rule, "path-special");
    }
}

#[test]
fn a_link_put_in_place_after_the_plan_is_not_written_through() {
    let ground = Ground::new();
    let secret = ground.dir.path().join("secret");
    ground.put("a.txt", "old");
    let planned = ground.plan("a.txt", "new").unwrap();
    fs::remove_file(ground.at("a.txt")).unwrap();
    symlink(&secret, ground.at("a.txt")).unwrap();
    assert!(matches!(
        planned.write(&permit()),
        Err(WriteFailed::Nothing(_))
    ));

    // A file that was not there: the link takes the place that the new file would take.
    let planned = ground.plan("b.txt", "new").unwrap();
    symlink(&secret, ground.at("b.txt")).unwrap();
    assert!(matches!(
        planned.write(&permit()),
        Err(WriteFailed::Nothing(_))
    ));

    // The folder is swapped for a link to the outside.
    fs::create_dir(ground.at("sub")).unwrap();
    let planned = ground.plan("sub/secret", "new").unwrap();
    fs::rename(ground.at("sub"), ground.at("moved")).unwrap();
    symlink(ground.dir.path(), ground.at("sub")).unwrap();
    assert!(matches!(
        planned.write(&permit()),
        Err(WriteFailed::Nothing(_))
    ));
    assert!(!ground.at("moved/secret").exists());

    // A folder that would have been made is a link by now.
    let planned = ground.plan("made/secret", "new").unwrap();
    symlink(ground.dir.path(), ground.at("made")).unwrap();
    assert!(matches!(
        planned.write(&permit()),
        Err(WriteFailed::Nothing(_))
    ));

    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
    assert!(!ground.names().iter().any(|n| n.starts_with(".kazma")));
}

#[test]
fn a_file_that_changed_after_the_plan_is_left_alone() {
    let ground = Ground::new();
    ground.put("a.txt", "old");
    let planned = ground.plan("a.txt", "new").unwrap();
    ground.put("a.txt", "theirs");
    let failed = planned.write(&permit()).unwrap_err();
    assert!(
        failed.to_string().contains("changed by somebody else"),
        "{failed}"
    );
    assert_eq!(fs::read_to_string(ground.at("a.txt")).unwrap(), "theirs");

    let planned = ground.plan("new.txt", "new").unwrap();
    ground.put("new.txt", "theirs");
    assert!(planned.write(&permit()).is_err());
    assert_eq!(fs::read_to_string(ground.at("new.txt")).unwrap(), "theirs");
    assert_eq!(ground.names(), ["a.txt", "new.txt"]);
}

#[test]
fn a_write_makes_its_folders_and_keeps_the_mode() {
    let ground = Ground::new();
    ground.write("a/b/c.txt", "one\n").unwrap();
    let made = fs::metadata(ground.at("a/b/c.txt")).unwrap();
    assert_eq!(made.mode() & 0o7777, 0o640);
    assert_eq!(made.gid(), fs::metadata(ground.at("")).unwrap().gid());
    assert_eq!(
        fs::metadata(ground.at("a/b")).unwrap().mode() & 0o777,
        0o750
    );

    ground.put("tool.sh", "old\n");
    fs::set_permissions(ground.at("tool.sh"), fs::Permissions::from_mode(0o4755)).unwrap();
    let planned = ground.plan("tool.sh", "new\n").unwrap();
    assert_eq!(planned.before, Some(Digest::of_bytes(b"old\n")));
    assert_eq!(planned.after, Digest::of_bytes(b"new\n"));
    planned.write(&permit()).unwrap();
    // The permissions stay; the bit that would lend the owner's rights does not.
    assert_eq!(
        fs::metadata(ground.at("tool.sh")).unwrap().mode() & 0o7777,
        0o755
    );
    assert_eq!(fs::read_to_string(ground.at("tool.sh")).unwrap(), "new\n");
}

#[test]
fn a_setgid_workspace_hands_its_bit_to_new_folders() {
    let ground = Ground::new();
    fs::set_permissions(ground.at(""), fs::Permissions::from_mode(0o2750)).unwrap();
    ground.write("a/x", "x").unwrap();
    assert_eq!(
        fs::metadata(ground.at("a")).unwrap().mode() & 0o7777,
        0o2750
    );
}

#[test]
fn exactly_the_named_bytes_are_written_under_exactly_the_named_name() {
    let ground = Ground::new();
    ground.write("run", "harmless").unwrap();
    ground.write("run ", "other\r\n\u{200b}é\n").unwrap();
    assert_eq!(fs::read_to_string(ground.at("run")).unwrap(), "harmless");
    assert_eq!(
        fs::read_to_string(ground.at("run ")).unwrap(),
        "other\r\n\u{200b}é\n"
    );
    let (one, other) = (
        ground.plan("run", "x").unwrap(),
        ground.plan("run", "x ").unwrap(),
    );
    assert_ne!(one.after, other.after);
}

#[test]
fn what_git_would_run_is_never_written() {
    let ground = Ground::new();
    fs::create_dir_all(ground.at("vendor/sub/.git/hooks")).unwrap();
    fs::create_dir_all(ground.at("bare.data/objects")).unwrap();
    fs::create_dir_all(ground.at("bare.data/refs")).unwrap();
    fs::create_dir_all(ground.at("bare.data/hooks")).unwrap();
    ground.put("bare.data/HEAD", "ref: refs/heads/main\n");
    for path in [
        ".git/config",
        "vendor/sub/.git/hooks/pre-commit",
        "vendor/sub/.GIT/config",
        "vendor/.git",
        "bare.data/config",
        "bare.data/hooks/pre-commit",
    ] {
        assert_eq!(
            ground.plan(path, "x").unwrap_err().rule,
            "path-git",
            "{path}"
        );
    }
    // Reading it is fine, and a checkout whose .git is a link is no obstacle to its other files.
    ground.put("vendor/sub/.git/config", "[core]\n");
    assert_eq!(
        ground.bytes("vendor/sub/.git/config", 0, 100).unwrap().text,
        "[core]\n"
    );
    symlink("vendor/sub/.git", ground.at(".git")).unwrap();
    ground.write("notes.txt", "x").unwrap();
    assert_eq!(
        ground.plan(".git/config", "x").unwrap_err().rule,
        "path-git"
    );
}

#[test]
fn no_write_completes_a_bare_repository() {
    let head = "ref: refs/heads/main\n";
    let parts = [
        ("r/HEAD", head),
        ("r/objects/info/alternates", "x"),
        ("r/refs/heads/x", "x"),
        ("r/config", "[core]\n\tfsmonitor = touch /tmp/x\n"),
    ];
    // In whatever order, the write that would complete it is refused, and every other one is not.
    for last in 0..3 {
        let ground = Ground::new();
        let (path, content) = parts[last];
        for (n, (path, content)) in parts.into_iter().enumerate() {
            if n != last {
                ground.write(path, content).unwrap();
            }
        }
        assert_eq!(ground.plan(path, content).unwrap_err().rule, "path-git");
        assert!(!is_repository(&ground.at("r")));
        // What git reads is a repository once the refused part is there: the refusal is what stops it.
        fs::create_dir_all(ground.at(path).parent().unwrap()).unwrap();
        ground.put(path, content);
        assert!(is_repository(&ground.at("r")), "{path}");
    }
    let ground = Ground::new();
    ground.write("w/HEAD", head).unwrap();
    assert_eq!(
        ground.plan("w/commondir", "../other").unwrap_err().rule,
        "path-git"
    );
    assert_eq!(ground.plan("w/notes", "x").map(|_| ()), Ok(()));
}

/// What git itself says.
#[expect(clippy::disallowed_methods, reason = "git itself is asked")]
fn is_repository(folder: &std::path::Path) -> bool {
    let asked = std::process::Command::new("git")
        .args(["rev-parse", "--is-bare-repository"])
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap())
        .output()
        .unwrap();
    asked.status.success()
}

#[test]
fn content_has_bounds() {
    let ground = Ground::with(Bounds {
        write_bytes: 10,
        ..Bounds::default()
    });
    assert_eq!(
        ground.plan("a", "12345678901").unwrap_err().rule,
        "content-too-big"
    );
    assert!(ground.plan("a", "1234567890").is_ok());
    assert_eq!(ground.plan("a", "a\0b").unwrap_err().rule, "content-binary");
    ground.put("big", "12345678901");
    assert_eq!(ground.plan("big", "x").unwrap_err().rule, "file-too-big");
    ground.put("bin", b"\xff\x00");
    assert!(
        ground
            .plan("bin", "x")
            .unwrap()
            .diff
            .contains("binary (2 bytes)")
    );
}

#[test]
fn a_window_of_bytes_never_splits_a_character() {
    let ground = Ground::new();
    ground.put("t", "aé€z");
    let whole = ground.bytes("t", 0, 100).unwrap();
    assert_eq!(
        (whole.text.as_str(), whole.truncated, whole.total_bytes),
        ("aé€z", false, 7)
    );
    assert_eq!(ground.bytes("t", 0, 2).unwrap().text, "a");
    assert_eq!(ground.bytes("t", 2, 4).unwrap().text, "€");
    assert_eq!(
        ground.bytes("t", 2, 4).unwrap().summary,
        "bytes 3 to 6 of 7"
    );
    assert_eq!(ground.bytes("t", 7, 4).unwrap().text, "");
    assert!(
        ground
            .bytes("t", 8, 4)
            .unwrap_err()
            .contains("behind the end")
    );
}

#[test]
fn a_window_of_lines_is_counted_from_one() {
    let ground = Ground::new();
    ground.put("t", "one\ntwo\nthree");
    assert_eq!(ground.lines("t", 1, 1).unwrap().text, "one\n");
    assert_eq!(ground.lines("t", 2, 9).unwrap().text, "two\nthree");
    assert_eq!(
        ground.lines("t", 2, 9).unwrap().summary,
        "lines 2 to 3, in 13 bytes"
    );
    assert!(ground.lines("t", 5, 9).unwrap_err().contains("3 lines"));
}

#[test]
fn what_is_cut_says_so_and_how_to_go_on() {
    let ground = Ground::with(Bounds {
        read_chars: 4,
        ..Bounds::default()
    });
    ground.put("t", "ééééé");
    let cut = ground.bytes("t", 0, 100).unwrap();
    assert!(cut.truncated);
    assert_eq!(
        cut.text,
        "éééé\n[cut here: 4 characters shown, the file has 10 bytes; read on with offset=8]"
    );
    assert_eq!(ground.bytes("t", 8, 100).unwrap().text, "é");
    ground.put("l", "ab\ncd\nef\n");
    let cut = ground.lines("l", 1, 3).unwrap();
    assert!(
        cut.text.starts_with("ab\nc\n[cut here") && cut.text.ends_with("start_line=2]"),
        "{}",
        cut.text
    );
    ground.put("exact", "abcd");
    assert!(!ground.bytes("exact", 0, 100).unwrap().truncated);
}

#[test]
fn binary_files_are_refused_not_replaced() {
    let ground = Ground::new();
    for bytes in [&b"\xff\xfe\x00a"[..], b"a\0b", b"abc\xe9", b"ab\xf0\x9f"] {
        ground.put("b", bytes);
        assert!(
            ground.bytes("b", 0, 100).unwrap_err().contains("binary"),
            "{bytes:?}"
        );
        assert!(
            ground.lines("b", 1, 5).unwrap_err().contains("binary"),
            "{bytes:?}"
        );
    }
}

#[test]
fn a_listing_is_sorted_typed_and_bounded() {
    let ground = Ground::with(Bounds {
        list_entries: 4,
        ..Bounds::default()
    });
    fs::create_dir_all(ground.at(".git")).unwrap();
    symlink("/etc", ground.at("link")).unwrap();
    ground.put("b\nc.txt", "12345");
    ground.put("a.csv", "1");
    assert_eq!(
        ground.list(".", None).unwrap().text,
        "folder        - .git/\n\
         file          1 a.csv\n\
         file          5 b\\nc.txt\n\
         link          - link (not followed)\n"
    );
    assert_eq!(
        ground.list(".", Some("*.csv")).unwrap().text,
        "file          1 a.csv\n"
    );
    assert_eq!(ground.list(".", Some("x*")).unwrap().text, "(nothing)\n");
    assert_eq!(ground.list("link", None).unwrap_err(), "path-symlink");
    assert_eq!(ground.list("a.csv", None).unwrap_err(), "path-not-folder");
    assert_eq!(ground.list("gone", None).unwrap_err(), "file-missing");
    for n in 0..10 {
        ground.put(&format!("z{n}"), "");
    }
    let cut = ground.list(".", None).unwrap();
    assert!(
        cut.truncated && cut.text.contains("[cut here: 4 of 14 entries shown"),
        "{}",
        cut.text
    );
    assert_eq!(cut.summary, "14 entries");
}

#[test]
fn a_workspace_that_is_not_there_does_not_open() {
    let ground = Ground::new();
    let at = Utf8PathBuf::from_path_buf(ground.at("gone")).unwrap();
    assert!(matches!(
        Workspace::open(&at, Bounds::default()),
        Err(OpenError::Folder { .. })
    ));
}

/// As under `kazma up` as root, where the workspace's group is the sandboxes' and not the runner's.
#[test]
fn a_new_folder_hands_the_workspaces_group_on_though_the_runner_is_not_in_it() {
    use rustix::{
        fs::{Gid, Uid},
        thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
    };

    // An ordinary user has no group to give away, so nothing can go wrong there.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (runner, group) = (Uid::from_raw(61102), Gid::from_raw(65534));
    let mut ground = Ground::new();
    rustix::fs::chown(ground.at(""), Some(runner), Some(group)).unwrap();
    fs::set_permissions(ground.at(""), fs::Permissions::from_mode(0o2750)).unwrap();
    ground.workspace = Workspace::open(ground.workspace.at(), Bounds::default()).unwrap();
    // Linux keeps these for each thread.
    let written = std::thread::scope(|scope| {
        let as_runner = scope.spawn(|| {
            let own = Gid::from_raw(61102);
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(own, own, own).unwrap();
            set_thread_res_uid(runner, runner, runner).unwrap();
            ground.write("deep/er/new.txt", "new")
        });
        as_runner.join().unwrap()
    });
    assert_eq!(written, Ok(()));
    for (name, mode) in [
        ("deep", 0o2750),
        ("deep/er", 0o2750),
        ("deep/er/new.txt", 0o640),
    ] {
        let meta = fs::metadata(ground.at(name)).unwrap();
        assert_eq!((meta.gid(), meta.mode() & 0o7777), (65534, mode), "{name}");
    }
}

#[test]
fn two_names_for_one_file_mean_one_path() {
    let ground = Ground::new();
    ground.put("a.txt", "x");
    let absolute = format!("{}/./a.txt", ground.workspace.at());
    assert_eq!(ground.path(&absolute), ground.path("a.txt"));
    let neighbour = format!("{}-evil/a.txt", ground.workspace.at());
    assert_eq!(
        RelPath::parse_file(&neighbour, ground.workspace.at())
            .unwrap_err()
            .rule,
        "path-outside"
    );
}

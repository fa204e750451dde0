//! `shell_exec` as a person sees it: everyday commands that run after a card, and traps that do not.

use std::{fs, os::unix::fs::symlink, process::Stdio};

use camino::Utf8Path;
use kazma_testkit::{Api, Kit};
use serde_json::Value;

use crate::stack::command;

/// A small project with a repository in it.
fn project(at: &Utf8Path) {
    for (path, content) in [
        ("notes.txt", "pears\napples\npears\n"),
        ("data.json", "{\"name\": \"kazma\", \"n\": [1, 2, 3]}\n"),
        ("readme.md", "# Hello\n"),
        ("src/app.py", "# TODO: more\nprint(1)\n"),
    ] {
        let path = at.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    run(at, "git", &["init", "-q", "-b", "main"]);
    run(at, "git", &["config", "user.name", "Ada"]);
    run(at, "git", &["config", "user.email", "ada@example.org"]);
    run(at, "git", &["add", "."]);
    run(at, "git", &["commit", "-q", "-m", "first"]);
    run(at, "tar", &["-cf", "all.tar", "notes.txt", "src"]);
    give(at);
}

/// As an installation has it: all of the workspace belongs to who owns the workspace.
fn give(at: &Utf8Path) {
    use std::os::unix::fs::MetadataExt;
    let owner = fs::metadata(at).unwrap();
    let owner = format!("{}:{}", owner.uid(), owner.gid());
    run(at, "chown", &["-Rh", &owner, "."]);
}

fn run(at: &Utf8Path, program: &str, arguments: &[&str]) {
    let status = command(program)
        .args(arguments)
        .current_dir(at)
        .env("HOME", "/nonexistent")
        // The workspace is another user's where root runs the tests.
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// Asks for a command, approves its card, and gives the card and the reply.
async fn approved(api: &Api, line: &str) -> (Value, String) {
    let thread = api.say(&format!("run shell: {line}")).await.unwrap();
    let card = api.card(&thread).await.unwrap();
    assert_eq!(card["args"]["command"], line);
    assert_eq!(api.decide(&card, "approve").await.unwrap().status, 200);
    let (state, reply) = api.ended(&thread).await.unwrap();
    assert_eq!(state, "done", "{line}: {reply}");
    (card, reply)
}

/// Asks for a command that is refused before anybody is asked, and gives the reply.
async fn refused(api: &Api, line: &str) -> String {
    let thread = api.say(&format!("run shell: {line}")).await.unwrap();
    let (state, reply) = api.ended(&thread).await.unwrap();
    assert_eq!(state, "done", "{line}: {reply}");
    let view = api.thread(&thread).await.unwrap();
    assert_eq!(view["gates"].as_array().map(Vec::len), Some(0), "{line}");
    assert_eq!(view["calls"][0]["state"], "denied", "{line}");
    reply
}

fn words(card: &Value, field: &str) -> Vec<String> {
    let words = card["plan"]["action"][field].as_array().unwrap();
    words
        .iter()
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn everyday_commands_run_as_they_stand_on_the_card() {
    let kit = Kit::start().await.unwrap();
    let at = kit.workspace().unwrap();
    project(&at);
    fs::write(at.join("readme.md"), "# Hello again\n").unwrap();
    let api = kit.api().unwrap();
    for (line, seen) in [
        ("git status", "modified:   readme.md"),
        ("git log -p", "+apples"),
        ("git diff", "+# Hello again"),
        ("ls -la", "notes.txt"),
        ("grep -rn TODO src", "src/app.py:1:# TODO: more"),
        ("find . -name '*.md'", "./readme.md"),
        ("tar -tf all.tar", "src/app.py"),
        ("wc -l notes.txt", "3 notes.txt"),
        ("head -n 1 notes.txt", "pears"),
        ("jq '.n | add' data.json", "6"),
        ("sort -u notes.txt", "apples\npears"),
        ("cut -c1-3 notes.txt", "pea\napp\npea"),
    ] {
        let (card, reply) = approved(&api, line).await;
        assert!(reply.contains(seen), "{line}: {reply}");
        assert!(reply.contains("exit 0"), "{line}: {reply}");
        let argv = words(&card, "argv");
        let program = line.split(' ').next().unwrap();
        assert_eq!(argv[0], format!("/usr/bin/{program}"));
        assert_eq!(card["plan"]["action"]["sandbox"]["workspace"], "read-only");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_wrote_is_the_tools_own() {
    let kit = Kit::start().await.unwrap();
    let at = kit.workspace().unwrap();
    project(&at);
    let api = kit.api().unwrap();
    let (card, _) = approved(&api, "mkdir out").await;
    assert_eq!(card["plan"]["action"]["sandbox"]["workspace"], "writable");
    let headline = card["headline"].as_str().unwrap();
    assert!(headline.contains("workspace writable"), "{headline}");
    approved(&api, "cp notes.txt out/copy.txt").await;
    approved(&api, "tar -xf all.tar -C out").await;
    assert!(at.join("out/src/app.py").exists());
    // What was made can be read, changed and moved by every other tool.
    let thread = api.say("write out/copy.txt: mine").await.unwrap();
    let card = api.card(&thread).await.unwrap();
    api.decide(&card, "approve").await.unwrap();
    api.ended(&thread).await.unwrap();
    let (_, reply) = approved(&api, "cat out/copy.txt").await;
    assert!(reply.contains("mine"), "{reply}");
    approved(&api, "mv out/copy.txt moved.txt").await;
    // A commit writes into the repository and nowhere else.
    let (card, reply) = approved(&api, "git add moved.txt").await;
    assert_eq!(words(&card, "writable"), [".git"], "{reply}");
    approved(&api, "git commit -m 'a second one'").await;
    let (_, reply) = approved(&api, "git log --oneline").await;
    assert!(reply.contains("a second one"), "{reply}");
    let thread = api.say("read moved.txt").await.unwrap();
    let (_, reply) = api.ended(&thread).await.unwrap();
    assert!(reply.contains("mine"), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn traps_are_refused_with_the_reason_and_without_a_card() {
    let kit = Kit::start().await.unwrap();
    let at = kit.workspace().unwrap();
    project(&at);
    fs::write(at.join("ls"), "#!/bin/sh\ntouch pwned\n").unwrap();
    symlink("/etc/hostname", at.join("link")).unwrap();
    let api = kit.api().unwrap();
    for (line, why) in [
        ("rm -rf /", "catastrophic"),
        ("ls | sh", "shell"),
        ("cat /etc/passwd", "out of the workspace"),
        ("cat link", "out of the workspace"),
        (
            "git -c core.pager='touch pwned' log",
            "settings can name programs",
        ),
        ("find . -exec touch pwned {} +", "-exec"),
        ("tar -xf all.tar --to-command=./ls", "--to-command"),
        ("sort -o pwned notes.txt", "-o"),
        ("./ls", "bare name"),
        ("curl https://example.org", "network"),
        ("git push origin main", "push"),
        ("python3 -c 'print(1)'", "python_exec"),
    ] {
        let reply = refused(&api, line).await;
        assert!(reply.contains(why), "{line}: {reply}");
    }
    assert!(!at.join("pwned").exists());
}

/// What the repository's own settings would run does not run, and the command still works.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_repository_would_run_does_not_run() {
    let kit = Kit::start().await.unwrap();
    let at = kit.workspace().unwrap();
    project(&at);
    fs::write(at.join("notes.txt"), "plums\n").unwrap();
    fs::write(
        at.join("evil"),
        format!("#!/bin/sh\ntouch {at}/pwned\ncat\n"),
    )
    .unwrap();
    run(&at, "chmod", &["755", "evil"]);
    fs::write(at.join(".gitattributes"), "*.txt diff=x\n").unwrap();
    for key in [
        "core.fsmonitor",
        "core.pager",
        "diff.external",
        "diff.x.textconv",
        "diff.x.command",
        "core.editor",
    ] {
        run(&at, "git", &["config", key, &format!("{at}/evil")]);
    }
    for hook in ["pre-commit", "post-index-change", "reference-transaction"] {
        fs::create_dir_all(at.join(".git/hooks")).unwrap();
        fs::copy(at.join("evil"), at.join(".git/hooks").join(hook)).unwrap();
    }
    give(&at);
    let _ = fs::remove_file(at.join("pwned"));
    let api = kit.api().unwrap();
    for (line, seen) in [
        ("git status", "notes.txt"),
        ("git diff", "+plums"),
        ("git log -p", "+apples"),
        ("git stash", "Saved"),
        ("git stash pop", "Dropped"),
        ("git commit -a -m plums", "plums"),
    ] {
        let (_, reply) = approved(&api, line).await;
        assert!(reply.contains(seen), "{line}: {reply}");
        assert!(!at.join("pwned").exists(), "{line}: {reply}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_since_the_card_does_not_run() {
    let mut kit = Kit::start().await.unwrap();
    let at = kit.workspace().unwrap();
    project(&at);
    let api = kit.api().unwrap();
    let thread = api.say("run shell: cat notes.txt").await.unwrap();
    let card = api.card(&thread).await.unwrap();
    kit.stop_service(kazma_domain::Service::RunnerApi)
        .await
        .unwrap();
    assert_eq!(api.decide(&card, "approve").await.unwrap().status, 200);
    fs::remove_file(at.join("notes.txt")).unwrap();
    symlink("/etc/hostname", at.join("notes.txt")).unwrap();
    kit.start_service(kazma_domain::Service::RunnerApi)
        .await
        .unwrap();
    let (_, reply) = api.ended(&thread).await.unwrap();
    assert!(reply.contains("out of the workspace"), "{reply}");
}

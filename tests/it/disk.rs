//! A disk that is full, and one that no longer takes what it is given: nothing is said to be kept that is not.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    crash::{Wish, Witness, ended, judge},
    stack::{PATIENCE, Setup, Stack, command, until},
};

/// A file system of its own in a file, mounted over a loop device.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn new(megabytes: u32) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("kazma-disk-")
            .tempdir_in("/tmp")
            .unwrap();
        let disk = Self { folder };
        let (image, mount) = (disk.at("image"), disk.mount());
        fs::create_dir(&mount).unwrap();
        File::create(&image)
            .unwrap()
            .set_len(u64::from(megabytes) << 20)
            .unwrap();
        let image = image.to_str().unwrap();
        run("mkfs.ext4", &["-q", "-F", "-m", "0", image]);
        run("mount", &["-o", "loop", image, mount.to_str().unwrap()]);
        fs::set_permissions(disk.folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
        disk
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn mount(&self) -> PathBuf {
        self.at("mount")
    }

    /// Takes all the room there is.
    fn fill(&self) -> PathBuf {
        let filler = self.mount().join("filler");
        let mut file = File::create(&filler).unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![7; size]).is_ok() {}
        }
        let _ = file.sync_all();
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let mount = self.mount();
        let _ = command("umount").arg("--lazy").arg(mount).status();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    let output = command(program)
        .args(arguments)
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
}

/// Asks for a file in a thread of its own, up to the card.
async fn asked(stack: &Stack, file: &str) -> (Wish, Value) {
    let thread = stack
        .api
        .say(&format!("write {file}: {file}"))
        .await
        .unwrap();
    let card = stack.api.card(&thread).await.unwrap();
    let wish = Wish {
        thread,
        file: file.to_owned(),
        answered: None,
    };
    (wish, card)
}

/// Approves until the answer is a decision, and notes it.
async fn approved(stack: &Stack, wish: &mut Wish, card: &Value) {
    let path = format!("/api/gates/{}/decision", card["gate_id"].as_str().unwrap());
    let body = json!({"decision": "approve", "args_digest": card["args_digest"]});
    loop {
        match stack.fresh_api().post(&path, &body).await {
            Ok(answer) if answer.status == 200 => break,
            Ok(answer) if answer.status < 500 => panic!("{answer:?}"),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    wish.answered = Some("approve");
}

/// The thread once its turn has ended.
async fn end(stack: &Stack, wish: &Wish) -> Value {
    let waiting = async {
        loop {
            match stack.fresh_api().thread(&wish.thread).await {
                Ok(view) if ended(&view) => break view,
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(2 * PATIENCE, waiting).await.unwrap()
}

pub(crate) fn effects(seen: &std::collections::BTreeMap<String, u32>, wish: &Wish) -> u32 {
    seen.get(&wish.file).copied().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_nothing_is_acknowledged_and_afterwards_nothing_is_lost() {
    let disk = SmallDisk::new(40);
    let mut stack = Stack::start_as(Setup {
        inside: disk.mount(),
        ..Setup::usual()
    });
    let witness = Witness::on(&stack.folder().join("workspace"));
    let (mut before, card) = asked(&stack, "before.txt").await;
    approved(&stack, &mut before, &card).await;
    end(&stack, &before).await;
    let (mut waiting, card) = asked(&stack, "waiting.txt").await;

    let filler = disk.fill();
    // Small things may still find room in what the files already hold; a large one does not.
    let large = "x".repeat(60 * 1024);
    let mut refused = None;
    for n in 0..200 {
        let thread = &waiting.thread;
        let words = json!({"text": format!("{n} {large}")});
        let said = stack
            .api
            .post(&format!("/api/threads/{thread}/messages"), &words)
            .await
            .unwrap();
        if said.status >= 500 {
            refused = Some(said);
            break;
        }
    }
    let refused = refused.expect("a full disk took everything");
    let kind = refused.body["type"].as_str().unwrap_or_default().to_owned();
    let told = refused.body.to_string();
    assert!(told.contains("disk is full"), "{told}");
    assert!(
        (503..=507).contains(&refused.status),
        "{} {kind}",
        refused.status
    );
    // Nobody dies of it, and reading goes on.
    assert!(
        stack.services().values().all(Option::is_some),
        "{}",
        stack.log()
    );
    stack.api.thread(&before.thread).await.unwrap();

    // A full stop and a new start on the full disk neither loses the card nor runs it.
    let processes = stack.processes();
    processes.iter().for_each(crate::stack::Process::kill);
    stack.ended(PATIENCE).await;
    stack.until_dead(&processes).await;
    fs::remove_file(filler).unwrap();
    stack.start_again();
    approved(&stack, &mut waiting, &card).await;
    let seen_before = end(&stack, &before).await;
    let (mut after, card) = asked(&stack, "after.txt").await;
    approved(&stack, &mut after, &card).await;
    let views = [
        seen_before,
        end(&stack, &waiting).await,
        end(&stack, &after).await,
    ];
    let seen = witness.seen();
    for (wish, view) in [before, waiting, after].iter().zip(views) {
        let verdict = judge(wish, &view, effects(&seen, wish));
        assert_eq!(verdict, Ok("ran"), "{}", wish.file);
    }
    stack.end().await;
}

/// Builds a library to be preloaded.
pub(crate) fn compiled(folder: &Path, name: &str, code: &str) -> PathBuf {
    let (source, library) = (
        folder.join(name).with_extension("c"),
        folder.join(name).with_extension("so"),
    );
    fs::write(&source, code).unwrap();
    let (from, to) = (source.to_str().unwrap(), library.to_str().unwrap());
    run("cc", &["-shared", "-fPIC", "-O1", "-o", to, from, "-ldl"]);
    library
}

/// The library that makes syncs fail while a file is there.
fn shim(folder: &Path) -> PathBuf {
    let code = format!(
        r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <unistd.h>
        static int broken(void) {{ return access("{0}/syncs-fail", F_OK) == 0; }}
        typedef int (*call)(int);
        int fsync(int fd) {{
            if (broken()) {{ errno = EIO; return -1; }}
            return ((call)dlsym(RTLD_NEXT, "fsync"))(fd);
        }}
        int fdatasync(int fd) {{
            if (broken()) {{ errno = EIO; return -1; }}
            return ((call)dlsym(RTLD_NEXT, "fdatasync"))(fd);
        }}
        "#,
        folder.display()
    );
    compiled(folder, "sync", &code)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_ends_the_process_and_acknowledges_nothing() {
    let faults = tempfile::Builder::new()
        .prefix("kazma-faults-")
        .tempdir_in("/tmp")
        .unwrap();
    fs::set_permissions(faults.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut setup = Setup::faulty(faults.path());
    let library = shim(faults.path()).to_str().unwrap().to_owned();
    setup.environment.push(("LD_PRELOAD".to_owned(), library));
    let mut stack = Stack::start_as(setup);
    let witness = Witness::on(&stack.folder().join("workspace"));
    let (mut wish, card) = asked(&stack, "synced.txt").await;
    let registry = stack.service("gate-registry");

    let broken = faults.path().join("syncs-fail");
    fs::write(&broken, b"").unwrap();
    let path = format!("/api/gates/{}/decision", card["gate_id"].as_str().unwrap());
    let body = json!({"decision": "approve", "args_digest": card["args_digest"]});
    let answer = stack.fresh_api().post(&path, &body).await;
    assert!(
        !matches!(&answer, Ok(answer) if answer.status == 200),
        "{answer:?}"
    );
    // What the page cache says is not to be trusted any more: the process ends, and another looks at the disk.
    until(PATIENCE, || !registry.lives()).await.unwrap();
    assert!(
        stack.log().contains("could not be made durable"),
        "{}",
        stack.log()
    );

    fs::remove_file(&broken).unwrap();
    approved(&stack, &mut wish, &card).await;
    let view = end(&stack, &wish).await;
    assert_eq!(
        judge(&wish, &view, effects(&witness.seen(), &wish)),
        Ok("ran")
    );
    stack.end().await;
    stack.start_again();
    let audit = stack.command(&["audit", "verify"]);
    assert!(audit.status.success(), "{audit:?}");
}

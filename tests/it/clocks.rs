//! Clocks that do not agree: a library preloaded into every service moves the clock of the one that a test
//! names, while it runs.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    crash::{Wish, Witness, ended, judge},
    disk::{compiled, effects},
    stack::{PATIENCE, Setup, Stack, command, until},
};

pub(crate) const HOUR: i64 = 3600;

/// Adds the seconds in `clock-SERVICE`, else those in `clock`, to the time that a service reads.
fn shim(folder: &Path) -> PathBuf {
    let code = format!(
        r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <fcntl.h>
        #include <stdlib.h>
        #include <string.h>
        #include <stdio.h>
        #include <time.h>
        #include <unistd.h>
        static char name[64];
        static long number(const char *path) {{
            char text[32] = {{0}};
            int fd = open(path, O_RDONLY | O_CLOEXEC);
            if (fd < 0) return 0;
            if (read(fd, text, sizeof text - 1) < 0) text[0] = 0;
            close(fd);
            return atol(text);
        }}
        static void who(void) {{
            char line[256] = {{0}};
            int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
            if (fd < 0) return;
            long length = read(fd, line, sizeof line - 1);
            close(fd);
            /* kazma, service, NAME */
            int word = 0;
            for (long at = 0; at < length; at += strlen(line + at) + 1)
                if (word++ == 2) strncpy(name, line + at, sizeof name - 1);
            if (!name[0]) strcpy(name, "supervisor");
        }}
        int clock_gettime(clockid_t clock, struct timespec *at) {{
            static int (*real)(clockid_t, struct timespec *);
            if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
            int done = real(clock, at);
            if (clock == CLOCK_REALTIME && done == 0) {{
                if (!name[0]) who();
                char path[256];
                snprintf(path, sizeof path, "{0}/clock-%s", name);
                at->tv_sec += number(path);
                at->tv_sec += number("{0}/clock");
            }}
            return done;
        }}
        "#,
        folder.display()
    );
    compiled(folder, "clock", &code)
}

/// A stack whose clocks a test moves.
pub(crate) struct Clocks {
    pub(crate) stack: Stack,
    witness: Witness,
    folder: tempfile::TempDir,
}

impl Clocks {
    pub(crate) fn start() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("kazma-faults-")
            .tempdir_in("/tmp")
            .unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let mut setup = Setup::faulty(folder.path());
        let library = shim(folder.path()).to_str().unwrap().to_owned();
        setup
            .environment
            .push(("LD_PRELOAD".to_owned(), library.clone()));
        let stack = Stack::start_as(setup);
        // It does what it is for, and every service has it.
        fs::write(folder.path().join("clock-supervisor"), "7200").unwrap();
        let told = command("date")
            .arg("+%s")
            .env("LD_PRELOAD", &library)
            .output()
            .unwrap();
        let told: i64 = String::from_utf8(told.stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let off = told - kazma_domain::Clock::now(&kazma_runtime::SystemClock).as_second();
        assert!((7100..7300).contains(&off), "{off}");
        for (name, process) in stack.services() {
            let maps = fs::read_to_string(format!("/proc/{}/maps", process.unwrap().pid)).unwrap();
            assert!(maps.contains(&library), "{name}");
        }
        let witness = Witness::on(&stack.folder().join("workspace"));
        Self {
            stack,
            witness,
            folder,
        }
    }

    /// Moves the clock of one service, or of all.
    pub(crate) fn turn(&self, service: Option<&str>, seconds: i64) {
        let name = service.map_or_else(|| "clock".to_owned(), |name| format!("clock-{name}"));
        let (new, place) = (
            self.folder.path().join("new"),
            self.folder.path().join(name),
        );
        fs::write(&new, seconds.to_string()).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644)).unwrap();
        fs::rename(new, place).unwrap();
    }

    pub(crate) async fn ask(&self, file: &str) -> (Wish, serde_json::Value) {
        let api = self.stack.fresh_api();
        let asking = async {
            loop {
                if let Ok(thread) = api.say(&format!("write {file}: {file}")).await {
                    break thread;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let thread = tokio::time::timeout(2 * PATIENCE, asking).await.unwrap();
        let card = api.card(&thread).await.unwrap();
        let wish = Wish {
            thread,
            file: file.to_owned(),
            answered: None,
        };
        (wish, card)
    }

    pub(crate) async fn approve(&self, mut wish: Wish, card: &serde_json::Value) {
        let api = self.stack.fresh_api();
        assert_eq!(api.decide(card, "approve").await.unwrap().status, 200);
        wish.answered = Some("approve");
        let ending = async {
            loop {
                match api.thread(&wish.thread).await {
                    Ok(view) if ended(&view) => break view,
                    _ => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        let view = tokio::time::timeout(2 * PATIENCE, ending).await.unwrap();
        let seen = self.witness.seen();
        assert_eq!(
            judge(&wish, &view, effects(&seen, &wish)),
            Ok("ran"),
            "{view:#}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_between_services_stops_no_call() {
    let mut clocks = Clocks::start();
    for service in ["gateway", "agent", "runner-api", "gate-registry"] {
        for hours in [1, -1] {
            let (waiting, card) = clocks.ask(&format!("{service}{hours}-waits.txt")).await;
            clocks.turn(Some(service), hours * HOUR);
            // What waited runs, and so does what is asked for now, also after everybody met anew.
            clocks.approve(waiting, &card).await;
            let (wish, card) = clocks.ask(&format!("{service}{hours}-new.txt")).await;
            clocks.approve(wish, &card).await;
            clocks.stack.service(service).kill();
            until(PATIENCE, || {
                clocks.stack.services().values().all(Option::is_some)
            })
            .await
            .unwrap();
            let (wish, card) = clocks.ask(&format!("{service}{hours}-anew.txt")).await;
            clocks.approve(wish, &card).await;
            clocks.turn(Some(service), 0);
        }
    }
    clocks.stack.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_expire_while_a_call_waits_are_renewed() {
    let mut clocks = Clocks::start();
    let (waiting, card) = clocks.ask("waits.txt").await;
    // A machine that slept for most of the card's day, and for a whole certificate's.
    clocks.turn(None, 23 * HOUR + 1800);
    clocks.approve(waiting, &card).await;
    clocks.turn(None, 26 * HOUR);
    for name in ["agent", "runner-api", "gateway", "gate-registry"] {
        clocks.stack.service(name).kill();
    }
    until(PATIENCE, || {
        clocks.stack.services().values().all(Option::is_some)
    })
    .await
    .unwrap();
    let (wish, card) = clocks.ask("renewed.txt").await;
    clocks.approve(wish, &card).await;
    clocks.stack.end().await;
}

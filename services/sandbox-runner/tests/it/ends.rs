//! How runs end, and what is said of it.

use std::time::Duration;

use kazma_sandbox_runner::broker::{EnforcedBy, Outcome};

use crate::house::{House, marked, text};

async fn outcome(house: &House, code: &str) -> Outcome {
    house.run(code).await.finished.outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sum_of_the_first_ten_numbers_is_45() {
    let house = House::open().await;
    let run = house.run("print(sum(range(10)))").await;
    assert_eq!(text(&run.stdout), "45\n", "{}", text(&run.stderr));
    assert_eq!(run.finished.outcome, Outcome::Exited { code: 0 });
    assert_eq!(run.finished.totals.stdout_bytes, 3);
    assert!(!run.finished.totals.truncated);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_are_those_of_a_script() {
    let house = House::open().await;
    for (code, expected) in [
        ("raise SystemExit(3)", 3),
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit('sorry')", 1),
        ("import os; os._exit(9)", 9),
        (
            "import threading; threading.Thread(target=lambda: 1/0).start()",
            0,
        ),
        ("1/0", 1),
        ("def f(:", 1),
        ("pass", 0),
    ] {
        assert_eq!(
            outcome(&house, code).await,
            Outcome::Exited { code: expected },
            "{code}"
        );
    }
    let killed = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)";
    assert_eq!(
        outcome(&house, killed).await,
        Outcome::Signalled { signal: 15 }
    );
    let interrupted = "raise KeyboardInterrupt";
    assert_eq!(
        outcome(&house, interrupted).await,
        Outcome::Signalled { signal: 2 }
    );
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_traceback_shows_the_snippet_and_nothing_of_ours() {
    let house = House::open().await;
    let run = house
        .run("def inner():\n    return {}['key']\n\ninner()\n")
        .await;
    let expected = "Traceback (most recent call last):\n  \
        File \"<sandbox>\", line 4, in <module>\n    inner()\n  \
        File \"<sandbox>\", line 2, in inner\n    return {}['key']\n";
    let stderr = text(&run.stderr);
    assert!(stderr.starts_with(expected), "{stderr}");
    assert!(stderr.ends_with("KeyError: 'key'\n"), "{stderr}");
    let wrong = house.run("x = (\n").await;
    assert!(
        text(&wrong.stderr).starts_with("  File \"<sandbox>\", line 1"),
        "{wrong:?}"
    );
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_runs_whatever_encoding_it_names() {
    let house = House::open().await;
    for (code, printed) in [
        ("# coding: latin-1\nprint(len('é€'))", "2\n"),
        (
            "# coding: unicode_escape\n#\\u000aprint('hidden')\nprint('seen')",
            "seen\n",
        ),
        ("# coding: no_such\nprint(__doc__)", "None\n"),
        ("\u{feff}print('marked')", "marked\n"),
    ] {
        let run = house.run(code).await;
        assert_eq!(text(&run.stdout), printed, "{}", text(&run.stderr));
    }
    let wrong = house.run("\u{feff}# coding: utf-16\n1/0").await;
    let stderr = text(&wrong.stderr);
    assert!(
        stderr.contains("line 2, in <module>\n    1/0\n"),
        "{stderr}"
    );
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_snippet_is_the_main_module() {
    let house = House::open().await;
    let code = "import sys, json\n\
        class Here: pass\n\
        print(__name__, Here.__module__, sys.modules['__main__'].Here is Here, sys.argv, sys.stdin.read() == '')\n\
        print(sorted(n for n in globals() if not n.startswith('__')))";
    let run = house.run(code).await;
    assert_eq!(
        text(&run.stdout),
        "__main__ __main__ True ['<sandbox>'] True\n['Here', 'json', 'sys']\n",
        "{}",
        text(&run.stderr)
    );
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_cut_counted_and_cannot_wedge_anything() {
    let house = House::open().await;
    let code = "import sys\nfor _ in range(50): sys.stdout.write('x' * 1_000_000)\nsys.stdout.flush()\n1/0";
    let run = house.run(code).await;
    assert_eq!(run.finished.outcome, Outcome::Exited { code: 1 });
    let totals = &run.finished.totals;
    assert_eq!(totals.stdout_bytes, 50_000_000);
    assert!(totals.truncated);
    assert_eq!(
        totals.kept_bytes,
        (run.stdout.len() + run.stderr.len()) as u64
    );
    assert!(totals.kept_bytes <= 256 * 1024);
    // The reader still learns why it failed.
    assert!(text(&run.stderr).contains("ZeroDivisionError"));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_that_never_ends_is_killed_on_time() {
    let house = House::open().await;
    let limit = Duration::from_millis(700);
    let run = house
        .run_with("while True: print('y' * 4000)", |spec| spec.timeout = limit)
        .await;
    assert_eq!(run.finished.outcome, Outcome::TimedOut { after: limit });
    assert!(run.finished.totals.elapsed >= limit);
    assert!(run.finished.totals.truncated);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_out_leaves_no_process_behind() {
    let house = House::open().await;
    let marker = marked();
    // Two forks and a new session: nobody's child, nobody's group, deaf to polite signals, and busy.
    let code = format!(
        "import os, signal, sys, time\n\
        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
        for _ in range(5):\n\
        \x20   if os.fork() == 0:\n\
        \x20       os.setsid()\n\
        \x20       if os.fork() == 0:\n\
        \x20           os.execv('/usr/bin/python3', ['/usr/bin/python3', '-c', 'while True: pass', '{marker}'])\n\
        \x20       os._exit(0)\n\
        print('started', flush=True)\n\
        time.sleep(1000)"
    );
    let limit = Duration::from_secs(2);
    let run = house.run_with(&code, |spec| spec.timeout = limit).await;
    assert_eq!(text(&run.stdout), "started\n");
    assert_eq!(run.finished.outcome, Outcome::TimedOut { after: limit });
    assert_eq!(crate::house::processes_with(&marker), 0);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_die_with_the_snippet() {
    let house = House::open().await;
    let marker = marked();
    let code = format!(
        "import os, time\n\
        ready, told = os.pipe()\n\
        if os.fork() == 0:\n\
        \x20   os.setsid()\n\
        \x20   if os.fork() == 0:\n\
        \x20       os.set_inheritable(told, True)\n\
        \x20       os.execv('/bin/sh', ['/bin/sh', '-c', 'echo >&' + str(told) + '; while :; do :; done', '{marker}'])\n\
        \x20   os._exit(0)\n\
        os.read(ready, 1)\n\
        print('left one behind')"
    );
    let run = house.run(&code).await;
    assert_eq!(run.finished.outcome, Outcome::Exited { code: 0 }, "{run:?}");
    assert_eq!(crate::house::processes_with(&marker), 0);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_bomb_is_stopped_and_named() {
    let house = House::open().await;
    let held = house.client.status().await.unwrap().enforcement.memory;
    let run = house
        .run("hoard = []\nwhile True: hoard.append(bytearray(8 << 20))")
        .await;
    let totals = &run.finished.totals;
    if held == EnforcedBy::Rlimit {
        assert_eq!(run.finished.outcome, Outcome::Exited { code: 1 });
        assert!(totals.memory_error_seen);
        assert_eq!(totals.peak_memory_bytes, None);
    } else {
        assert!(
            matches!(run.finished.outcome, Outcome::OutOfMemory { .. }),
            "{run:?}"
        );
        assert!(totals.oom_kills.unwrap() >= 1);
        assert!(totals.peak_memory_bytes.unwrap() > 256 << 20);
    }
    // The next one is well.
    assert_eq!(outcome(&house, "pass").await, Outcome::Exited { code: 0 });
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_cgroups_memory_is_limited_per_process_and_the_card_says_so() {
    let house = House::with(|o| o.cgroups = kazma_sandbox_runner::jail::CgroupChoice::Off).await;
    let status = house.client.status().await.unwrap();
    assert!(
        status
            .enforcement
            .summary
            .contains("memory limited per process only")
    );
    let run = house.run("x = bytearray(600 << 20)").await;
    assert_eq!(run.finished.outcome, Outcome::Exited { code: 1 });
    assert!(
        run.finished.totals.memory_error_seen,
        "{}",
        text(&run.stderr)
    );
    assert_eq!(run.finished.totals.oom_kills, None);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_is_killed_for_memory_does_not_make_its_parent_a_failure() {
    let house = House::open().await;
    if house.client.status().await.unwrap().enforcement.memory == EnforcedBy::Rlimit {
        // Nobody counts here; the test above covers this machine.
        return house.close().await;
    }
    let code = "import os\n\
        pid = os.fork()\n\
        if pid == 0:\n\
        \x20   hoard = []\n\
        \x20   while True: hoard.append(bytearray(8 << 20))\n\
        print(os.waitpid(pid, 0)[1])";
    let run = house.run(code).await;
    assert_eq!(text(&run.stdout), "9\n");
    assert_eq!(run.finished.outcome, Outcome::Exited { code: 0 });
    assert!(run.finished.totals.oom_kills.unwrap() >= 1);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_stays_in_its_jail() {
    let house = House::open().await;
    let code = "import os, signal\n\
        made = 0\n\
        try:\n\
        \x20   while made < 1000:\n\
        \x20       if os.fork() == 0:\n\
        \x20           while True: signal.pause()\n\
        \x20       made += 1\n\
        except OSError as error:\n\
        \x20   print(made, error.errno)";
    let run = house.run(code).await;
    let (made, errno) = text(&run.stdout).trim().split_once(' ').unwrap();
    assert!(made.parse::<u32>().unwrap() < 64, "{run:?}");
    assert_eq!(errno, "11");
    if house.client.status().await.unwrap().enforcement.pids != EnforcedBy::Rlimit {
        assert!(run.finished.totals.pids_refused.unwrap() >= 1);
    }
    assert_eq!(run.finished.outcome, Outcome::Exited { code: 0 });
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_reaped_so_that_they_do_not_use_up_the_limit() {
    let house = House::open().await;
    let code = "import os\n\
        for _ in range(300):\n\
        \x20   child = os.fork()\n\
        \x20   if child == 0:\n\
        \x20       if os.fork() == 0: os._exit(0)\n\
        \x20       os._exit(0)\n\
        \x20   os.waitpid(child, 0)\n\
        print('all')";
    let run = house.run(code).await;
    assert_eq!(text(&run.stdout), "all\n", "{}", text(&run.stderr));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_bytes_are_never_lost() {
    let house = House::open().await;
    for _ in 0..20 {
        // Small enough for the pipe, so that the snippet is gone before anybody has read a byte.
        let run = house
            .run("import os; os.write(2, b'e' * 30_000); os.write(1, b'o' * 60_000); os._exit(0)")
            .await;
        assert_eq!((run.stdout.len(), run.stderr.len()), (60_000, 30_000));
    }
    house.close().await;
}

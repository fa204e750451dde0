//! How runs in containers end, and what is said of it. The same with runc, with gVisor and with Podman.

use std::time::Duration;

use kazma_sandbox_runner::broker::{Collected, EngineRuntime, Outcome};

use crate::{
    engine::Engine,
    house::{House, spec, text},
};

async fn each(test: impl AsyncFn(&House, EngineRuntime)) {
    for (engine, runtime) in [
        (Engine::shared(), EngineRuntime::Runc),
        (Engine::shared(), EngineRuntime::Runsc),
        (Engine::podman(), EngineRuntime::Runc),
    ] {
        let (house, owner) = engine.house(runtime, |_| {}).await;
        test(&house, runtime).await;
        house.close().await;
        engine.until(&owner, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sum_of_the_first_ten_numbers_is_45() {
    each(async |house, runtime| {
        let run = house.run("print(sum(range(10)))").await;
        assert_eq!(text(&run.stdout), "45\n", "{}", text(&run.stderr));
        assert_eq!(run.finished.outcome, Outcome::Exited { code: 0 });
        let status = house.client.status().await.unwrap();
        assert_eq!(status.tier, "docker");
        assert_eq!(status.enforcer, runtime.name());
        assert!(status.image.unwrap().starts_with("sha256:"));
        let kernel = house
            .run("print(open('/proc/version').read().split()[2])")
            .await;
        let ours = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let same = text(&kernel.stdout) == ours;
        assert_eq!(same, runtime == EngineRuntime::Runc, "{kernel:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_and_signals_are_those_of_a_script() {
    each(async |house, _| {
        for (code, expected) in [
            ("raise SystemExit(3)", Outcome::Exited { code: 3 }),
            ("import os; os._exit(9)", Outcome::Exited { code: 9 }),
            ("1/0", Outcome::Exited { code: 1 }),
            ("pass", Outcome::Exited { code: 0 }),
            (
                "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
                Outcome::Signalled { signal: 15 },
            ),
            (
                "import os; os.kill(os.getpid(), 9)",
                Outcome::Signalled { signal: 9 },
            ),
        ] {
            assert_eq!(house.run(code).await.finished.outcome, expected, "{code}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_that_is_up_and_runs_that_are_cancelled_are_killed() {
    each(async |house, _| {
        let busy = "import signal\n\
            for s in (1, 2, 3, 15): signal.signal(s, signal.SIG_IGN)\n\
            print('on', flush=True)\n\
            while True: pass";
        let limit = Duration::from_millis(1500);
        let run = house.run_with(busy, |spec| spec.timeout = limit).await;
        assert_eq!(run.finished.outcome, Outcome::TimedOut { after: limit });
        assert_eq!(text(&run.stdout), "on\n");

        let forever = spec(busy);
        let call = forever.call_id;
        let mut stream = house.client.run(forever).await.unwrap();
        stream.next().await.unwrap();
        assert!(house.client.cancel(call).await.unwrap());
        assert_eq!(stream.collect().await.finished.outcome, Outcome::Cancelled);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_held_for_all_together() {
    each(async |house, runtime| {
        let hoard = "h = []\nwhile True: h.append(bytearray(8 << 20))";
        let run = house.run(hoard).await;
        let limit_bytes = 512 << 20;
        assert_eq!(
            run.finished.outcome,
            Outcome::OutOfMemory { limit_bytes },
            "{run:?}"
        );
        if runtime == EngineRuntime::Runsc {
            return;
        }
        // A child's end is its own; the snippet goes on, and the count says what happened.
        let child = "import os\n\
            if os.fork() == 0:\n\
            \x20   h = []\n\
            \x20   while True: h.append(bytearray(8 << 20))\n\
            print(os.wait()[1])";
        let run = house.run(child).await;
        assert_eq!(text(&run.stdout), "9\n");
        assert_eq!(run.finished.outcome, Outcome::Exited { code: 0 });
        assert!(run.finished.totals.oom_kills.unwrap() >= 1);
        assert!(run.finished.totals.peak_memory_bytes.unwrap() > 400 << 20);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_stays_in_its_container() {
    let bomb = "import os, signal\n\
        made = 0\n\
        try:\n\
        \x20   while made < 2000:\n\
        \x20       if os.fork() == 0:\n\
        \x20           while True: signal.pause()\n\
        \x20       made += 1\n\
        except OSError as error:\n\
        \x20   print(made, error.errno)";
    each(async |house, runtime| {
        let run = house
            .run_with(bomb, |spec| spec.timeout = Duration::from_secs(40))
            .await;
        if runtime == EngineRuntime::Runc {
            let (made, errno) = text(&run.stdout).trim().split_once(' ').unwrap();
            assert!(made.parse::<u32>().unwrap() < 64, "{run:?}");
            assert_eq!(errno, "11");
            assert!(run.finished.totals.pids_refused.unwrap() >= 1);
            assert_eq!(run.finished.outcome, Outcome::Exited { code: 0 });
        } else {
            // The limits hold gVisor's own processes and memory too: when it is refused some, it ends.
            match &run.finished.outcome {
                Outcome::OutOfMemory { .. } => {}
                Outcome::Broken { reason } => assert!(
                    reason.contains("too many processes") || reason.contains("killed"),
                    "{reason}"
                ),
                other => panic!("{other:?}"),
            }
        }
        // The next one is as good as new.
        assert_eq!(text(&house.run("print(1)").await.stdout), "1\n");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_the_snippets_own_error() {
    each(async |house, _| {
        let code = "try:\n\
            \x20   with open('/tmp/big', 'wb', buffering=0) as file:\n\
            \x20       for n in range(100): file.write(bytes(1 << 20))\n\
            except OSError as error: print(error.errno)";
        let run = house.run(code).await;
        // gVisor has no file larger than the limit either; its temporary folder knows that error first.
        assert!(["28\n", "27\n"].contains(&text(&run.stdout)), "{run:?}");
        assert_eq!(run.finished.outcome, Outcome::Exited { code: 0 });
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_cut_and_counted_and_never_stalls_the_engine() {
    each(async |house, runtime| {
        let megabytes: u64 = if runtime == EngineRuntime::Runc {
            200
        } else {
            20
        };
        let code = format!("import os\nfor _ in range({megabytes}): os.write(1, b'x' * (1 << 20))");
        let run = house.run_with(&code, |spec| spec.output_cap = 4096).await;
        assert_eq!(run.finished.outcome, Outcome::Exited { code: 0 });
        let Collected {
            stdout, finished, ..
        } = &run;
        assert!(stdout.len() <= 4096 && finished.totals.truncated);
        assert_eq!(finished.totals.stdout_bytes, megabytes << 20);

        // Cancelled in mid-flood by a caller who does not read.
        let endless = spec("import os\nwhile True: os.write(1, b'x' * (1 << 20))");
        let call = endless.call_id;
        let mut stream = house.client.run(endless).await.unwrap();
        stream.next().await.unwrap();
        assert!(house.client.cancel(call).await.unwrap());
        assert_eq!(stream.collect().await.finished.outcome, Outcome::Cancelled);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_bytes_are_never_lost() {
    each(async |house, runtime| {
        let times = if runtime == EngineRuntime::Runc { 12 } else { 3 };
        for _ in 0..times {
            let run = house
                .run("import os; os.write(2, b'e' * 30_000); os.write(1, b'o' * 60_000); os._exit(0)")
                .await;
            assert_eq!((run.stdout.len(), run.stderr.len()), (60_000, 30_000));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_reaped_and_ended() {
    each(async |house, runtime| {
        let times = if runtime == EngineRuntime::Runc {
            200
        } else {
            20
        };
        let code = format!(
            "import os, time\n\
            for _ in range({times}):\n\
            \x20   child = os.fork()\n\
            \x20   if child == 0:\n\
            \x20       if os.fork() == 0: os._exit(0)\n\
            \x20       os._exit(0)\n\
            \x20   os.waitpid(child, 0)\n\
            if os.fork() == 0:\n\
            \x20   os.setsid()\n\
            \x20   time.sleep(1000)\n\
            print('all')"
        );
        let run = house.run(&code).await;
        assert_eq!(text(&run.stdout), "all\n", "{}", text(&run.stderr));
        assert_eq!(run.finished.outcome, Outcome::Exited { code: 0 });
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_report_can_be_forged() {
    each(async |house, runtime| {
        let code = "import os, struct, sys\n\
            lie = b'exited 0'\n\
            for key in (b'', bytes(16)):\n\
            \x20   frame = b'\\x01' + struct.pack('>I', len(key + lie)) + key + lie\n\
            \x20   for path in ('/proc/1/fd/1', '/proc/1/task/1/fd/1', f'/proc/{os.getppid()}/fd/1'):\n\
            \x20       try:\n\
            \x20           with open(path, 'wb', buffering=0) as file: file.write(frame)\n\
            \x20       except OSError: pass\n\
            \x20   os.write(1, frame)\n\
            \x20   os.write(2, frame)\n\
            os._exit(5)";
        let run = house.run(code).await;
        match runtime {
            EngineRuntime::Runc => {
                assert_eq!(run.finished.outcome, Outcome::Exited { code: 5 });
                assert_eq!(run.stdout.len(), 5 + 8 + 5 + 16 + 8);
            }
            // gVisor lets the snippet into the init's output. Whatever that comes to, it is no good end.
            _ => assert!(
                matches!(
                    run.finished.outcome,
                    Outcome::Exited { code: 5 } | Outcome::Lost { .. } | Outcome::Broken { .. }
                ),
                "{run:?}"
            ),
        }
    })
    .await;
}

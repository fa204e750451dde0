//! The socket: who is served, and what hanging up does.

use std::{os::unix::fs::PermissionsExt, process::Stdio, sync::Arc, time::Duration};

use camino::Utf8PathBuf;
use kazma_runtime::SystemEntropy;
use kazma_sandbox_runner::broker::{
    BrokerClient, BrokerError, BrokerOptions, CODE_MAX, Outcome, OutputStream, Program, Readiness,
    RunEvent, listen, serve,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    process::Command,
};
use tokio_util::sync::CancellationToken;

use crate::house::{House, PATIENCE, marked, processes_with, spec, text};

#[tokio::test(flavor = "multi_thread")]
async fn the_status_says_what_runs_and_what_holds() {
    let house = House::open().await;
    let status = house.client.status().await.unwrap();
    assert_eq!(status.readiness, Readiness::Ready);
    assert_eq!(status.tier, "native");
    assert!(status.runtime.unwrap().starts_with("Python 3."));
    assert!(status.enforcement.summary.contains("shares your kernel"));
    assert_eq!(status.limits.memory_bytes, 512 << 20);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_comes_while_the_run_goes_on() {
    let house = House::open().await;
    let waits =
        spec("import sys, time\nprint('é1')\nprint('two', file=sys.stderr)\ntime.sleep(1000)");
    let mut run = house.client.run(waits).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        match tokio::time::timeout(PATIENCE, run.next())
            .await
            .unwrap()
            .unwrap()
        {
            RunEvent::Chunk(chunk) => seen.push((chunk.stream, text(&chunk.data).to_owned())),
            RunEvent::Finished(end) => panic!("it ended: {end:?}"),
        }
    }
    seen.sort_by_key(|(stream, _)| *stream == OutputStream::Stderr);
    assert_eq!(
        seen,
        [
            (OutputStream::Stdout, "é1\n".to_owned()),
            (OutputStream::Stderr, "two\n".to_owned())
        ]
    );
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_kills_and_says_so() {
    let house = House::open().await;
    let forever = spec("print('on', flush=True)\nwhile True: pass");
    let call = forever.call_id;
    let mut run = house.client.run(forever).await.unwrap();
    assert!(matches!(run.next().await, Some(RunEvent::Chunk(_))));
    assert!(house.client.cancel(call).await.unwrap());
    assert_eq!(run.collect().await.finished.outcome, Outcome::Cancelled);
    assert!(!house.client.cancel(call).await.unwrap());
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_up_kills_the_jail() {
    let house = House::open().await;
    let marker = marked();
    let code = format!(
        "import os\n\
        if os.fork() == 0: os.execv('/bin/sh', ['/bin/sh', '-c', 'echo on; while :; do :; done', '{marker}'])\n\
        os.wait()"
    );
    let mut run = house.client.run(spec(&code)).await.unwrap();
    assert!(matches!(run.next().await, Some(RunEvent::Chunk(_))));
    assert_eq!(processes_with(&marker), 1);
    drop(run);
    house.until(|s| s.pool.running == 0).await;
    assert_eq!(processes_with(&marker), 0);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_does_not_read_holds_nothing_up() {
    let house = House::open().await;
    let mut flood = spec("while True: print('z' * 1000)");
    flood.timeout = Duration::from_millis(500);
    flood.output_cap = 1 << 20;
    let unread = house.client.run(flood).await.unwrap();
    house.until(|s| s.pool.running == 1).await;
    house.until(|s| s.pool.running == 0).await;
    let run = unread.collect().await;
    assert!(matches!(run.finished.outcome, Outcome::TimedOut { .. }));
    assert_eq!(run.stdout.len() as u64, run.finished.totals.kept_bytes);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_runs_once_at_a_time() {
    let house = House::open().await;
    let forever = spec("print('on', flush=True)\nwhile True: pass");
    let mut first = house.client.run(forever.clone()).await.unwrap();
    first.next().await.unwrap();
    let second = house.client.run(forever).await.unwrap().collect().await;
    assert!(
        matches!(&second.finished.outcome, Outcome::Lost { reason } if reason.contains("running already")),
        "{second:?}"
    );
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_out_of_bounds_is_refused_by_name() {
    let house = House::open().await;
    for (change, field) in [
        (
            (|s| {
                s.program = Program::Python {
                    code: "x".repeat(CODE_MAX + 1),
                };
            }) as fn(&mut kazma_sandbox_runner::broker::RunSpec),
            "code",
        ),
        (|s| s.timeout = Duration::from_secs(301), "timeout_ms"),
        (|s| s.timeout = Duration::ZERO, "timeout_ms"),
        (|s| s.output_cap = usize::MAX, "output_cap"),
    ] {
        let mut run = spec("pass");
        change(&mut run);
        match house.client.run(run).await {
            Err(BrokerError::Refused(reason)) => assert!(reason.starts_with(field), "{reason}"),
            other => panic!("{field}: {other:?}"),
        }
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_snippet_arrives_whole() {
    let house = House::open().await;
    let code = format!("x = '''{}'''\nprint(len(x))", "\n".repeat(CODE_MAX - 30));
    let run = house.run(&code).await;
    assert_eq!(
        text(&run.stdout),
        format!("{}\n", CODE_MAX - 30),
        "{}",
        text(&run.stderr)
    );
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_cannot_carry_flags() {
    let house = House::open().await;
    let call = spec("pass").call_id;
    for request in [
        format!(
            r#"{{"request":"run","call_id":"{call}","code":"1","timeout_ms":1000,"output_cap":10,"network":true}}"#
        ),
        format!(r#"{{"request":"run","call_id":"{call}","code":"1","timeout_ms":1000}}"#),
        r#"{"request":"mount"}"#.to_owned(),
        "\u{0}".to_owned(),
    ] {
        let answer = raw(&house, request.as_bytes()).await;
        assert!(
            answer.contains(r#""reply":"refused""#),
            "{request}: {answer}"
        );
    }
    house.close().await;
}

/// Sends one frame and reads until the broker hangs up.
async fn raw(house: &House, frame: &[u8]) -> String {
    let mut stream = UnixStream::connect(&house.socket).await.unwrap();
    stream
        .write_u32(u32::try_from(frame.len()).unwrap())
        .await
        .unwrap();
    stream.write_all(frame).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_claims_to_be_huge_is_not_waited_for() {
    let house = House::open().await;
    let mut stream = UnixStream::connect(&house.socket).await.unwrap();
    stream.write_u32(u32::MAX).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("cannot be read"));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_not_served() {
    let house = House::unready(|o| o.allowed_uids = vec![o.allowed_uids[0] + 1]);
    assert!(matches!(
        house.client.status().await,
        Err(BrokerError::Connection(_))
    ));
    house.close().await;
}

#[tokio::test]
async fn a_socket_that_was_left_is_replaced_and_nothing_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(folder.path().join("broker.sock")).unwrap();
    for _ in 0..2 {
        drop(listen(&path).unwrap());
        assert!(path.exists());
    }
    let listener = listen(&path).unwrap();
    // Who may connect is decided by who it is.
    let found = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(found & 0o777, 0o666);
    drop(listener);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "somebody's").unwrap();
    let refused = listen(&path).unwrap_err();
    assert!(
        matches!(&refused, BrokerError::Taken(at) if *at == path),
        "{refused}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody's");
    let nowhere = listen(&path.with_file_name("no").join("such"));
    assert!(
        matches!(nowhere, Err(BrokerError::Listen { .. })),
        "{nowhere:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_stops_kills_and_the_client_learns_it() {
    let house = House::open().await;
    let forever = spec("print('on', flush=True)\nwhile True: pass");
    let mut run = house.client.run(forever).await.unwrap();
    run.next().await.unwrap();
    let collecting = tokio::spawn(run.collect());
    let client = house.client.clone();
    house.close().await;
    assert_eq!(
        collecting.await.unwrap().finished.outcome,
        Outcome::Cancelled
    );
    assert!(matches!(
        client.status().await,
        Err(BrokerError::Unreachable { .. })
    ));
}

/// Not a test: the broker that the next one kills. It serves until then.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by a_broker_that_is_killed_takes_its_jails_along"]
async fn a_broker_to_be_killed() {
    let socket = std::env::var("SOCKET").unwrap();
    let workspace = std::env::var("WORKSPACE").unwrap();
    let mut options = BrokerOptions::new(socket, workspace);
    options.init = Some(env!("CARGO_BIN_EXE_sandbox-init").into());
    serve(
        options,
        None,
        Arc::new(SystemEntropy),
        CancellationToken::new(),
    )
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_takes_its_jails_along() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [sockets, workspace] = &folders;
    let readable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(workspace.path(), readable).unwrap();
    let socket = Utf8PathBuf::from_path_buf(sockets.path().join("broker.sock")).unwrap();
    let mut broker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "service::a_broker_to_be_killed", "--ignored"])
        .env("SOCKET", &socket)
        .env("WORKSPACE", workspace.path())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let client = BrokerClient::new(socket);
    let marker = marked();
    let code = format!(
        "import os\n\
        os.execv('/bin/sh', ['/bin/sh', '-c', 'echo on; while :; do :; done', '{marker}'])"
    );
    let started = async {
        while !matches!(client.status().await, Ok(s) if s.readiness == Readiness::Ready) {
            tokio::task::yield_now().await;
        }
        let mut run = client.run(spec(&code)).await.unwrap();
        assert!(matches!(run.next().await, Some(RunEvent::Chunk(_))));
        run
    };
    let run = tokio::time::timeout(PATIENCE, started).await.unwrap();
    assert_eq!(processes_with(&marker), 1);
    broker.kill().await.unwrap();
    let end = run.collect().await.finished.outcome;
    assert!(matches!(end, Outcome::Lost { .. }), "{end:?}");
    let mark = workspace.path().to_str().unwrap().to_owned();
    let cleared = async {
        while processes_with(&marker) > 0 {
            tokio::task::yield_now().await;
        }
        // One that was being born may be left, half-made: the next broker ends it at its start.
        while processes_with(&mark) > 0 {
            kazma_sandbox_runner::jail::orphans::sweep();
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, cleared).await.unwrap();
}

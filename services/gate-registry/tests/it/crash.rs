//! The database server is killed while it writes. What was told as kept is kept, and nothing is there twice.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use kazma_domain::{State, ThreadId, TurnId};
use kazma_gate_registry::{Error, audit_verify};
use kazma_wire::events::Event;
use serde_json::json;
use tokio::task::{JoinSet, spawn_blocking};

use crate::{
    house::{House, RUNNER, filing},
    server::{OwnServer, own_schema},
};

/// Those who file calls at the same time, each in a thread of its own.
const CALLERS: usize = 4;
/// How often the server dies.
const KILLS: usize = 4;
/// Calls that are kept between two deaths.
const BETWEEN: usize = 25;

/// Turns that each of them has, and the calls of one.
const TURNS: u32 = 12;
const CALLS: u32 = 20;

/// A call as its caller knows it was kept.
type Kept = (ThreadId, u32);

/// Files one call after the other until it is told to end, and returns those that it was told are kept. What is
/// not known to be kept is filed again, under the same index.
async fn caller(
    house: Arc<House>,
    turns: Vec<(ThreadId, TurnId)>,
    kept: Arc<AtomicUsize>,
    enough: Arc<AtomicBool>,
) -> Vec<Kept> {
    let mut mine = Vec::new();
    for (at, index) in turns
        .into_iter()
        .flat_map(|at| (0..CALLS).map(move |i| (at, i)))
    {
        loop {
            if enough.load(Ordering::SeqCst) {
                return mine;
            }
            let arguments = json!({ "code": format!("print({index})") });
            let request = filing(at, index, "python_exec", arguments);
            match house.registry.file(RUNNER, request).await {
                Ok(_) => break,
                Err(Error::Store(_)) => {}
                Err(refused) => panic!("{refused:?}"),
            }
        }
        mine.push((at.0, index));
        kept.fetch_add(1, Ordering::SeqCst);
    }
    mine
}

/// Every event of the registry, as one follower is told them, up to a last one.
async fn followed(house: Arc<House>, last: tokio::sync::watch::Receiver<i64>) -> Vec<i64> {
    let mut seen = Vec::new();
    // A reader is let go where the server dies, and comes back with the last number it saw.
    loop {
        let mut lines = Box::pin(house.registry.follow(seen.last().copied().unwrap_or(0)));
        while let Some(Ok(line)) = lines.next().await {
            let event: Event = serde_json::from_slice(&line).unwrap();
            let end = *last.borrow();
            if end > 0 && event.seq.is_some_and(|seq| seq > end) {
                return seen;
            }
            seen.extend(event.seq);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_told_as_kept_is_lost_when_the_server_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let server = spawn_blocking(move || OwnServer::start(&path))
        .await
        .unwrap();
    let server = Arc::new(server);
    let house = Arc::new(House::at(Some(own_schema(&server.url))).await);
    let (tell_last, last) = tokio::sync::watch::channel(0);
    let follower = tokio::spawn(followed(Arc::clone(&house), last));

    let (kept, enough) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let mut turns = Vec::new();
        for _ in 0..TURNS {
            turns.push(house.turn().await);
        }
        callers.spawn(caller(
            Arc::clone(&house),
            turns,
            Arc::clone(&kept),
            Arc::clone(&enough),
        ));
    }
    for _ in 0..KILLS {
        let until = kept.load(Ordering::SeqCst) + BETWEEN;
        reached(&kept, until).await;
        let dying = Arc::clone(&server);
        spawn_blocking(move || {
            dying.kill();
            dying.again();
        })
        .await
        .unwrap();
    }
    // And it works again.
    let until = kept.load(Ordering::SeqCst) + BETWEEN;
    reached(&kept, until).await;
    enough.store(true, Ordering::SeqCst);
    let told: Vec<Kept> = callers.join_all().await.concat();

    assert!(told.len() >= (KILLS + 1) * BETWEEN, "{}", told.len());
    for thread in told
        .iter()
        .map(|(thread, _)| *thread)
        .collect::<BTreeSet<_>>()
    {
        let view = house.registry.thread(thread).await.unwrap();
        let mut there: Vec<u32> = view.calls.iter().map(|view| view.call.index).collect();
        there.sort_unstable();
        let mine: Vec<u32> = told
            .iter()
            .filter(|(of, _)| *of == thread)
            .map(|(_, index)| *index)
            .collect();
        // The last one may have been kept without anybody's knowing; none is there twice.
        assert!(there.starts_with(&mine), "{there:?} {mine:?}");
        assert!(there.len() <= mine.len() + 1, "{there:?} {mine:?}");
        for view in view.calls {
            assert!(matches!(view.call.state, State::Pending { .. }));
        }
    }
    let report = audit_verify(&house.database(), None).await.unwrap();
    let asked = house.records("call.asked").await;
    assert!(asked >= told.len(), "{asked} records for {}", told.len());
    assert!(report.records > i64::try_from(asked).unwrap());

    // Whoever follows is told everything, once and in order, also what was kept without anybody's knowing.
    let thread = house.thread().await;
    house.say(thread, "one more").await;
    let end = house.registry.thread(thread).await.unwrap().seq;
    tell_last.send(end).unwrap();
    // A word that comes after it, so that the follower looks at how far it is.
    house.say(thread, "and another").await;
    let seen = tokio::time::timeout(Duration::from_mins(1), follower).await;
    let seen = seen.expect("a follower misses something").unwrap();
    assert_eq!(
        seen,
        (1..=seen.len())
            .map(|n| i64::try_from(n).unwrap())
            .collect::<Vec<_>>()
    );
    assert!(seen.last() >= Some(&end), "{:?} {end}", seen.last());
    house.registry.close().await.unwrap();
}

/// Waits until so many calls were kept.
async fn reached(kept: &AtomicUsize, until: usize) {
    let waiting = async {
        while kept.load(Ordering::SeqCst) < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), waiting).await;
    waited.expect("the registry does not recover");
}

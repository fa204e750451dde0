use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use kazma_domain::{Decision, TurnState};
use kazma_wire::{
    agent::ProgressRequest,
    events::{Event, What},
    executor::{Chunk, OutputRequest},
    poll::Poll,
};

use crate::house::{House, RUNNER, ada, ballot};

fn wait(after: i64) -> Poll {
    Poll {
        after,
        wait_ms: 30_000,
    }
}

/// Runs a poll beside what shall wake it, and fails the test if it slept to its end instead.
async fn woken<T>(poll: impl Future<Output = T>, by: impl Future<Output = ()>) -> T {
    let both = async { tokio::join!(poll, by).0 };
    tokio::time::timeout(Duration::from_secs(20), both)
        .await
        .expect("the poll was not woken")
}

#[tokio::test]
async fn the_executor_is_woken_by_the_approval() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    let empty = house.registry.work(RUNNER, Poll::default()).await.unwrap();
    assert!(empty.items.is_empty());
    let work = woken(
        house.registry.work(RUNNER, wait(empty.seq)),
        house.approve(&filed),
    )
    .await;
    let work = work.unwrap();
    assert_eq!(work.items.len(), 1);
    assert_eq!(work.items[0].call.id, filed.call.id);
    assert_eq!(work.items[0].plan.digest().unwrap(), filed.call.plan);
    // Not twice to who has seen it, again to who starts anew.
    let seen = Poll {
        after: work.seq,
        wait_ms: 0,
    };
    assert!(
        house
            .registry
            .work(RUNNER, seen)
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let anew = house.registry.work(RUNNER, Poll::default()).await.unwrap();
    assert_eq!(anew.items.len(), 1);
}

#[tokio::test]
async fn the_agent_is_woken_by_messages_and_by_how_its_calls_end() {
    let house = House::new().await;
    let thread = house.thread().await;
    let turns = woken(house.registry.live_turns(wait(0)), async {
        house.say(thread, "hello").await;
    })
    .await
    .unwrap();
    assert_eq!(turns.items.len(), 1);
    let at = (thread, turns.items[0].turn);
    house
        .registry
        .progress(
            at.1,
            ProgressRequest {
                state: TurnState::Running,
            },
        )
        .await
        .unwrap();
    let moved = house
        .registry
        .live_turns(Poll {
            after: turns.seq,
            wait_ms: 0,
        })
        .await
        .unwrap();
    assert_eq!(moved.items[0].state, TurnState::Running);

    let filed = house.python(at, 0, "print(1)").await;
    let calls = house
        .registry
        .turn_calls(at.1, Poll::default())
        .await
        .unwrap();
    assert_eq!(calls.items.len(), 1);
    let changed = woken(house.registry.turn_calls(at.1, wait(calls.seq)), async {
        house.decide(&filed, &ada(), Decision::Deny).await.unwrap();
    })
    .await
    .unwrap();
    assert_eq!(changed.items[0].call.state.name(), "denied");
    assert!(changed.seq > calls.seq);
}

#[tokio::test]
async fn polls_end_when_the_registry_stops() {
    let house = House::new().await;
    let polled = woken(house.registry.work(RUNNER, wait(0)), async {
        house.stop.cancel();
    })
    .await;
    assert!(polled.unwrap().items.is_empty());
}

/// The next line of a stream that is no beat.
async fn next(
    lines: &mut (
             impl futures_util::Stream<Item = Result<bytes::Bytes, std::convert::Infallible>> + Unpin
         ),
) -> Event {
    loop {
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next())
            .await
            .expect("no line came")
            .unwrap()
            .unwrap();
        let event: Event = serde_json::from_slice(&line).unwrap();
        if event.what != What::Beat {
            return event;
        }
    }
}

#[tokio::test]
async fn a_follower_gets_what_it_missed_then_what_happens_in_order_without_gaps() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    let mut lines = Box::pin(house.registry.follow(0));
    let mut seen = Vec::new();
    let mut words = Vec::new();
    for _ in 0..5 {
        let event = next(&mut lines).await;
        seen.push(event.seq.unwrap());
        words.push(event.what);
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    assert!(matches!(words[0], What::Thread));
    assert!(matches!(
        words[1],
        What::Turn {
            state: TurnState::Open
        }
    ));
    assert!(matches!(words[2], What::Message { .. }));
    assert!(matches!(&words[3], What::Call { state, .. } if state == "pending"));
    assert!(matches!(words[4], What::GatePending { .. }));

    house.begin(&filed).await;
    for (call, gate) in [("approved", "approved"), ("claimed", "claimed")] {
        let event = next(&mut lines).await;
        assert!(
            matches!(&event.what, What::Call { state, .. } if state == call),
            "{event:?}"
        );
        let event = next(&mut lines).await;
        assert!(
            matches!(&event.what, What::GateSettled { state, .. } if state == gate),
            "{event:?}"
        );
    }
    let request = OutputRequest {
        chunks: vec![Chunk {
            stream: "stdout".to_owned(),
            text: "1\n".to_owned(),
        }],
    };
    house
        .registry
        .output(RUNNER, filed.call.id, request)
        .await
        .unwrap();
    house.settle(&filed, "1\n").await;
    let output = next(&mut lines).await;
    assert!(
        matches!(output.what, What::Output { .. }) && output.seq.is_none(),
        "{output:?}"
    );
    let settled = next(&mut lines).await;
    assert!(matches!(&settled.what, What::Call { state, .. } if state == "settled"));

    // Who comes back with the last number it saw misses nothing and sees nothing twice.
    let mut again = Box::pin(house.registry.follow(settled.seq.unwrap() - 1));
    assert_eq!(next(&mut again).await, settled);
}

#[tokio::test]
async fn the_sweep_sleeps_until_something_is_due() {
    let house = House::new().await;
    let at = house.turn().await;
    house.python(at, 0, "print(1)").await;
    house.clock.pass(24 * 3_600);
    let sweeping = tokio::spawn(Arc::clone(&house.registry).keep_sweeping());
    let turn = house.registry.turn_calls(
        at.1,
        Poll {
            after: 4,
            wait_ms: 30_000,
        },
    );
    let expired = tokio::time::timeout(Duration::from_secs(20), turn)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(expired.items[0].call.state.name(), "expired");
    house.registry.close().await.unwrap();
    sweeping.await.unwrap().unwrap();
}

/// A browser that leaves the page right after *approve* drops its request, but not its decision.
#[tokio::test]
async fn the_executor_is_woken_by_an_approval_whose_caller_hung_up() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    let empty = house.registry.work(RUNNER, Poll::default()).await.unwrap();
    let gate = filed.call.gate.unwrap();
    let card = house.registry.gate(gate).await.unwrap().args_digest;
    let work = woken(house.registry.work(RUNNER, wait(empty.seq)), async {
        let ballot = ballot(&ada(), Decision::Approve, card);
        let mut approval = Box::pin(house.registry.decide(gate, ballot));
        assert!(futures_util::poll!(&mut approval).is_pending());
        drop(approval);
    })
    .await;
    assert_eq!(work.unwrap().items.len(), 1);
}

//! Containers that wait: used once, replaced, refilled.

use std::{collections::HashSet, time::Duration};

use kazma_domain::Clock;
use kazma_runtime::SystemClock;
use kazma_sandbox_runner::broker::{EngineRuntime, Outcome, StartFailure};

use crate::{
    engine::Engine,
    house::{spec, text},
};

#[tokio::test(flavor = "multi_thread")]
async fn ten_runs_are_ten_containers() {
    let engine = Engine::shared();
    let (house, owner) = engine.house(EngineRuntime::Runc, |_| {}).await;
    let mut seen = HashSet::new();
    for _ in 0..10 {
        let run = house
            .run(
                "import os\n\
                print(os.path.exists('/tmp/left'), os.readlink('/proc/self/ns/pid'), os.stat('/tmp').st_dev)\n\
                open('/tmp/left', 'w').write('x')",
            )
            .await;
        let said = text(&run.stdout).trim().to_owned();
        assert!(said.starts_with("False "), "{run:?}");
        // Namespace numbers are given again once they are free, but not while the pool holds others.
        seen.insert(said);
    }
    assert!(seen.len() > 2, "{seen:?}");
    house.close().await;
    engine.until(&owner, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_run_creates_one_more_container_with_the_whole_template() {
    let engine = Engine::shared();
    let since = SystemClock.now().as_second();
    let (house, owner) = engine.house(EngineRuntime::Runc, |_| {}).await;
    house.until(|s| s.pool.idle == 2).await;
    for n in 0..10 {
        let run = house.run(&format!("print({n})")).await;
        assert_eq!(text(&run.stdout), format!("{n}\n"));
    }
    house
        .until(|s| s.pool.idle == 2 && s.pool.starting == 0 && s.pool.running == 0)
        .await;
    let status = house.client.status().await.unwrap();
    house.close().await;
    // One for the canary, two to fill the pool, ten to replace what was used, and what waited too long.
    let wanted = 13 + usize::try_from(status.pool.replaced).unwrap();
    let names = engine.created(&owner, since).await;
    assert_eq!(names.len(), wanted, "{names:?}");
    assert_eq!(
        names.iter().collect::<HashSet<_>>().len(),
        wanted,
        "{names:?}"
    );
    engine.until(&owner, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_fifty_is_served() {
    let engine = Engine::shared();
    let (house, owner) = engine
        .house(EngineRuntime::Runc, |broker| {
            broker.queue_bound = 64;
            broker.queue_wait = Duration::from_mins(5);
        })
        .await;
    let runs: Vec<_> = (0..50)
        .map(|n| {
            let client = house.client.clone();
            tokio::spawn(async move {
                let run = spec(&format!("print({n} * {n})"));
                (n, client.run(run).await.unwrap().collect().await)
            })
        })
        .collect();
    for run in runs {
        let (n, run) = run.await.unwrap();
        assert_eq!(
            text(&run.stdout),
            format!("{}\n", n * n),
            "{:?}",
            run.finished
        );
    }
    house.close().await;
    engine.until(&owner, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_has_a_bound_and_an_end() {
    let engine = Engine::shared();
    let (house, _) = engine
        .house(EngineRuntime::Runc, |broker| {
            broker.max_running = 1;
            broker.queue_bound = 1;
        })
        .await;
    let forever = spec("import time; print('on', flush=True); time.sleep(1000)");
    let busy = forever.call_id;
    let mut first = house.client.run(forever).await.unwrap();
    first.next().await.unwrap();
    let second = house.client.run(spec("print(2)")).await.unwrap();
    house.until(|s| s.pool.queued == 1).await;
    let third = house.run("print(3)").await;
    assert_eq!(
        third.finished.outcome,
        Outcome::StartFailed {
            failure: StartFailure::QueueFull { bound: 1 }
        }
    );
    assert!(house.client.cancel(busy).await.unwrap());
    assert_eq!(text(&second.collect().await.stdout), "2\n");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_and_dead_containers_are_replaced() {
    let engine = Engine::shared();
    let (house, owner) = engine
        .house(EngineRuntime::Runc, |broker| {
            broker.pool_size = 1;
            broker.max_idle_age = Duration::from_secs(1);
        })
        .await;
    house.until(|s| s.pool.replaced >= 2).await;
    assert_eq!(text(&house.run("print(1)").await.stdout), "1\n");
    house.close().await;
    engine.until(&owner, 0).await;

    let (house, owner) = engine
        .house(EngineRuntime::Runc, |broker| broker.pool_size = 1)
        .await;
    engine.until(&owner, 1).await;
    let idle = engine.containers(&owner).await[0].id.clone().unwrap();
    engine.api().kill_container(&idle, None).await.unwrap();
    house
        .until(|s| s.pool.replaced == 1 && s.pool.idle == 1)
        .await;
    assert_eq!(text(&house.run("print(1)").await.stdout), "1\n");
    house.close().await;
    engine.until(&owner, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_not_given_another_image_than_the_card_named() {
    let engine = Engine::shared();
    let (house, owner) = engine.house(EngineRuntime::Runc, |_| {}).await;
    let image = house.client.status().await.unwrap().image;
    let run = house.run_with("print(1)", |spec| spec.image = image).await;
    assert_eq!(text(&run.stdout), "1\n");
    let run = house
        .run_with("print(1)", |spec| {
            spec.image = Some("sha256:other".to_owned());
        })
        .await;
    assert!(run.stdout.is_empty());
    assert!(matches!(
        run.finished.outcome,
        Outcome::StartFailed {
            failure: StartFailure::Jail { .. }
        }
    ));
    house.close().await;
    engine.until(&owner, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_memory_but_the_pool() {
    let engine = Engine::shared();
    let (house, owner) = engine
        .house(EngineRuntime::Runc, |broker| broker.spare_memory = u64::MAX)
        .await;
    for n in 0..3 {
        let run = house.run(&format!("print({n})")).await;
        assert_eq!(text(&run.stdout), format!("{n}\n"));
    }
    let pool = house.client.status().await.unwrap().pool;
    assert_eq!((pool.idle, pool.size), (0, 2));
    house.close().await;
    engine.until(&owner, 0).await;
}

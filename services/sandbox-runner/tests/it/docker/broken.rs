//! What is said when the ground gives way: the engine, the image, the container, the workspace.

use kazma_sandbox_runner::broker::{
    EngineRuntime, Outcome, Readiness, RunEvent, SANDBOX_IMAGE, StartFailure, TierChoice,
};

use crate::{
    engine::Engine,
    house::{House, PATIENCE, spec, text},
};

const FOREVER: &str = "import time; print('on', flush=True); time.sleep(1000)";

/// Why a broker with these options is not ready, and what to do.
async fn not_ready(house: &House) -> (String, String) {
    let judged = async {
        loop {
            let status = house.client.status().await.unwrap();
            match status.readiness {
                Readiness::NotReady { reason, fix } if status.settled => break (reason, fix),
                _ => crate::house::moment().await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, judged).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named_with_its_fix() {
    let engine = Engine::shared();
    let nowhere = tempfile::tempdir().unwrap();
    let link = nowhere.path().join("link");
    std::os::unix::fs::symlink(nowhere.path(), &link).unwrap();
    let link = camino::Utf8PathBuf::from_path_buf(link).unwrap();
    let gone = camino::Utf8PathBuf::from_path_buf(nowhere.path().join("gone")).unwrap();

    let mut no_engine = engine.options(EngineRuntime::Runc);
    no_engine.socket = "/no/such/engine.sock".into();
    let mut no_image = engine.options(EngineRuntime::Runc);
    no_image.image = "kazma-no-such-image".to_owned();
    let mut wrong_image = engine.options(EngineRuntime::Runc);
    wrong_image.image = Engine::image_without_init();
    let good = || engine.options(EngineRuntime::Runc);
    for (options, workspace, in_reason, in_fix) in [
        (no_engine, None, "/no/such/engine.sock", "DOCKER_HOST"),
        (no_image, None, "kazma-no-such-image", "scripts/images"),
        (wrong_image, None, "", "scripts/images"),
        (
            engine.options(EngineRuntime::Kata),
            None,
            "no runtime kata",
            "daemon.json",
        ),
        (good(), Some(link), "leads to", "real path"),
        (
            good(),
            Some(gone.clone()),
            "cannot be mounted",
            "Name a folder",
        ),
    ] {
        let house = House::unready(|broker| {
            broker.tier = TierChoice::Docker(options);
            if let Some(workspace) = workspace {
                broker.workspace = workspace;
            }
        });
        let (reason, fix) = not_ready(&house).await;
        assert!(reason.contains(in_reason), "{reason}");
        assert!(fix.contains(in_fix), "{reason} -- {fix}");
        let run = house.run("print(1)").await;
        assert!(matches!(
            run.finished.outcome,
            Outcome::StartFailed {
                failure: StartFailure::NotReady { .. }
            }
        ));
        house.close().await;
    }
    assert!(!gone.exists(), "a missing workspace was created");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rootless_engine_that_holds_no_limits_is_refused() {
    let engine = Engine::rootless();
    let options = engine.options(EngineRuntime::Runc);
    let house = House::unready(|broker| broker.tier = TierChoice::Docker(options));
    let (reason, fix) = not_ready(&house).await;
    assert!(reason.contains("does not limit memory"), "{reason}");
    // By the kind of the machine's control groups.
    assert!(
        fix.contains("systemd.unified_cgroup_hierarchy=1") || fix.contains("Delegate"),
        "{fix}"
    );
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_others_kill_or_remove_is_no_riddle() {
    let engine = Engine::shared();
    let (house, owner) = engine
        .house(EngineRuntime::Runc, |broker| broker.pool_size = 1)
        .await;
    for remove in [false, true] {
        // The only one that waits is the one that the run is given.
        engine.until(&owner, 1).await;
        let id = engine.containers(&owner).await[0].id.clone().unwrap();
        let mut stream = house.client.run(spec(FOREVER)).await.unwrap();
        assert!(matches!(stream.next().await, Some(RunEvent::Chunk(_))));
        if remove {
            engine.remove(&id).await;
        } else {
            engine.api().kill_container(&id, None).await.unwrap();
        }
        let end = stream.collect().await.finished.outcome;
        match end {
            Outcome::Broken { reason } if !remove => assert!(reason.contains("killed"), "{reason}"),
            Outcome::Broken { reason } | Outcome::Lost { reason } if remove => {
                assert!(
                    reason.contains("removed") || reason.contains("killed"),
                    "{reason}"
                );
            }
            other => panic!("{other:?}"),
        }
        house
            .until(|s| s.pool.idle == 1 && s.pool.running == 0)
            .await;
    }
    house.close().await;
    engine.until(&owner, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_engine_is_said_and_survived() {
    let engine = Engine::alone();
    let (house, owner) = engine
        .house(EngineRuntime::Runc, |broker| {
            broker.canary_retry = std::time::Duration::from_secs(1);
        })
        .await;
    let mut stream = house.client.run(spec(FOREVER)).await.unwrap();
    assert!(matches!(stream.next().await, Some(RunEvent::Chunk(_))));
    engine.kill().await;
    let end = stream.collect().await.finished.outcome;
    let Outcome::Lost { reason } = end else {
        panic!("{end:?}");
    };
    assert!(reason.contains("cannot be reached"), "{reason}");
    // Nothing runs, and the status says why.
    let (reason, _) = not_ready(&house).await;
    assert!(reason.contains("engine"), "{reason}");

    Engine::start();
    house
        .until_again(|s| s.readiness == Readiness::Ready && s.pool.idle > 0)
        .await;
    assert_eq!(text(&house.run("print(1)").await.stdout), "1\n");
    house.close().await;
    engine.until(&owner, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_image_under_the_name_is_taken_up_and_pinned() {
    let engine = Engine::shared();
    let mut options = engine.options(EngineRuntime::Runc);
    let name = options.owner.clone();
    options.image.clone_from(&name);
    options.look_every = std::time::Duration::from_secs(1);
    engine.tag(SANDBOX_IMAGE, &name).await;
    let house = House::with(|broker| broker.tier = TierChoice::Docker(options)).await;
    let before = house.client.status().await.unwrap().image.unwrap();
    let waiting = engine.containers(&name).await[0].id.clone().unwrap();
    let other = engine.commit(&waiting, &name).await;
    assert_ne!(other, before);
    // Within one look at the engine.
    house
        .until_again(|s| {
            s.readiness == Readiness::Ready && s.pool.idle > 0 && s.image.as_ref() == Some(&other)
        })
        .await;
    let pinned = house
        .run_with("print(1)", |spec| spec.image = Some(other))
        .await;
    assert_eq!(text(&pinned.stdout), "1\n");
    let old = house
        .run_with("print(1)", |spec| spec.image = Some(before))
        .await;
    assert!(matches!(old.finished.outcome, Outcome::StartFailed { .. }));
    house.close().await;
    engine.until(&name, 0).await;
    engine.untag(&name).await;
}

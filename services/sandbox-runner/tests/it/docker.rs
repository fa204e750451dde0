//! The `docker` tier with a real engine.

use std::time::Duration;

use kazma_sandbox_runner::broker::{EngineRuntime, Outcome};

use crate::{engine::Engine, house::text};

#[tokio::test(flavor = "multi_thread")]
async fn the_sum_of_the_first_ten_numbers_is_45_in_a_container() {
    let engine = Engine::shared();
    let (house, owner) = engine.house(EngineRuntime::Runc, |_| {}).await;
    let run = house.run("print(sum(range(10)))").await;
    assert_eq!(text(&run.stdout), "45\n", "{}", text(&run.stderr));
    assert_eq!(run.finished.outcome, Outcome::Exited { code: 0 });
    let status = house.client.status().await.unwrap();
    assert_eq!(
        (status.tier.as_str(), status.enforcer.as_str()),
        ("docker", "runc")
    );
    assert!(status.image.unwrap().starts_with("sha256:"));
    house.close().await;
    engine.until(&owner, 0).await;
    let _ = Duration::ZERO;
}

#[tokio::test(flavor = "multi_thread")]
async fn gvisor_runs_code_too() {
    let engine = Engine::shared();
    let (house, owner) = engine.house(EngineRuntime::Runsc, |_| {}).await;
    let run = house
        .run("print(sum(range(10)), open('/proc/version').read().split()[2])")
        .await;
    assert_eq!(
        text(&run.stdout),
        "45 4.4.0\n",
        "{} {:?}",
        text(&run.stderr),
        run.finished
    );
    assert_eq!(run.finished.outcome, Outcome::Exited { code: 0 });
    let status = house.client.status().await.unwrap();
    assert_eq!(status.enforcer, "runsc");
    house.close().await;
    engine.until(&owner, 0).await;
}

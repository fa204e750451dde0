//! Which tier is taken when none is named.

use kazma_sandbox_runner::broker::{EngineRuntime, TierChoice};

use crate::{
    engine::Engine,
    house::{House, text},
};

#[tokio::test(flavor = "multi_thread")]
async fn containers_are_taken_where_engine_and_image_are_there() {
    let engine = Engine::shared();
    let mut nowhere = engine.options(EngineRuntime::Runc);
    nowhere.socket = "/no/such/engine.sock".into();
    let mut no_image = engine.options(EngineRuntime::Runc);
    no_image.image = "kazma-no-such-image".to_owned();
    let here = engine.options(EngineRuntime::Runc);
    let both = vec![nowhere.clone(), here];
    for (engines, tier, note) in [
        (Vec::new(), "native", "No containers"),
        (
            vec![nowhere],
            "native",
            "no container engine listens at /no/such",
        ),
        (vec![no_image], "native", "scripts/images makes it"),
        (both, "docker", "has the image kazma-sandbox"),
    ] {
        let house = House::with(|broker| broker.tier = TierChoice::Auto(engines)).await;
        let status = house.client.status().await.unwrap();
        assert_eq!(status.tier, tier);
        assert!(status.note.contains(note), "{}", status.note);
        assert_eq!(text(&house.run("print(1)").await.stdout), "1\n");
        house.close().await;
    }
}

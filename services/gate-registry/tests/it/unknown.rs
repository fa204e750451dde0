//! The answer to a commit is lost: nobody is told that it was kept, and nobody who waits for it waits in vain.

use std::time::Duration;

use kazma_domain::Decision;
use kazma_edge::ApiError;
use kazma_gate_registry::Error;
use kazma_wire::poll::Poll;

use crate::{
    house::{House, RUNNER, ada, ballot},
    passage::Passage,
    server::{OwnServer, own_schema},
};

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_what_may_have_been_kept_is_told_to_look() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let server = tokio::task::spawn_blocking(move || OwnServer::start(&path));
    let server = server.await.unwrap();
    let passage = Passage::to(&server.url);
    let house = House::at(Some(own_schema(&passage.url()))).await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    let gate = filed.call.gate.unwrap();
    let card = house.registry.gate(gate).await.unwrap().args_digest;

    let waiting = house.registry.work(
        RUNNER,
        Poll {
            after: 0,
            wait_ms: 30_000,
        },
    );
    let yes = || ballot(&ada(), Decision::Approve, card);
    let deciding = async {
        passage.cut();
        let unknown = house.registry.decide(gate, yes()).await.unwrap_err();
        assert!(
            matches!(&unknown, Error::Store(error) if error.is_unknown()),
            "{unknown:?}"
        );
        let ApiError(problem) = unknown.into();
        assert_eq!(problem.status, 503);
        let said = problem.detail.unwrap();
        assert!(said.contains("not known"), "{said}");
    };
    let both = async { tokio::join!(waiting, deciding) };
    let both = tokio::time::timeout(Duration::from_secs(20), both).await;
    let (work, ()) = both.expect("the poll was not woken");
    assert_eq!(work.unwrap().items[0].call.id, filed.call.id);
    // Asked again, it is what was decided.
    let again = house.registry.decide(gate, yes()).await;
    assert!(
        matches!(&again, Ok(decided) if decided.state == "approved")
            || matches!(&again, Err(Error::GateDecided { by }) if by.name == "Ada"),
        "{again:?}"
    );
    assert_eq!(house.records("gate.decided").await, 1);
    house.registry.close().await.unwrap();
}

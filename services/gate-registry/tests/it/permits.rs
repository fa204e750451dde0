use kazma_domain::{Action, Plan, Refusal, Service, State, call::Denial, permit::PermitFault};
use kazma_gate_registry::Error;
use kazma_wire::executor::{
    Chunk, LoseRequest, OutputRequest, RedeemRequest, ReplanRequest, ReportRequest, WithdrawRequest,
};

use serde_json::json;

use crate::house::{House, RUNNER, ending, plan};

#[tokio::test]
async fn a_permit_is_redeemed_once_and_its_attempt_may_ask_again() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    house.approve(&filed).await;
    let permit = house.collect(&filed).await;
    let attempt = house.id();
    let first = house.redeem(&permit, attempt).await.unwrap();
    assert_eq!(first.call.state.name(), "claimed");
    let again = house.redeem(&permit, attempt).await.unwrap();
    assert_eq!(again.call, first.call);
    let replay = house.redeem(&permit, house.id()).await;
    assert!(
        matches!(replay, Err(Error::Refused(Refusal::Redeemed))),
        "{replay:?}"
    );
    house.settle(&filed, "1").await;
    let replay = house.redeem(&permit, attempt).await;
    assert!(matches!(replay, Err(Error::Refused(Refusal::Redeemed))));
    assert_eq!(house.records("call.claimed").await, 1);
    assert_eq!(house.records("permit.refused").await, 2);
}

#[tokio::test]
async fn an_allowed_call_is_planned_again_once_and_the_first_plan_s_permit_is_void() {
    let house = House::new().await;
    let at = house.turn().await;
    let read = house
        .file(at, 0, "file_read", json!({"path": "a"}))
        .await
        .unwrap();
    let first = read.permit.clone().unwrap();
    let mut other = plan("file_read", json!({"path": "a"}));
    if let Action::ReadFile { path, .. } = &mut other.action {
        "b".clone_into(path);
    }
    let again = |plan: &Plan| {
        let request = ReplanRequest {
            plan: Box::new(plan.clone()),
        };
        house.registry.replan(RUNNER, read.call.id, request)
    };
    let second = again(&other).await.unwrap();
    assert_eq!(second.claims.plan, other.digest().unwrap());
    // The answer was lost: the same plan again gets another permit, not another plan.
    again(&other).await.unwrap();
    assert_eq!(house.records("call.replanned").await, 1);
    let third = plan("file_read", json!({"path": "a"}));
    let refused = again(&third).await;
    assert!(
        matches!(refused, Err(Error::Refused(Refusal::NotAgain))),
        "{refused:?}"
    );
    let void = house.redeem(&first, house.id()).await;
    assert!(
        matches!(void, Err(Error::Refused(Refusal::OtherPlan))),
        "{void:?}"
    );
    let work = house
        .registry
        .work(
            RUNNER,
            kazma_wire::poll::Poll {
                after: 0,
                wait_ms: 0,
            },
        )
        .await
        .unwrap();
    assert_eq!(work.items[0].plan, other);
    house.redeem(&second, house.id()).await.unwrap();
}

#[tokio::test]
async fn what_a_person_approved_is_never_planned_again() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    let mut other = plan("python_exec", json!({"code": "print(1)"}));
    if let Action::RunPython { timeout_ms, .. } = &mut other.action {
        *timeout_ms += 1;
    }
    let request = || ReplanRequest {
        plan: Box::new(other.clone()),
    };
    let id = filed.call.id;
    let asked = house.registry.replan(RUNNER, id, request()).await;
    assert!(matches!(asked, Err(Error::Refused(_))), "{asked:?}");
    house.approve(&filed).await;
    let refused = house.registry.replan(RUNNER, id, request()).await;
    assert!(
        matches!(refused, Err(Error::Refused(Refusal::NotAgain))),
        "{refused:?}"
    );
    let stranger = house.registry.replan(Service::Gateway, id, request()).await;
    assert!(matches!(stranger, Err(Error::Refused(_))), "{stranger:?}");
    let mut foreign = request();
    foreign.plan.arguments = json!({"code": "print(2)"});
    let foreign = house.registry.replan(RUNNER, id, foreign).await;
    assert!(
        matches!(
            foreign,
            Err(Error::Invalid {
                field: "plan.arguments",
                ..
            })
        ),
        "{foreign:?}"
    );
    assert_eq!(house.records("call.replanned").await, 0);
    // What was approved still runs.
    let permit = house.collect(&filed).await;
    house.redeem(&permit, house.id()).await.unwrap();
}

#[tokio::test]
async fn of_many_attempts_at_once_one_claims() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    house.approve(&filed).await;
    let permits = [house.collect(&filed).await, house.collect(&filed).await];
    let attempts = (0..16).map(|n| house.redeem(&permits[n % 2], house.id()));
    let answers = futures_util::future::join_all(attempts).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(house.records("call.claimed").await, 1);
}

#[tokio::test]
async fn an_expired_permit_is_refused_and_another_can_be_collected() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    house.approve(&filed).await;
    let old = house.collect(&filed).await;
    house.clock.pass(60);
    let late = house.redeem(&old, house.id()).await;
    assert!(
        matches!(late, Err(Error::Refused(Refusal::PermitExpired))),
        "{late:?}"
    );
    let fresh = house.collect(&filed).await;
    house.redeem(&fresh, house.id()).await.unwrap();
}

#[tokio::test]
async fn a_permit_is_good_as_it_was_signed_and_for_its_audience_alone() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    house.approve(&filed).await;
    let permit = house.collect(&filed).await;
    let mut stretched = permit.clone();
    stretched.claims.expires_at = jiff::Timestamp::MAX;
    let refused = house.redeem(&stretched, house.id()).await;
    assert!(matches!(
        refused,
        Err(Error::Permit(PermitFault::Signature))
    ));
    let request = RedeemRequest {
        permit,
        attempt: house.id(),
    };
    let refused = house.registry.redeem(Service::RunnerEgress, request).await;
    assert!(matches!(refused, Err(Error::Permit(PermitFault::Audience))));
    let refused = house
        .registry
        .collect(Service::RunnerEgress, filed.call.id)
        .await;
    assert!(matches!(
        refused,
        Err(Error::Refused(Refusal::NotTheExecutor))
    ));
    assert_eq!(house.state(at, 0).await, "approved");
}

#[tokio::test]
async fn settling_is_idempotent_and_goes_to_the_ledger_once() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(45)").await;
    let early = house
        .registry
        .settle(RUNNER, filed.call.id, ending("45"))
        .await;
    assert!(matches!(early, Err(Error::Refused(_))), "{early:?}");
    house.begin(&filed).await;
    house.settle(&filed, "45").await;
    house.settle(&filed, "45").await;
    let mut other = ending("46");
    other.outcome.ok = false;
    let refused = house.registry.settle(RUNNER, filed.call.id, other).await;
    assert!(matches!(
        refused,
        Err(Error::Refused(Refusal::SettledOtherwise))
    ));
    // The message and one result.
    let page = house.registry.ledger(at.0, 0).await.unwrap();
    assert_eq!(page.items.len(), 2);
    assert_eq!(house.records("call.settled").await, 1);
}

#[tokio::test]
async fn what_changed_is_withdrawn_and_what_is_lost_is_orphaned() {
    let house = House::new().await;
    let at = house.turn().await;
    let changed = house.python(at, 0, "print(0)").await;
    house.approve(&changed).await;
    let reason = "the file changed".to_owned();
    let call = house
        .registry
        .withdraw(RUNNER, changed.call.id, WithdrawRequest { reason })
        .await
        .unwrap();
    assert!(matches!(
        call.state,
        State::Denied {
            by: Denial::Changed { .. },
            ..
        }
    ));

    let lost = house.python(at, 1, "print(1)").await;
    house.begin(&lost).await;
    let what = "the jail died with its parent".to_owned();
    let call = house
        .registry
        .lose(RUNNER, lost.call.id, LoseRequest { what })
        .await
        .unwrap();
    assert_eq!(call.state.name(), "orphaned");
    let late = house
        .registry
        .settle(RUNNER, lost.call.id, ending("1"))
        .await;
    assert!(matches!(late, Err(Error::Refused(_))));
    assert!(
        house
            .registry
            .claims(RUNNER)
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn a_claim_lives_while_it_is_reported() {
    let house = House::new().await;
    let at = house.turn().await;
    let kept = house.python(at, 0, "print(0)").await;
    let silent = house.python(at, 1, "print(1)").await;
    house.begin(&kept).await;
    house.begin(&silent).await;
    let report = || ReportRequest {
        calls: vec![kept.call.id, house.id()],
    };
    house.clock.pass(200);
    house.registry.report(RUNNER, report()).await.unwrap();
    let stranger = house.registry.report(Service::RunnerEgress, report()).await;
    assert!(matches!(
        stranger,
        Err(Error::Refused(Refusal::NotTheExecutor))
    ));
    house.clock.pass(100);
    house.registry.sweep().await.unwrap();
    assert_eq!(house.state(at, 0).await, "claimed");
    assert_eq!(house.state(at, 1).await, "orphaned");
    let claims = house.registry.claims(RUNNER).await.unwrap().items;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].call.id, kept.call.id);
}

#[tokio::test]
async fn only_a_running_call_prints() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    let chunks = |stream: &str, length: usize| OutputRequest {
        chunks: vec![Chunk {
            stream: stream.to_owned(),
            text: "x".repeat(length),
        }],
    };
    let early = house
        .registry
        .output(RUNNER, filed.call.id, chunks("stdout", 1))
        .await;
    assert!(matches!(early, Err(Error::Refused(_))), "{early:?}");
    house.begin(&filed).await;
    house
        .registry
        .output(RUNNER, filed.call.id, chunks("stdout", 16 * 1024))
        .await
        .unwrap();
    for bad in [chunks("stdout", 16 * 1024 + 1), chunks("stdin", 1)] {
        let refused = house.registry.output(RUNNER, filed.call.id, bad).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
}

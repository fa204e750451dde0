//! The gate machine under every order of random events.

use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;

fn any_service() -> impl Strategy<Value = Service> {
    prop_oneof![4 => Just(ME), 1 => Just(Service::RunnerEgress)]
}

fn any_card() -> impl Strategy<Value = Digest> {
    prop_oneof![3 => Just(digest(CARD)), 1 => Just(digest(b"new"))]
}

fn any_event() -> impl Strategy<Value = Event> {
    let vote = (
        1_u128..4,
        any::<bool>(),
        any_card(),
        1_u32..4,
        0_usize..Role::ALL.len(),
    )
        .prop_map(|(by, yes, card, electorate, role)| Event::Vote {
            vote: vote(
                by,
                if yes {
                    Decision::Approve
                } else {
                    Decision::Deny
                },
            ),
            role: Role::ALL[role],
            card,
            electorate,
        });
    let redeem = (
        0_u128..3,
        0_u128..3,
        -50_i64..3_000,
        any::<bool>(),
        any_service(),
    )
        .prop_map(|(permit, attempt, until, fits, executor)| Event::Redeem {
            permit: id(100 + permit),
            permit_expires_at: at(until),
            plan: digest(if fits { PLAN } else { b"other" }),
            executor,
            attempt: id(200 + attempt),
        });
    prop_oneof![
        4 => vote,
        4 => redeem,
        1 => any_card().prop_map(|card| Event::Recard { card }),
        2 => (0_usize..Role::ALL.len()).prop_map(|role| Event::Extend { role: Role::ALL[role] }),
        1 => any_service().prop_map(|executor| Event::Report { executor }),
        2 => (any_service(), any::<bool>()).prop_map(|(executor, ok)| Event::Settle { executor, outcome: outcome(ok) }),
        1 => (any_service(), any::<bool>()).prop_map(|(executor, same)| Event::Replan { executor, plan: digest(if same { PLAN } else { b"other" }) }),
        1 => any_service().prop_map(|executor| Event::Withdraw { executor, reason: "changed".to_owned() }),
        1 => any_service().prop_map(|executor| Event::Lose { executor, what: "gone".to_owned() }),
        1 => Just(Event::Cancel),
        1 => Just(Event::Supersede { by: id(9) }),
        2 => Just(Event::Tick),
    ]
}

fn first_state() -> impl Strategy<Value = State> {
    prop_oneof![
        3 => Just(pending()),
        1 => Just(State::Approved {
            grounds: Grounds::Rule { rule: "tier-read".to_owned() },
            use_before: at(1_000),
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whatever_happens_the_gate_holds(
        first in first_state(),
        steps in prop::collection::vec((any_event(), 0_i64..400), 1..40),
    ) {
        let allowed_by_rule = matches!(first, State::Approved { .. });
        let mut call = call(first);
        if allowed_by_rule {
            call.version = FIRST_VERSION;
        }
        let mut clock = 0;
        let mut claims = 0;
        let mut plans = 0;
        let mut approved_by_a_vote = false;
        for (event, seconds) in steps {
            clock += seconds;
            let moment = now(clock);
            let before = call.clone();
            let result = call.apply(&event, moment);
            let next = match result {
                Ok(Applied::Changed(next)) => *next,
                // What fails or repeats has nothing to change it with.
                Ok(Applied::Unchanged) | Err(_) => continue,
            };
            // An ended call never changes.
            prop_assert!(!before.state.is_final(), "{} + {event:?}", before.state.name());
            // The version only grows, and the call stays the call.
            prop_assert_eq!(next.version, before.version + 1);
            let mut same = Call { version: before.version, state: before.state.clone(), ..next.clone() };
            // Another plan takes the place of one that a rule allowed, once, before anything ran.
            if let Event::Replan { plan, .. } = &event {
                plans += 1;
                prop_assert!(allowed_by_rule && plans == 1);
                prop_assert_eq!(&next.state, &before.state);
                prop_assert_eq!(&next.plan, plan);
                same.plan = before.plan;
            }
            prop_assert_eq!(&same, &before);
            // Only its executor moves what runs.
            if let Event::Redeem { executor, .. }
            | Event::Report { executor }
            | Event::Settle { executor, .. }
            | Event::Replan { executor, .. }
            | Event::Withdraw { executor, .. }
            | Event::Lose { executor, .. } = &event
            {
                prop_assert_eq!(*executor, before.executor);
            }
            if let Event::Extend { role } = &event {
                prop_assert!(role.may_decide());
                prop_assert!(next.state.deadline() > before.state.deadline());
            }
            match (&before.state, &next.state) {
                // Only a person's vote approves, on exactly this card, in time: silence never does.
                (State::Pending { card, expires_at, .. }, State::Approved { grounds, .. }) => {
                    let Event::Vote { vote, role, card: seen, .. } = &event else {
                        return Err(TestCaseError::fail(format!("{event:?} approved")));
                    };
                    prop_assert!(role.may_decide());
                    prop_assert_eq!(seen, card);
                    prop_assert_eq!(vote.decision, Decision::Approve);
                    prop_assert!(moment.now < *expires_at);
                    prop_assert_eq!(grounds.vote(), Some(vote));
                    approved_by_a_vote = true;
                }
                (State::Approved { .. }, State::Approved { .. }) => {
                    prop_assert!(matches!(event, Event::Replan { .. }), "{event:?} changed it");
                }
                (from, State::Approved { .. }) => {
                    return Err(TestCaseError::fail(format!("approved from {}", from.name())));
                }
                // Claimed at most once, and only what was approved, for the plan that was.
                (State::Approved { use_before, .. }, State::Claimed { .. }) => {
                    claims += 1;
                    prop_assert!(allowed_by_rule || approved_by_a_vote);
                    prop_assert!(moment.now < *use_before);
                    let Event::Redeem { plan, permit_expires_at, .. } = &event else {
                        return Err(TestCaseError::fail(format!("{event:?} claimed")));
                    };
                    prop_assert_eq!(*plan, before.plan);
                    prop_assert!(moment.now < *permit_expires_at);
                }
                (State::Claimed { permit, attempt, .. }, State::Claimed { permit: p, attempt: a, .. }) => {
                    prop_assert_eq!((permit, attempt), (p, a));
                }
                (from, State::Claimed { .. } | State::Settled { .. } | State::Orphaned { .. }) => {
                    prop_assert!(matches!(from, State::Claimed { .. }), "from {}", from.name());
                }
                _ => {}
            }
            prop_assert!(claims <= 1);
            call = next;
        }
        // Time ends whatever is left, and what waited did not run.
        let end = Moment { now: at(clock) + SignedDuration::from_hours(48), started: at(-100_000) };
        if let Ok(Applied::Changed(over)) = call.apply(&Event::Tick, end) {
            prop_assert!(over.state.is_final());
            prop_assert_ne!(over.state.name(), "settled");
        } else {
            prop_assert!(call.state.is_final());
        }
    }
}

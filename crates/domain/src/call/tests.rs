use super::*;
use crate::{clock::test::at, person::Surface};

mod properties;

const ME: Service = Service::RunnerApi;
const PLAN: &[u8] = b"plan";
const CARD: &[u8] = b"card";

fn id<K: crate::id::Kind>(n: u128) -> crate::id::Id<K> {
    crate::id::Id::from_uuid(uuid::Uuid::from_u128(n))
}

fn digest(bytes: &[u8]) -> Digest {
    Digest::of_bytes(bytes)
}

fn vote(by: u128, decision: Decision) -> Vote {
    Vote {
        decision,
        by: id(by),
        name: format!("person {by}"),
        surface: Surface::Web,
        at: at(0),
        reason: None,
    }
}

fn outcome(ok: bool) -> Outcome {
    Outcome {
        ok,
        summary: "exit 0".to_owned(),
    }
}

fn call(state: State) -> Call {
    Call {
        id: id(1),
        gate: Some(id(2)),
        thread: id(3),
        turn: id(4),
        index: 0,
        principal: Service::Agent,
        executor: ME,
        plan: digest(PLAN),
        version: 7,
        state,
    }
}

/// A moment long after the registry's start, so that no grace is left.
fn now(seconds: i64) -> Moment {
    Moment {
        now: at(seconds),
        started: at(-100_000),
    }
}

fn grounds() -> Grounds {
    Grounds::Person {
        vote: vote(1, Decision::Approve),
        card: digest(CARD),
    }
}

fn pending() -> State {
    State::Pending {
        expires_at: at(1_000),
        card: digest(CARD),
        votes: Vec::new(),
    }
}

fn claimed() -> State {
    State::Claimed {
        grounds: grounds(),
        permit: id(10),
        attempt: id(11),
        at: at(0),
        reported_at: at(0),
    }
}

/// One of every state.
fn states() -> Vec<State> {
    vec![
        pending(),
        State::Approved {
            grounds: grounds(),
            use_before: at(1_000),
        },
        claimed(),
        State::Settled {
            grounds: grounds(),
            outcome: outcome(true),
            at: at(0),
        },
        State::Denied {
            by: Denial::People {
                votes: vec![vote(1, Decision::Deny)],
            },
            at: at(0),
        },
        State::Expired {
            approved: false,
            at: at(0),
        },
        State::Cancelled { at: at(0) },
        State::Superseded {
            by: id(9),
            at: at(0),
        },
        State::Orphaned {
            grounds: grounds(),
            what: "gone".to_owned(),
            at: at(0),
        },
    ]
}

fn ballot(by: u128, decision: Decision) -> Event {
    Event::Vote {
        vote: vote(by, decision),
        role: Role::Approver,
        card: digest(CARD),
        electorate: 1,
    }
}

fn redeem() -> Event {
    Event::Redeem {
        permit: id(10),
        permit_expires_at: at(60),
        plan: digest(PLAN),
        executor: ME,
        attempt: id(11),
    }
}

/// One of every event, with the name the table uses.
fn events() -> Vec<(&'static str, Event)> {
    vec![
        ("approve", ballot(2, Decision::Approve)),
        ("deny", ballot(2, Decision::Deny)),
        (
            "recard",
            Event::Recard {
                card: digest(b"new"),
            },
        ),
        (
            "extend",
            Event::Extend {
                role: Role::Approver,
            },
        ),
        ("redeem", redeem()),
        ("report", Event::Report { executor: ME }),
        (
            "settle",
            Event::Settle {
                executor: ME,
                outcome: outcome(true),
            },
        ),
        (
            "replan",
            Event::Replan {
                executor: ME,
                plan: digest(b"new plan"),
            },
        ),
        (
            "withdraw",
            Event::Withdraw {
                executor: ME,
                reason: "changed".to_owned(),
            },
        ),
        (
            "lose",
            Event::Lose {
                executor: ME,
                what: "gone".to_owned(),
            },
        ),
        ("cancel", Event::Cancel),
        ("supersede", Event::Supersede { by: id(9) }),
        ("tick", Event::Tick),
    ]
}

/// What (state, event) comes to, in a word: the next state, `same` for a repetition, or the refusal.
fn word(result: &Result<Applied, Refusal>) -> String {
    match result {
        Ok(Applied::Changed(next)) => next.state.name().to_owned(),
        Ok(Applied::Unchanged) => "same".to_owned(),
        Err(Refusal::Decided { .. }) => "decided!".to_owned(),
        Err(Refusal::NotNow { .. }) => "not now!".to_owned(),
        Err(Refusal::Redeemed) => "redeemed!".to_owned(),
        Err(other) => format!("{other:?}!"),
    }
}

#[test]
fn the_table_of_every_state_and_event() {
    let table = [
        // state, then: approve deny recard extend redeem report settle replan withdraw lose cancel supersede tick
        "pending    | approved denied pending same not_now! not_now! not_now! not_now! not_now! not_now! cancelled superseded same",
        "approved   | decided! decided! not_now! not_now! claimed not_now! not_now! NotAgain! denied not_now! cancelled not_now! same",
        "claimed    | decided! decided! not_now! not_now! same claimed settled not_now! not_now! orphaned not_now! not_now! same",
        "settled    | decided! decided! not_now! not_now! redeemed! not_now! same not_now! not_now! not_now! not_now! not_now! same",
        "denied     | decided! decided! not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! same",
        "expired    | not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! same",
        "cancelled  | not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! same not_now! same",
        "superseded | not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! not_now! same",
        "orphaned   | decided! decided! not_now! not_now! redeemed! not_now! not_now! not_now! not_now! same not_now! not_now! same",
    ];
    for (state, line) in states().into_iter().zip(table) {
        let (name, cells) = line.split_once('|').unwrap();
        assert_eq!(name.trim(), state.name());
        let cells: Vec<&str> = cells.split_whitespace().collect();
        assert_eq!(cells.len(), events().len(), "{name}");
        for ((event_name, event), expected) in events().into_iter().zip(cells) {
            let result = call(state.clone()).apply(&event, now(10));
            assert_eq!(
                word(&result).replace(' ', "_"),
                expected,
                "{} + {event_name}",
                state.name()
            );
        }
    }
}

#[test]
fn time_alone_ends_what_waits_and_never_approves() {
    let late = now(100_000);
    let expected = [
        "expired", "expired", "orphaned", "same", "same", "same", "same", "same", "same",
    ];
    for (state, expected) in states().into_iter().zip(expected) {
        let result = call(state.clone()).apply(&Event::Tick, late);
        assert_eq!(word(&result), expected, "{}", state.name());
    }
}

#[test]
fn only_who_may_decide_decides_and_only_on_the_card_they_saw_and_in_time() {
    let asked = call(pending());
    let mut event = ballot(1, Decision::Approve);
    if let Event::Vote { role, .. } = &mut event {
        *role = Role::Viewer;
    }
    assert_eq!(
        asked.apply(&event, now(10)),
        Err(Refusal::MayNot { role: Role::Viewer })
    );
    let mut event = ballot(1, Decision::Approve);
    if let Event::Vote { card, .. } = &mut event {
        *card = digest(b"other");
    }
    assert_eq!(asked.apply(&event, now(10)), Err(Refusal::OtherCard));
    let approve = ballot(1, Decision::Approve);
    assert_eq!(asked.apply(&approve, now(1_000)), Err(Refusal::TooLate));
}

#[test]
fn with_several_voters_one_approves_and_all_must_deny() {
    let two = |by, decision| {
        let mut event = ballot(by, decision);
        if let Event::Vote { electorate, .. } = &mut event {
            *electorate = 2;
        }
        event
    };
    let asked = call(pending());
    let first = changed(asked.apply(&two(1, Decision::Deny), now(10)));
    assert_eq!(first.state.name(), "pending");
    // The same again by the same person is no second vote.
    let again = first.apply(&two(1, Decision::Deny), now(11));
    assert_eq!(again, Ok(Applied::Unchanged));
    let denied = changed(first.apply(&two(2, Decision::Deny), now(12)));
    assert_eq!(denied.state.name(), "denied");
    // Both said it, so both get the same answer again; who says otherwise learns who was first.
    for by in [1, 2] {
        let again = denied.apply(&two(by, Decision::Deny), now(13));
        assert_eq!(again, Ok(Applied::Unchanged), "{by}");
    }
    let late = denied.apply(&two(1, Decision::Approve), now(13));
    assert!(matches!(late, Err(Refusal::Decided { by }) if by.by == id(2)));

    let approved = changed(first.apply(&two(2, Decision::Approve), now(12)));
    assert_eq!(approved.state.name(), "approved");
    // A mind changed is one vote, not two.
    let changed_mind = changed(first.apply(&two(1, Decision::Approve), now(12)));
    assert_eq!(changed_mind.state.name(), "approved");
    // A single denial that nobody joined settles as a denial when the time is over.
    let over = changed(first.apply(&Event::Tick, now(1_000)));
    assert!(matches!(
        over.state,
        State::Denied { by: Denial::People { ref votes }, .. } if votes.len() == 1
    ));
}

#[test]
fn who_is_left_alone_with_their_denial_can_settle_it() {
    let mut first = ballot(1, Decision::Deny);
    if let Event::Vote { electorate, .. } = &mut first {
        *electorate = 2;
    }
    let waiting = changed(call(pending()).apply(&first, now(10)));
    assert_eq!(waiting.state.name(), "pending");
    // The other one is removed: nobody else is waited for.
    let denied = changed(waiting.apply(&ballot(1, Decision::Deny), now(20)));
    assert!(matches!(
        denied.state,
        State::Denied { by: Denial::People { ref votes }, .. } if votes.len() == 1
    ));
}

#[test]
fn another_card_voids_the_votes_on_the_old_one() {
    let mut deny = ballot(1, Decision::Deny);
    if let Event::Vote { electorate, .. } = &mut deny {
        *electorate = 2;
    }
    let first = changed(call(pending()).apply(&deny, now(10)));
    let card = digest(b"x2");
    let next = changed(first.apply(&Event::Recard { card }, now(11)));
    assert!(matches!(
        &next.state,
        State::Pending { votes, card: now, .. } if votes.is_empty() && *now == card
    ));
    let old = next.apply(&ballot(1, Decision::Approve), now(12));
    assert_eq!(old, Err(Refusal::OtherCard));
}

#[test]
fn more_time_is_given_to_who_may_decide_and_before_it_is_over() {
    let asked = call(pending());
    let more = Event::Extend {
        role: Role::Approver,
    };
    let next = changed(asked.apply(&more, now(999)));
    assert_eq!(next.state.deadline(), Some(at(999 + 600)));
    // The same card, and who had the time left loses none of it.
    assert_eq!(next.apply(&more, now(999)), Ok(Applied::Unchanged));
    assert_eq!(asked.apply(&more, now(100)), Ok(Applied::Unchanged));
    assert_eq!(asked.apply(&more, now(1_000)), Err(Refusal::TooLate));
    let role = Role::Viewer;
    let refused = asked.apply(&Event::Extend { role }, now(999));
    assert_eq!(refused, Err(Refusal::MayNot { role }));
    let approved = changed(next.apply(&ballot(1, Decision::Approve), now(1_500)));
    assert_eq!(approved.state.name(), "approved");
}

#[test]
fn only_what_a_rule_allowed_is_planned_again_and_once() {
    let by_rule = Call {
        version: FIRST_VERSION,
        ..call(State::Approved {
            grounds: Grounds::Rule {
                rule: "tier-read".to_owned(),
            },
            use_before: at(1_000),
        })
    };
    let again = |plan: &[u8]| Event::Replan {
        executor: ME,
        plan: digest(plan),
    };
    assert_eq!(by_rule.apply(&again(PLAN), now(10)), Ok(Applied::Unchanged));
    let next = changed(by_rule.apply(&again(b"second"), now(10)));
    assert_eq!(
        (next.plan, &next.state),
        (digest(b"second"), &by_rule.state)
    );
    assert_eq!(
        next.apply(&again(b"second"), now(10)),
        Ok(Applied::Unchanged)
    );
    assert_eq!(
        next.apply(&again(b"third"), now(10)),
        Err(Refusal::NotAgain)
    );
    assert_eq!(
        by_rule.apply(&again(b"late"), now(1_000)),
        Err(Refusal::TooLate)
    );
    // The permit for the first plan is worth nothing now.
    assert_eq!(next.apply(&redeem(), now(10)), Err(Refusal::OtherPlan));
    let by_person = call(states().remove(1));
    assert_eq!(
        by_person.apply(&again(b"x"), now(10)),
        Err(Refusal::NotAgain)
    );
}

#[test]
fn a_permit_works_once_for_its_plan_and_in_time() {
    let approved = call(states().remove(1));
    let with = |change: &dyn Fn(&mut Event)| {
        let mut event = redeem();
        change(&mut event);
        approved.apply(&event, now(10))
    };
    let other_plan = with(&|event| {
        if let Event::Redeem { plan, .. } = event {
            *plan = digest(b"other");
        }
    });
    assert_eq!(other_plan, Err(Refusal::OtherPlan));
    let old = with(&|event| {
        if let Event::Redeem {
            permit_expires_at, ..
        } = event
        {
            *permit_expires_at = at(10);
        }
    });
    assert_eq!(old, Err(Refusal::PermitExpired));
    let lapsed = approved.apply(
        &Event::Redeem {
            permit: id(10),
            permit_expires_at: at(2_000),
            plan: digest(PLAN),
            executor: ME,
            attempt: id(11),
        },
        now(1_000),
    );
    assert_eq!(lapsed, Err(Refusal::TooLate));

    let begun = changed(approved.apply(&redeem(), now(10)));
    // The same attempt gets the same answer, also when the permit has expired meanwhile.
    assert_eq!(begun.apply(&redeem(), now(500)), Ok(Applied::Unchanged));
    let mut second = redeem();
    if let Event::Redeem { attempt, .. } = &mut second {
        *attempt = id(12);
    }
    assert_eq!(begun.apply(&second, now(11)), Err(Refusal::Redeemed));
    let mut other = redeem();
    if let Event::Redeem { permit, .. } = &mut other {
        *permit = id(13);
    }
    assert_eq!(begun.apply(&other, now(11)), Err(Refusal::Redeemed));
}

#[test]
fn nobody_but_its_executor_touches_a_call() {
    let stranger = Service::RunnerEgress;
    for state in states() {
        for event in [
            Event::Redeem {
                permit: id(10),
                permit_expires_at: at(60),
                plan: digest(PLAN),
                executor: stranger,
                attempt: id(11),
            },
            Event::Report { executor: stranger },
            Event::Settle {
                executor: stranger,
                outcome: outcome(true),
            },
            Event::Withdraw {
                executor: stranger,
                reason: String::new(),
            },
            Event::Lose {
                executor: stranger,
                what: String::new(),
            },
        ] {
            assert_eq!(
                call(state.clone()).apply(&event, now(10)),
                Err(Refusal::NotTheExecutor),
                "{} + {event:?}",
                state.name()
            );
        }
    }
}

#[test]
fn the_registry_judges_by_its_own_uptime() {
    // Started just now, long after every deadline.
    let fresh = |after_start: i64| Moment {
        now: at(500_000 + after_start),
        started: at(500_000),
    };
    let asked = call(pending());
    assert_eq!(asked.apply(&Event::Tick, fresh(59)), Ok(Applied::Unchanged));
    let answered = asked.apply(&ballot(1, Decision::Approve), fresh(59));
    assert_eq!(word(&answered), "approved");
    assert_eq!(word(&asked.apply(&Event::Tick, fresh(60))), "expired");
    let running = call(claimed());
    assert_eq!(
        running.apply(&Event::Tick, fresh(299)),
        Ok(Applied::Unchanged)
    );
    assert_eq!(word(&running.apply(&Event::Tick, fresh(300))), "orphaned");
}

#[test]
fn an_outcome_is_said_once() {
    let done = call(states().remove(3));
    let settle = |ok| Event::Settle {
        executor: ME,
        outcome: outcome(ok),
    };
    assert_eq!(done.apply(&settle(true), now(10)), Ok(Applied::Unchanged));
    assert_eq!(
        done.apply(&settle(false), now(10)),
        Err(Refusal::SettledOtherwise)
    );
}

#[test]
fn a_state_reads_back_as_it_was_written() {
    for state in states() {
        let text = serde_json::to_string(&state).unwrap();
        assert!(text.contains(&format!(r#""state":"{}""#, state.name())));
        assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
    }
}

fn changed(result: Result<Applied, Refusal>) -> Call {
    match result {
        Ok(Applied::Changed(call)) => *call,
        other => panic!("expected a change, got {other:?}"),
    }
}

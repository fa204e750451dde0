//! The floor. Source: architecture, "The floor: what `decide()` may never do".

use kazma_domain::{Service, Tier, Tool};
use kazma_faults::{Check, instead, wrong};

/// The version of these rules; permits name it.
pub const POLICY_VERSION: u32 = 1;

/// A call that asks to be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The tool as the model named it.
    pub tool: &'a str,
    /// How the call came.
    pub route: Route,
}

/// How a call came to the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// An executor filed it with a plan.
    Executor(Service),
    /// The agent found no executor for it.
    Unroutable,
}

/// What is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may run without a card.
    Allow {
        /// The rule's name.
        rule: &'static str,
    },
    /// A person is asked.
    Ask {
        /// The rule's name.
        rule: &'static str,
        /// Why, for the card.
        reason: String,
    },
    /// It will not run.
    Deny {
        /// The rule's name.
        rule: &'static str,
        /// Why, and what to do instead.
        reason: String,
    },
}

/// Decides one call by the catalogue alone.
pub fn decide(request: &Request<'_>) -> Verdict {
    let tool = Tool::find(request.tool);
    match (request.route, tool) {
        (Route::Unroutable, None) => Verdict::Deny {
            rule: "unknown-tool",
            reason: "unknown tool: no part of Kazma has a tool of this name".to_owned(),
        },
        (Route::Executor(service), Some(tool))
            if wrong(Check::FloorExecutor, service != tool.executor) =>
        {
            Verdict::Deny {
                rule: "wrong-executor",
                reason: format!("{} is not run by {service}", tool.name),
            }
        }
        (_, Some(tool)) if wrong(Check::FloorNotBuilt, !tool.is_built()) => Verdict::Deny {
            rule: "not-built",
            reason: format!("{} is not built in this version", tool.name),
        },
        (Route::Unroutable, Some(tool)) => Verdict::Deny {
            rule: "unroutable",
            reason: format!(
                "{} is run by {}; it was not named there",
                tool.name, tool.executor
            ),
        },
        // By its exact name alone it is nobody's: whoever offers it, a person looks first.
        (Route::Executor(service), None) => checked(
            Check::FloorUnclassified,
            Verdict::Ask {
                rule: "unclassified",
                reason: format!("nobody has classified this tool; {service} offers it"),
            },
        ),
        (Route::Executor(_), Some(tool)) => by_tier(tool),
    }
}

fn by_tier(tool: &Tool) -> Verdict {
    let ask = |check, rule, reason: &str| {
        checked(
            check,
            Verdict::Ask {
                rule,
                reason: reason.to_owned(),
            },
        )
    };
    match tool.tier {
        Tier::Always => ask(
            Check::FloorAlways,
            "always-asked",
            "this tool needs a person every time, whatever is configured",
        ),
        Tier::Danger => ask(
            Check::FloorDanger,
            "tier-danger",
            "this tool can do what cannot be undone, so a person decides",
        ),
        Tier::Read | Tier::Safe | Tier::Write if tool.leaves_house => ask(
            Check::FloorLeavesHouse,
            "leaves-house",
            "the arguments would leave this machine, so a person decides",
        ),
        Tier::Read => Verdict::Allow { rule: "tier-read" },
        Tier::Safe => Verdict::Allow { rule: "tier-safe" },
        Tier::Write => Verdict::Allow { rule: "tier-write" },
    }
}

/// A verdict that a test may take away.
fn checked(check: Check, verdict: Verdict) -> Verdict {
    instead(check, verdict, || Verdict::Allow { rule: "sabotage" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filed(tool: &str, by: Service) -> Verdict {
        decide(&Request {
            tool,
            route: Route::Executor(by),
        })
    }

    fn rule(verdict: &Verdict) -> (&'static str, &'static str) {
        match verdict {
            Verdict::Allow { rule } => ("allow", rule),
            Verdict::Ask { rule, .. } => ("ask", rule),
            Verdict::Deny { rule, .. } => ("deny", rule),
        }
    }

    #[test]
    fn what_this_build_has_is_decided_by_its_tier() {
        for (tool, expected) in [
            ("python_exec", ("ask", "tier-danger")),
            ("file_write", ("ask", "tier-danger")),
            ("file_read", ("allow", "tier-read")),
            ("file_list", ("allow", "tier-read")),
        ] {
            assert_eq!(rule(&filed(tool, Service::RunnerApi)), expected, "{tool}");
        }
    }

    #[test]
    fn the_whole_table_is_never_gentler_than_the_floor() {
        for tool in Tool::all() {
            let verdict = by_tier(tool);
            let gated = matches!(tool.tier, Tier::Danger | Tier::Always) || tool.leaves_house;
            assert_eq!(
                matches!(verdict, Verdict::Ask { .. }),
                gated,
                "{}: {verdict:?}",
                tool.name
            );
            if tool.tier == Tier::Always {
                assert_eq!(rule(&verdict), ("ask", "always-asked"), "{}", tool.name);
            }
        }
    }

    #[test]
    fn nobody_files_for_another_and_what_is_not_built_is_said_so() {
        for tool in Tool::all() {
            for service in Service::ALL {
                let verdict = filed(tool.name, service);
                if service != tool.executor {
                    assert_eq!(rule(&verdict), ("deny", "wrong-executor"), "{}", tool.name);
                } else if !tool.is_built() {
                    assert_eq!(rule(&verdict), ("deny", "not-built"), "{}", tool.name);
                }
            }
        }
    }

    #[test]
    fn the_unroutable_route_denies_whatever_it_is_given() {
        for (tool, expected) in [
            ("no_such_tool", "unknown-tool"),
            ("code_exec", "not-built"),
            ("file_read", "unroutable"),
        ] {
            let verdict = decide(&Request {
                tool,
                route: Route::Unroutable,
            });
            assert_eq!(rule(&verdict), ("deny", expected), "{tool}");
        }
    }

    proptest! {
        #[test]
        fn a_name_that_is_not_in_the_table_is_never_allowed(name in "[a-z_]{0,24}|mcp__[a-z]{1,8}__read_file|FILE_READ|file_read ") {
            prop_assume!(Tool::find(&name).is_none());
            for service in Service::ALL {
                let verdict = filed(&name, service);
                prop_assert_eq!(rule(&verdict), ("ask", "unclassified"));
            }
        }
    }
}

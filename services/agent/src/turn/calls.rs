//! The executors' side of a turn: filing calls, and learning how each ended.

use std::collections::BTreeMap;

use kazma_domain::{Call, CallId, State, Tool, TurnState};
use kazma_edge::request;
use kazma_faults::{Point, reach};
use kazma_store::agent::{Step, StepCall};
use kazma_wire::{
    Problem,
    agent::UnroutableRequest,
    model::{ChatMessage, ToolCall},
    poll::{Poll, WAIT_MAX_MS},
    runner::PlanRequest,
};
use serde_json::Value;

use super::{Stopped, Turn, stopped};
use crate::{
    clients::{Runner, Seen},
    context::Exchange,
    note::Told,
};

impl Turn<'_> {
    /// Files all calls of a step in their order, waits until each has an end, and says what came of it.
    pub(super) async fn act(&mut self, step: &Step) -> Result<Exchange, Stopped> {
        let mut told = BTreeMap::new();
        let mut filed = BTreeMap::new();
        for call in &step.calls {
            match request::within(self.request_id(), self.file(call)).await? {
                Ok(id) => {
                    reach(Point::Named);
                    if call.call != Some(id) {
                        self.agent
                            .journal
                            .filed(self.live.turn, call.index, id)
                            .await?;
                    }
                    filed.insert(call.index, id);
                }
                Err(refused) => {
                    told.insert(call.index, *refused);
                }
            }
        }
        self.outcomes(&filed, &mut told).await?;
        exchange(step, told)
    }

    /// Names a call to its executor. The same call is named again after a crash: the key is its index.
    async fn file(&mut self, call: &StepCall) -> Result<Result<CallId, Box<Told>>, Stopped> {
        let arguments = match call.arguments.trim() {
            "" => Ok(Value::Object(serde_json::Map::new())),
            text => serde_json::from_str::<Value>(text),
        };
        let runs = Tool::find(&call.tool)
            .filter(|tool| tool.is_built())
            .and_then(|tool| self.agent.runner_of(tool.executor));
        let answer = match arguments {
            Err(error) => {
                let what = format!("not JSON: {error}");
                return Ok(Err(Box::new(Told::invalid(&call.tool, None, &what))));
            }
            Ok(arguments) if !arguments.is_object() => {
                let what = "they must be a JSON object";
                return Ok(Err(Box::new(Told::invalid(&call.tool, None, what))));
            }
            Ok(arguments) => match runs {
                Some(runner) => self.plan(runner, call, arguments).await,
                None => self.unroutable(call, arguments).await,
            },
        };
        match answer {
            Ok(filed) => {
                request::about(filed.id, self.live.thread);
                tracing::info!(state = filed.state.name(), "a call was named");
                Ok(Ok(filed.id))
            }
            Err(problem) if problem.is("turn-closed") => Err(Stopped::Over),
            Err(problem) => {
                // Whatever else is wrong, an ended turn has nobody to tell it to.
                self.stated = None;
                self.state(TurnState::Running).await?;
                Ok(Err(Box::new(Told::not_taken(&call.tool, &problem))))
            }
        }
    }

    async fn plan(
        &self,
        runner: &dyn Runner,
        call: &StepCall,
        arguments: Value,
    ) -> Result<Call, Box<Problem>> {
        let agent = self.agent;
        let request = PlanRequest {
            thread: self.live.thread,
            turn: self.live.turn,
            index: call.index,
            tool: call.tool.clone(),
            arguments,
        };
        agent
            .backoff
            .insist(&*agent.entropy, "runner", || runner.plan(request.clone()))
            .await
    }

    async fn unroutable(&self, call: &StepCall, arguments: Value) -> Result<Call, Box<Problem>> {
        let agent = self.agent;
        let request = UnroutableRequest {
            thread: self.live.thread,
            turn: self.live.turn,
            index: call.index,
            tool: call.tool.clone(),
            arguments,
        };
        agent
            .backoff
            .insist(&*agent.entropy, "registry", || {
                agent.registry.unroutable(request.clone())
            })
            .await
    }

    /// Waits until each of `filed` has an end. Each outcome finds its call by index and id.
    async fn outcomes(
        &mut self,
        filed: &BTreeMap<u32, CallId>,
        told: &mut BTreeMap<u32, Told>,
    ) -> Result<(), Stopped> {
        let agent = self.agent;
        let turn = self.live.turn;
        let mut latest = BTreeMap::<u32, Seen>::new();
        let mut poll = Poll {
            after: 0,
            wait_ms: WAIT_MAX_MS,
        };
        loop {
            let ended = |index: &u32| {
                latest
                    .get(index)
                    .is_some_and(|seen| seen.call.state.is_final())
            };
            if filed.keys().all(ended) {
                break;
            }
            let polled = agent
                .backoff
                .insist(&*agent.entropy, "outcomes", || {
                    agent.registry.calls(turn, poll)
                })
                .await
                .map_err(stopped)?;
            poll.after = polled.seq;
            for seen in polled.items {
                let index = seen.call.index;
                let newer = latest
                    .get(&index)
                    .is_none_or(|known| known.changed <= seen.changed);
                if newer && filed.get(&index) == Some(&seen.call.id) {
                    latest.insert(index, seen);
                }
            }
            self.show_progress(&latest).await?;
        }
        reach(Point::OutcomeSeen);
        for (index, seen) in latest {
            if let Some(outcome) = Told::of(&seen.call, &seen.tool, seen.output) {
                told.insert(index, outcome);
            }
        }
        Ok(())
    }

    /// While a person is asked, the turn is parked and its place belongs to others.
    async fn show_progress(&mut self, latest: &BTreeMap<u32, Seen>) -> Result<(), Stopped> {
        let asked = latest
            .values()
            .any(|seen| matches!(seen.call.state, State::Pending { .. }));
        if latest
            .values()
            .any(|seen| matches!(seen.call.state, State::Cancelled { .. }))
        {
            // The turn may have been ended by a person: ask, before going on as if nothing was.
            self.stated = None;
        }
        if asked {
            self.slot.give_back();
            self.state(TurnState::Parked).await
        } else {
            self.state(TurnState::Running).await
        }
    }
}

/// What a step said and what came of its calls, in their order.
fn exchange(step: &Step, mut told: BTreeMap<u32, Told>) -> Result<Exchange, Stopped> {
    let mut outcomes = Vec::with_capacity(step.calls.len());
    for call in &step.calls {
        // Every call was either filed and waited for, or answered at once.
        let told = told.remove(&call.index).ok_or(Stopped::Over)?;
        outcomes.push((call.model_id.clone(), told));
    }
    let tool_calls = step.calls.iter().map(echo).collect();
    let content = step.text.clone();
    Ok(Exchange::new(
        ChatMessage::Assistant {
            content,
            tool_calls,
        },
        outcomes,
    ))
}

/// The call as the model is reminded of it. Servers refuse a conversation with names or arguments
/// that no well-behaved model writes, so those are not repeated.
fn echo(call: &StepCall) -> ToolCall {
    let name: String = call
        .tool
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
                c
            } else {
                '_'
            }
        })
        .take(64)
        .collect();
    let is_object =
        serde_json::from_str::<Value>(&call.arguments).is_ok_and(|value| value.is_object());
    ToolCall {
        id: call.model_id.clone(),
        name: if name.is_empty() {
            "unnamed".to_owned()
        } else {
            name
        },
        arguments: if is_object {
            call.arguments.clone()
        } else {
            "{}".to_owned()
        },
    }
}

//! The model's side of a turn: what it is told, and what it says.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use kazma_domain::{State, Tool, TurnState, limits};
use kazma_store::agent::{Step, StepCall};
use kazma_wire::{
    model::{ChatRequest, Delta, ModelInfo, ToolCall},
    poll::Poll,
};

use super::{Stopped, Turn, stopped};
use crate::{
    clients::ClientError,
    context::{self, Conversation, Past},
    note::Told,
    words,
};

/// Rounds with the model in one turn.
pub(crate) const STEPS_MAX: u32 = 24;
/// Bytes of an answer's words; the registry keeps a little more of a reply.
const TEXT_MAX: usize = 255 * 1024;
/// How often a model that failed in a way that may pass is asked in all.
const ATTEMPTS: u32 = 3;
/// Other turns of the thread that are asked what they wait for.
const NEIGHBOURS_MAX: usize = 8;

/// What the model said in one answer.
#[derive(Debug, Default)]
struct Said {
    text: String,
    calls: Vec<ToolCall>,
}

/// What asking once came to.
enum Once {
    Said(Said),
    Failed { message: String, retryable: bool },
    Unreachable,
}

impl Turn<'_> {
    pub(super) async fn think(&mut self, number: u32) -> Result<Step, Stopped> {
        if number >= STEPS_MAX {
            return Ok(self.last(number, TurnState::Failed, words::too_many_steps(STEPS_MAX)));
        }
        self.slot.take().await;
        self.state(TurnState::Running).await?;
        let request = self.request().await?;
        let said = match self.ask(&request).await {
            Ok(said) => said,
            Err(message) => {
                return Ok(self.last(number, TurnState::Failed, words::model_failed(&message)));
            }
        };
        if said.calls.is_empty() {
            return Ok(match said.text.trim() {
                "" => self.nothing_said(number),
                _ => self.last(number, TurnState::Done, said.text),
            });
        }
        let wanted = u32::try_from(said.calls.len()).unwrap_or(u32::MAX);
        if self.next_index.saturating_add(wanted) > limits::CALLS_PER_TURN {
            let text = words::too_many_calls(limits::CALLS_PER_TURN);
            return Ok(self.last(number, TurnState::Failed, text));
        }
        let calls = (self.next_index..)
            .zip(said.calls)
            .map(|(index, call)| StepCall {
                index,
                // Models repeat their ids; an answer must find its own call.
                model_id: format!("call_{index}"),
                tool: call.name,
                arguments: call.arguments,
                call: None,
            })
            .collect();
        Ok(Step {
            text: said.text,
            calls,
            ending: None,
            ..self.last(number, TurnState::Done, String::new())
        })
    }

    fn last(&self, number: u32, state: TurnState, text: String) -> Step {
        Step {
            turn: self.live.turn,
            step: number,
            thread: self.live.thread,
            text,
            ending: Some(state),
            calls: Vec::new(),
            at: self.agent.clock.now(),
        }
    }

    /// A turn never ends in silence.
    fn nothing_said(&self, number: u32) -> Step {
        tracing::warn!(turn = %self.live.turn, "the model said nothing, twice");
        let told: Vec<_> = self
            .exchanges
            .last()
            .map(|exchange| exchange.told().map(Told::sentence).collect())
            .unwrap_or_default();
        let state = if told.is_empty() {
            TurnState::Failed
        } else {
            TurnState::Done
        };
        self.last(number, state, words::nothing_said(&told))
    }

    async fn request(&mut self) -> Result<ChatRequest, Stopped> {
        let agent = self.agent;
        if self.conversation.is_none() {
            let info = agent
                .backoff
                .insist(&*agent.entropy, "model", || agent.model.info())
                .await
                .map_err(Stopped::Refused)?;
            let conversation = self.read(&info).await?;
            self.conversation = Some((conversation, info));
        }
        let tools = context::tools();
        let messages = match &self.conversation {
            Some((conversation, info)) => {
                let room = context::room(info.context_bytes);
                for exchange in &mut self.exchanges {
                    exchange.answer(room, &*agent.entropy);
                }
                let taken = serde_json::to_string(&tools).map_or(0, |text| text.len());
                let budget = info.context_bytes.saturating_sub(taken);
                conversation.messages(&self.exchanges, budget, &*agent.entropy)
            }
            None => Vec::new(),
        };
        Ok(ChatRequest {
            thread: self.live.thread,
            turn: self.live.turn,
            messages,
            tools,
        })
    }

    /// Reads the ledger up to this turn.
    async fn read(&self, info: &ModelInfo) -> Result<Conversation, Stopped> {
        let agent = self.agent;
        let thread = self.live.thread;
        let mut past = Past::new(self.live.turn, info.context_bytes);
        let mut after = 0;
        loop {
            let page = agent
                .backoff
                .insist(&*agent.entropy, "ledger", || {
                    agent.registry.ledger(thread, after)
                })
                .await
                .map_err(stopped)?;
            if page.items.is_empty() {
                break;
            }
            after = page.seq;
            for entry in page.items {
                past.take(entry);
            }
        }
        if past.own().is_none() {
            tracing::error!(turn = %self.live.turn, "the ledger lacks this turn's message");
        }
        let arguments = agent.journal.arguments(thread).await?;
        let waiting = self.waiting_elsewhere().await?;
        Ok(Conversation::new(
            past,
            &arguments,
            waiting,
            &*agent.entropy,
        ))
    }

    /// One line about calls of other turns of this thread that wait for a person.
    async fn waiting_elsewhere(&self) -> Result<Option<String>, Stopped> {
        let agent = self.agent;
        let now = Poll {
            after: 0,
            wait_ms: 0,
        };
        let live = agent
            .backoff
            .insist(&*agent.entropy, "turns", || agent.registry.turns(now))
            .await
            .map_err(stopped)?;
        let others = live
            .items
            .into_iter()
            .filter(|live| live.thread == self.live.thread && live.turn != self.live.turn)
            .take(NEIGHBOURS_MAX);
        let mut waiting = BTreeMap::<String, u32>::new();
        for other in others {
            // One that has ended meanwhile waits for nobody.
            let calls = agent
                .backoff
                .insist(&*agent.entropy, "calls", || {
                    agent.registry.calls(other.turn, now)
                })
                .await
                .map(|polled| polled.items)
                .unwrap_or_default();
            for seen in calls {
                if let (State::Pending { .. }, Some(tool)) =
                    (&seen.call.state, Tool::find(&seen.tool))
                {
                    *waiting.entry(tool.name.to_owned()).or_default() += 1;
                }
            }
        }
        if waiting.is_empty() {
            return Ok(None);
        }
        let list: Vec<_> = waiting
            .iter()
            .map(|(tool, n)| format!("{tool} ({n})"))
            .collect();
        Ok(Some(format!(
            "Calls of earlier messages still wait for a person and are not yours to repeat: {}.",
            list.join(", ")
        )))
    }

    /// Asks until the model said something, or there is no more point in asking: then why.
    async fn ask(&self, request: &ChatRequest) -> Result<Said, String> {
        let (mut failures, mut silences, mut empty) = (0, 0, false);
        loop {
            let wait = match self.once(request).await {
                Once::Said(said)
                    if said.calls.is_empty() && said.text.trim().is_empty() && !empty =>
                {
                    empty = true;
                    continue;
                }
                Once::Said(said) => return Ok(said),
                Once::Failed { message, retryable } => {
                    failures += 1;
                    if !retryable || failures >= ATTEMPTS {
                        return Err(message);
                    }
                    failures
                }
                Once::Unreachable => {
                    silences += 1;
                    silences
                }
            };
            self.agent.backoff.wait(wait, &*self.agent.entropy).await;
        }
    }

    async fn once(&self, request: &ChatRequest) -> Once {
        let mut deltas = match self.agent.model.chat(request.clone()).await {
            Ok(deltas) => deltas,
            Err(ClientError::Refused(problem)) => {
                return Once::Failed {
                    message: problem.detail.unwrap_or(problem.title),
                    retryable: false,
                };
            }
            Err(ClientError::Silent(cause)) => {
                tracing::warn!(cause = cause.to_string(), "the gateway does not answer");
                return Once::Unreachable;
            }
        };
        let mut said = Said::default();
        while let Some(Ok(delta)) = deltas.next().await {
            match delta {
                Delta::Text { text } => {
                    if said.text.len() < TEXT_MAX {
                        said.text.push_str(&text);
                    }
                }
                Delta::Call(call) => said.calls.push(call),
                Delta::End { reason } => {
                    let end = said.text.floor_char_boundary(TEXT_MAX);
                    if end < said.text.len() {
                        said.text.truncate(end);
                        said.text.push_str(words::CUT_BY_US);
                    } else if reason == "length" && !said.text.trim().is_empty() {
                        said.text.push_str(words::CUT_AT_LIMIT);
                    }
                    return Once::Said(said);
                }
                Delta::Failed { message, retryable } => return Once::Failed { message, retryable },
            }
        }
        Once::Failed {
            message: "Its answer was cut off before the end.".to_owned(),
            retryable: true,
        }
    }
}

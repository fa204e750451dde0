//! One turn: ask the model, keep what it said, file what it wants, tell it what came of that; until it
//! has last words.

use std::sync::Arc;

use kazma_domain::{Clock, Entropy, RequestId, Service, TurnState};
use kazma_edge::request;
use kazma_store::StoreError;
use kazma_wire::{
    Problem,
    agent::{FinishRequest, LiveTurn},
    model::ModelInfo,
};

use crate::{
    Backoff, Metrics,
    clients::{Model, Registry, Runner},
    context::{Conversation, Exchange},
    journal::Journal,
    slots::Slot,
};

mod calls;
mod thinking;

/// What every turn works with.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) registry: Arc<dyn Registry>,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) egress: Arc<dyn Runner>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) journal: Journal,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) backoff: Backoff,
    pub(crate) metrics: Metrics,
}

impl Agent {
    /// Whom a call of `executor` is named to; none if the agent names nothing to it.
    fn runner_of(&self, executor: Service) -> Option<&dyn Runner> {
        match executor {
            Service::RunnerApi => Some(&*self.runner),
            Service::RunnerEgress => Some(&*self.egress),
            Service::Gateway | Service::Agent | Service::GateRegistry | Service::RunnerBroker => {
                None
            }
        }
    }
}

/// Why a turn's work stopped before its last words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stopped {
    /// The turn has ended elsewhere.
    #[error("the turn has ended elsewhere")]
    Over,
    /// The registry refuses what it should not.
    #[error("refused: {}", .0.title)]
    Refused(Box<Problem>),
    /// The checkpoints.
    #[error("the checkpoints failed")]
    Store(#[from] StoreError),
}

/// One turn at work.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    agent: &'a Agent,
    live: &'a LiveTurn,
    slot: &'a mut Slot,
    stated: Option<TurnState>,
    conversation: Option<(Conversation, ModelInfo)>,
    exchanges: Vec<Exchange>,
    next_index: u32,
}

impl<'a> Turn<'a> {
    pub(crate) const fn new(agent: &'a Agent, live: &'a LiveTurn, slot: &'a mut Slot) -> Self {
        Self {
            agent,
            live,
            slot,
            stated: None,
            conversation: None,
            exchanges: Vec::new(),
            next_index: 0,
        }
    }

    /// Works until the turn has last words. What an earlier run kept is not asked for again.
    pub(crate) async fn run(mut self) -> Result<(), Stopped> {
        let mut kept = self.agent.journal.steps(self.live.turn).await?.into_iter();
        let mut number = 0;
        loop {
            let step = if let Some(step) = kept.next() {
                step
            } else {
                let id = self.request_id();
                let step = request::within(id, self.think(number)).await?;
                self.agent.journal.record(step.clone()).await?;
                step
            };
            number += 1;
            if let Some(state) = step.ending {
                return self.finish(state, step.text).await;
            }
            self.next_index += u32::try_from(step.calls.len()).unwrap_or(u32::MAX);
            let exchange = self.act(&step).await?;
            self.exchanges.push(exchange);
        }
    }

    /// The id under which others are asked for one thing of this turn.
    fn request_id(&self) -> RequestId {
        RequestId::new(self.agent.clock.now(), &*self.agent.entropy)
    }

    async fn state(&mut self, state: TurnState) -> Result<(), Stopped> {
        if self.stated == Some(state) {
            return Ok(());
        }
        let agent = self.agent;
        let turn = self.live.turn;
        agent
            .backoff
            .insist(&*agent.entropy, "progress", || {
                agent.registry.progress(turn, state)
            })
            .await
            .map_err(stopped)?;
        self.stated = Some(state);
        Ok(())
    }

    async fn finish(&self, state: TurnState, text: String) -> Result<(), Stopped> {
        let agent = self.agent;
        let turn = self.live.turn;
        let request = FinishRequest { state, text };
        agent
            .backoff
            .insist(&*agent.entropy, "finish", || {
                agent.registry.finish(turn, request.clone())
            })
            .await
            .map_err(stopped)
    }
}

/// What a refusal of the registry means for a turn.
fn stopped(problem: Box<Problem>) -> Stopped {
    if matches!(problem.status, 404 | 409 | 410) {
        Stopped::Over
    } else {
        Stopped::Refused(problem)
    }
}

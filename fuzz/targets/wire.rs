//! The types that cross an edge: whatever is read is written and read again as the same.

#![no_main]

use kazma_wire::{Problem, agent, events, executor, gateway, mesh, model, poll, runner, view};
use libfuzzer_sys::fuzz_target;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Reads `text` as a `T`, and what that is written as.
fn read<T: Serialize + DeserializeOwned>(text: &str) -> Option<Value> {
    let value: T = serde_json::from_str(text).ok()?;
    Some(serde_json::to_value(&value).expect("what was read can be written"))
}

fn round<T: Serialize + DeserializeOwned>(text: &str) {
    if let Some(once) = read::<T>(text) {
        let written = once.to_string();
        assert_eq!(
            read::<T>(&written),
            Some(once),
            "{written}"
        );
    }
}

macro_rules! readers {
    ($($of:ty),+ $(,)?) => {
        const READERS: &[fn(&str)] = &[$(round::<$of>),+];
    };
}

readers!(
    executor::FileRequest,
    executor::Filed,
    executor::Work,
    executor::Claim,
    executor::RedeemRequest,
    executor::Redeemed,
    executor::OutputRequest,
    executor::SettleRequest,
    executor::ReplanRequest,
    executor::WithdrawRequest,
    executor::LoseRequest,
    executor::ReportRequest,
    gateway::NewThread,
    gateway::NewMessage,
    gateway::DecisionRequest,
    gateway::ExtendRequest,
    gateway::AbortRequest,
    events::Event,
    agent::LiveTurn,
    agent::Entry,
    agent::ProgressRequest,
    agent::FinishRequest,
    agent::UnroutableRequest,
    agent::TurnCall,
    poll::Poll,
    Problem,
    runner::PlanRequest,
    runner::Planned,
    runner::RunnerStatus,
    mesh::JoinRequest,
    mesh::RenewRequest,
    mesh::Leaf,
    model::ChatRequest,
    model::Delta,
    model::ModelInfo,
    model::ToolNote,
    view::ThreadView,
    view::CallView,
    view::GateView,
);

fuzz_target!(|text: &str| {
    for reader in READERS {
        reader(text);
    }
});

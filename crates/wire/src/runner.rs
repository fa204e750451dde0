//! What the agent and the gateway ask of the runner.

use kazma_domain::{Call, ThreadId, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `POST /v1/plans`: the agent names a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// In which thread.
    pub thread: ThreadId,
    /// In which turn.
    pub turn: TurnId,
    /// The how-manieth call of the turn, from 0: the key under which the same call may be named again.
    pub index: u32,
    /// The tool.
    pub tool: String,
    /// Its arguments, a JSON object.
    pub arguments: Value,
}

/// The answer: where the call stands. Outcomes come from the registry's turn poll.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Planned {
    /// The call as it was filed.
    pub call: Call,
}

/// `GET /v1/status`: what runs code here, and whether it does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunnerStatus {
    /// The tier's plain name.
    pub tier: String,
    /// What enforces it.
    pub runtime: String,
    /// Whether code can run now.
    pub ready: bool,
    /// Whether it is too early to say: not ready, and nothing is known to be wrong.
    pub starting: bool,
    /// Why not; empty when ready.
    pub reason: String,
    /// What to do about it; empty when ready.
    pub fix: String,
    /// Which limits hold and by what.
    pub enforcement: Vec<String>,
    /// What the boundary does not stop, in one line.
    pub limit: String,
    /// Sandboxes that wait, started and never used.
    pub pool: u32,
    /// Why this tier and no other; empty where the operator named it.
    #[serde(default)]
    pub note: String,
    /// The workspace folder.
    pub workspace: String,
}

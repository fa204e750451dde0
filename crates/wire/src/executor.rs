//! What executors ask of the registry. Where no answer is named, it is empty (204).

use kazma_domain::{
    AttemptId, Call, CallId, Outcome, PermitId, Plan, Service, ThreadId, TurnId,
    permit::SignedPermit,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `POST /v1/calls`: an executor files a call with its plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRequest {
    /// In which thread.
    pub thread: ThreadId,
    /// In which turn; it must be live.
    pub turn: TurnId,
    /// The how-manieth call of the turn. The same key with other arguments is refused.
    pub index: u32,
    /// The tool as the agent named it.
    pub tool: String,
    /// The arguments as the agent gave them.
    pub arguments: Value,
    /// The service that proposed the call.
    pub principal: Service,
    /// What would be done, or why it would not.
    pub proposal: Proposal,
}

/// What an executor makes of a proposed call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proposal {
    /// This would be done.
    Plan(Box<Plan>),
    /// Nothing: the call is refused before any card, with a reason in words.
    Refuse {
        /// The name of the rule.
        rule: String,
        /// Why, and what to do instead.
        reason: String,
    },
}

/// The answer to a filing. The same filing again is answered with where the call stands now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Filed {
    /// The call.
    pub call: Call,
    /// Its tool.
    pub tool: String,
    /// The permit, where the call may run at once.
    pub permit: Option<SignedPermit>,
}

/// `GET /v1/work`: a call that its executor may run now. Its permit is collected by
/// `POST /v1/calls/{id}/permit` (an empty object), answered with a
/// [`SignedPermit`]; each collection mints one, and one alone can be redeemed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    /// The call; its state is `approved`.
    pub call: Call,
    /// The plan that was filed.
    pub plan: Plan,
}

/// `GET /v1/claims`: a call that its executor had begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Claim {
    /// The call; its state is `claimed`.
    pub call: Call,
    /// The plan that was filed.
    pub plan: Plan,
}

/// `POST /v1/permits/redeem`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedeemRequest {
    /// The permit as it was issued.
    pub permit: SignedPermit,
    /// This attempt. The same attempt again gets the same answer.
    pub attempt: AttemptId,
}

/// The answer to a redeemed permit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Redeemed {
    /// The call; its state is `claimed`.
    pub call: Call,
    /// The permit that was spent.
    pub permit: PermitId,
}

/// `POST /v1/calls/{id}/output`: what a running call printed. Not kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputRequest {
    /// At most 16 KiB a chunk.
    pub chunks: Vec<Chunk>,
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// `stdout` or `stderr`.
    pub stream: String,
    /// What was printed; bytes that are no UTF-8 are replaced.
    pub text: String,
}

/// `POST /v1/calls/{id}/settle`: how a call ended, with what it returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettleRequest {
    /// How it ended.
    pub outcome: Outcome,
    /// What it returned, for the model and the page.
    pub output: Output,
}

/// What a call returned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The text, cut at the cap.
    pub text: String,
    /// Whether it was cut.
    pub truncated: bool,
    /// How many bytes there were in all.
    pub total_bytes: u64,
    /// What the run used, in words, such as `ran 0.04 s`; may be empty.
    pub note: String,
    /// Where the text came from, such as the address of a page; empty where the tool's name says it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
}

/// `POST /v1/calls/{id}/replan`: what would run is another than the plan of a call that a rule allowed.
/// The rules are asked about the new plan, and where they allow it the answer is a permit for it
/// ([`SignedPermit`]). Once for each call; the same plan again gets another permit. Whatever a person
/// approved, or the rules do not allow by themselves, is refused (409) and is to be withdrawn.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplanRequest {
    /// What would be done now.
    pub plan: Box<Plan>,
}

/// `POST /v1/calls/{id}/withdraw`: what would run is no longer what was approved.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithdrawRequest {
    /// What changed, in words.
    pub reason: String,
}

/// `POST /v1/calls/{id}/lose`: the executor, started anew, does not know how the call ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoseRequest {
    /// What is known, in words.
    pub what: String,
}

/// `POST /v1/claims/report`: the claims an executor still holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportRequest {
    /// The calls; at most 1,024.
    pub calls: Vec<CallId>,
}

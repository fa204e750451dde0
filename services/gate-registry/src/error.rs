//! What the registry refuses, and how that reads as a problem document.

use kazma_audit::Break;
use kazma_domain::{
    Digest, Refusal, Role, TurnState, Vote, canonical::NotCanonical, permit::PermitFault,
};
use kazma_edge::ApiError;
use kazma_mesh::MeshError;
use kazma_signing::SigningError;
use kazma_store::StoreError;
use kazma_wire::Problem;

/// Why the registry did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such thing.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// A field is wrong.
    #[error("{field}: {what}")]
    Invalid {
        /// Which.
        field: &'static str,
        /// What is wrong and what would be right.
        what: String,
    },
    /// The turn has ended.
    #[error("the turn is {}", .state.name())]
    TurnClosed {
        /// Where it stands.
        state: TurnState,
    },
    /// The turn has another call of this index.
    #[error("this turn has another call with this index")]
    CallKeyReused,
    /// The key was used for another text.
    #[error("this key was used for another message")]
    MessageKeyReused,
    /// Somebody decided first.
    #[error("somebody decided first")]
    GateDecided {
        /// The vote that settled it.
        by: Box<Vote>,
    },
    /// The question has ended without this decision.
    #[error("the question has ended: it is {state}")]
    GateEnded {
        /// The word for where it stands.
        state: String,
    },
    /// The card is another by now.
    #[error("the card has changed since it was shown")]
    CardChanged {
        /// The digest of the card as it is.
        digest: Digest,
    },
    /// The person may not do this.
    #[error("the role {role} may not do this")]
    MayNot {
        /// Their role.
        role: Role,
    },
    /// The gate machine refuses.
    #[error("the call cannot do this now")]
    Refused(#[source] Refusal),
    /// The permit is not good.
    #[error("the permit is not good")]
    Permit(#[source] PermitFault),
    /// The permit was minted before a restore or under another policy.
    #[error("the permit is void: {why}")]
    PermitVoid {
        /// Why.
        why: &'static str,
    },
    /// The join token is unknown, used or too old.
    #[error("the join token is unknown, used or too old")]
    TokenRefused,
    /// The key is not the one on record, or its leaf is too old.
    #[error("{0}")]
    RenewalRefused(&'static str),
    /// The certificate request is not what it should be.
    #[error("the certificate request is refused")]
    Request(#[source] MeshError),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state is in one place, and the settings name another.
    #[error("this registry's state is in {from}, and the settings name {to}: {way}")]
    Moved {
        /// Where it is.
        from: String,
        /// What the settings name.
        to: String,
        /// What to do.
        way: String,
    },
    /// A file in its folder.
    #[error("cannot write {path}")]
    Folder {
        /// Which.
        path: camino::Utf8PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The signing key.
    #[error("signing failed")]
    Signing(#[from] SigningError),
    /// A value has no canonical form.
    #[error("a value has no canonical form")]
    Canonical(#[from] NotCanonical),
    /// The audit chain does not hold.
    #[error("the audit chain is broken")]
    Audit(#[from] Break),
    /// A record could not be read or written as JSON.
    #[error("a record is not JSON")]
    Json(#[from] serde_json::Error),
    /// The mesh.
    #[error("the mesh failed")]
    Mesh(#[from] MeshError),
    /// A task ended that the registry cannot be without.
    #[error("a task ended early")]
    Task(#[source] kazma_runtime::BoxError),
    /// What is counted.
    #[error("the metrics cannot be set up")]
    Metrics(#[from] kazma_metrics::MetricError),
    /// A call that was written without a plan was to run.
    #[error("the call has no plan")]
    NoPlan,
}

impl Error {
    pub(crate) fn invalid(field: &'static str, what: impl Into<String>) -> Self {
        Self::Invalid {
            field,
            what: what.into(),
        }
    }
}

impl Error {
    /// Whether the gate itself said no: then nothing was changed, and the history tells that it was
    /// asked. Anything else undoes what was begun.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::GateDecided { .. }
                | Self::GateEnded { .. }
                | Self::CardChanged { .. }
                | Self::MayNot { .. }
                | Self::Refused(_)
                | Self::Permit(_)
                | Self::PermitVoid { .. }
        )
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Decided { by } => Self::GateDecided { by: Box::new(by) },
            Refusal::MayNot { role } => Self::MayNot { role },
            other => Self::Refused(other),
        }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        match problem(&error) {
            Some(problem) => Self(problem),
            None => match error {
                Error::Store(full) if full.is_full() => Self::disk_full(),
                Error::Store(unknown) if unknown.is_unknown() => Self::unavailable(
                    "Whether this was kept is not known; look before you ask again.",
                ),
                Error::Store(
                    StoreError::Closed
                    | StoreError::RolledBack
                    | StoreError::Stale { .. }
                    | StoreError::Lost(_)
                    | StoreError::Unreachable { .. },
                ) => Self::unavailable("Nothing was changed; try again."),
                other => Self::internal(&other),
            },
        }
    }
}

/// The problem that a caller is told; none for what is not theirs to know.
pub(crate) fn problem(error: &Error) -> Option<Problem> {
    Some(match error {
        Error::NotFound(what) => Problem::new(404, "not-found", "There is nothing here")
            .detail(format!("There is no such {what}.")),
        Error::Invalid { field, what } => Problem::new(422, "field", "A field is wrong")
            .detail(format!("{field}: {what}."))
            .field(*field),
        Error::TurnClosed { state } => Problem::new(409, "turn-closed", "The turn has ended")
            .detail("Nothing more can be filed in it.")
            .with("state", state.name()),
        Error::CallKeyReused => {
            Problem::new(409, "call-key-reused", "This index is another call's")
                .detail("The turn has a call with this index and another tool or other arguments.")
                .field("index")
        }
        Error::MessageKeyReused => {
            Problem::new(409, "message-key-reused", "This key is another message's")
                .detail("The thread has a message with this key and another text.")
                .field("idempotency_key")
        }
        Error::GateDecided { by } => Problem::new(409, "gate-decided", "Somebody decided first")
            .detail(format!("{} said {} first.", by.name, by.decision))
            .with("decision", by.decision.to_string())
            .with("decided_by", by.name.as_str())
            .with("surface", by.surface.name())
            .with("decided_at", by.at.to_string()),
        Error::GateEnded { state } => Problem::new(409, "gate-ended", "The question has ended")
            .detail(format!("It is {state}."))
            .with("state", state.as_str()),
        Error::CardChanged { digest } => Problem::new(
            409,
            "card-changed",
            "The card has changed since it was shown",
        )
        .detail("Look at the card again and decide on what it says now.")
        .field("card")
        .with("args_digest", digest.to_string()),
        Error::MayNot { role } => Problem::new(403, "role", "Your role does not allow this")
            .detail(format!("The role {role} may not do this."))
            .with("role", role.name()),
        Error::Refused(refusal) => refused(refusal),
        Error::Permit(fault) => Problem::new(403, "permit-refused", "The permit is not good")
            .detail(format!("{fault}."))
            .field("permit"),
        Error::PermitVoid { why } => Problem::new(403, "permit-refused", "The permit is void")
            .detail(format!("{why}."))
            .field("permit"),
        Error::TokenRefused => Problem::new(403, "token-refused", "The join token is not good")
            .detail("It is unknown, was used, or is too old. Ask for a new one.")
            .field("token"),
        Error::RenewalRefused(why) => {
            Problem::new(403, "renewal-refused", "No new certificate for this key")
                .detail(format!("{why}."))
                .field("csr")
        }
        Error::Request(_) => Problem::new(422, "field", "A field is wrong")
            .detail("csr: not a certificate request (PKCS #10, DER, base64).")
            .field("csr"),
        Error::Canonical(_) => Problem::new(422, "field", "A field is wrong")
            .detail("The body holds a value without a canonical JSON form.")
            .field("body"),
        Error::Store(_)
        | Error::Moved { .. }
        | Error::Folder { .. }
        | Error::Signing(_)
        | Error::Audit(_)
        | Error::Json(_)
        | Error::Mesh(_)
        | Error::Metrics(_)
        | Error::Task(_)
        | Error::NoPlan => return None,
    })
}

fn refused(refusal: &Refusal) -> Problem {
    let (status, kind, title) = match refusal {
        Refusal::NotTheExecutor => (403, "not-the-executor", "Another service's call"),
        Refusal::OtherPlan => (403, "permit-refused", "The permit is for another plan"),
        Refusal::PermitExpired => (403, "permit-expired", "The permit has expired"),
        Refusal::Redeemed => (409, "permit-redeemed", "The permit was already redeemed"),
        Refusal::SettledOtherwise => (409, "settled-otherwise", "The call was settled otherwise"),
        Refusal::NotAgain => (409, "not-again", "The call is not planned again"),
        Refusal::TooLate => (409, "too-late", "The time has passed"),
        Refusal::Decided { .. }
        | Refusal::NotNow { .. }
        | Refusal::OtherCard
        | Refusal::MayNot { .. } => (409, "not-now", "The call cannot do this now"),
    };
    let problem = Problem::new(status, kind, title).detail(format!("{refusal}."));
    match refusal {
        Refusal::NotNow { state } => problem.with("state", *state),
        _ => problem,
    }
}

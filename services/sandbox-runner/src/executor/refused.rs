//! Why a call is refused before anybody is asked.

/// A call that will not be planned: the rule that says so, and why, for the person and the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    /// The name of the rule, such as `path-symlink`.
    pub rule: &'static str,
    /// Why, and what to do instead, in one or two sentences.
    pub reason: String,
}

impl Refused {
    /// A refusal by `rule` with its reason.
    pub(crate) fn new(rule: &'static str, reason: impl Into<String>) -> Self {
        Self {
            rule,
            reason: reason.into(),
        }
    }
}

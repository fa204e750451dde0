//! Clears away what brokers that are gone, or calls that went wrong, left on the engine.

use std::collections::HashMap;

use super::{
    container::Known,
    engine::Engine,
    error::EngineError,
    look::Listed,
    template::{LABEL_BROKER, LABEL_DEADLINE, LABEL_OWNER},
};

/// How long past its deadline a container of somebody else must be before it is taken for nobody's.
const FOREIGN_GRACE: i64 = 600;

/// Who reaps.
#[derive(Debug, Clone)]
pub(super) struct Reaper {
    pub(super) owner: String,
    /// This start of the broker.
    pub(super) broker: String,
    pub(super) known: Known,
}

impl Reaper {
    /// One pass at `now`, in seconds since 1970. Answers how many were removed.
    pub(super) async fn pass(&self, engine: &Engine, now: i64) -> Result<usize, EngineError> {
        let mut removed = 0;
        for listed in engine.list().await? {
            if !self.is_stray(&listed, now) {
                continue;
            }
            match engine.remove_listed(&listed).await {
                Ok(()) => {
                    removed += 1;
                    tracing::info!(container = ?listed.names, "a stray container was removed");
                }
                Err(error) => {
                    tracing::warn!(container = ?listed.names, %error, "a stray container is still there");
                }
            }
        }
        Ok(removed)
    }

    /// An owner has one broker at a time: what an earlier start of it made is nobody's. Whatever has
    /// outlived its deadline by far is nobody's either, whoever made it.
    fn is_stray(&self, listed: &Listed, now: i64) -> bool {
        let label = |name| text(&listed.labels, name);
        let late = |grace: i64| {
            label(LABEL_DEADLINE)
                .and_then(|deadline| deadline.parse::<i64>().ok())
                .is_none_or(|deadline| deadline.saturating_add(grace) < now)
        };
        if label(LABEL_OWNER) != Some(&self.owner) {
            return late(FOREIGN_GRACE);
        }
        if label(LABEL_BROKER) != Some(&self.broker) {
            return true;
        }
        !self.known.has(&listed.names) || late(0)
    }
}

fn text<'a>(labels: &'a HashMap<String, String>, name: &str) -> Option<&'a str> {
    labels.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(owner: &str, broker: &str, deadline: &str) -> Listed {
        let labels = [
            (LABEL_OWNER, owner),
            (LABEL_BROKER, broker),
            (LABEL_DEADLINE, deadline),
        ];
        Listed {
            id: "x".to_owned(),
            names: vec!["/kazma-sandbox-now-1".to_owned()],
            labels: labels
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        }
    }

    #[test]
    fn only_strays_are_removed() {
        let known = Known::default();
        let reaper = Reaper {
            owner: "me".to_owned(),
            broker: "now".to_owned(),
            known: known.clone(),
        };
        let stray =
            |owner, broker, deadline| reaper.is_stray(&listed(owner, broker, deadline), 10_000);
        // Of this start, and not known of: a create whose answer never came.
        assert!(stray("me", "now", "99999"));
        known.add(&super::super::engine::Name::new("now", 1));
        assert!(!stray("me", "now", "99999"));
        assert!(stray("me", "now", "9999"), "it outlived its deadline");
        assert!(stray("me", "before", "99999"), "of an earlier start");
        assert!(!stray("other", "before", "99999"));
        assert!(
            !stray("other", "before", "9999"),
            "its own broker removes it"
        );
        assert!(stray("other", "before", "9000"));
        assert!(stray("other", "before", "soon"));
    }
}

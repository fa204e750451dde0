//! Identifiers that carry their kind, so that one pasted in the wrong place does not parse.

use std::{fmt, hash::Hash, marker::PhantomData, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::clock::Entropy;

/// What an [`Id`] identifies.
pub trait Kind: 'static {
    /// The word before the underscore, as in `gate_0192f0c4…`.
    const PREFIX: &'static str;
}

/// An identifier of one kind: a UUID version 7 (RFC 9562) behind a prefix.
pub struct Id<K: Kind>(Uuid, PhantomData<fn() -> K>);

/// The text is not an identifier of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {expected} id: it looks like {expected}_ and 32 hexadecimal digits")]
pub struct NotAnId {
    /// The prefix that was expected.
    pub expected: &'static str,
}

impl<K: Kind> Id<K> {
    /// Makes a new id that sorts by `now`.
    pub fn new(now: Timestamp, entropy: &dyn Entropy) -> Self {
        let mut random = [0_u8; 10];
        entropy.fill(&mut random);
        let millis = u64::try_from(now.as_millisecond()).unwrap_or(0);
        Self(
            uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid(),
            PhantomData,
        )
    }

    /// Wraps a UUID that is known to identify a `K`, such as one from its table.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid, PhantomData)
    }

    /// The bare UUID, for storage.
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl<K: Kind> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Kind> Copy for Id<K> {}
impl<K: Kind> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<K: Kind> Eq for Id<K> {}
impl<K: Kind> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<K: Kind> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<K: Kind> Hash for Id<K> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl<K: Kind> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", K::PREFIX, self.0.as_simple())
    }
}
impl<K: Kind> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl<K: Kind> FromStr for Id<K> {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let wrong = NotAnId {
            expected: K::PREFIX,
        };
        let hex = text
            .strip_prefix(K::PREFIX)
            .and_then(|rest| rest.strip_prefix('_'))
            .ok_or_else(|| wrong.clone())?;
        // One id has one spelling: UUID parsers also take hyphens, braces and capitals.
        if hex.len() != 32 || !hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(wrong);
        }
        Uuid::try_parse(hex).map(Self::from_uuid).map_err(|_| wrong)
    }
}
impl<K: Kind> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl<'de, K: Kind> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $prefix:literal as $alias:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $kind {}
        impl Kind for $kind {
            const PREFIX: &'static str = $prefix;
        }
        $(#[$doc])*
        pub type $alias = Id<$kind>;
    )*};
}

kinds! {
    /// One proposed call of one tool.
    CallKind = "call" as CallId;
    /// One question to people: the card of one or several equal calls.
    GateKind = "gate" as GateId;
    /// One single-use proof that a call may run.
    PermitKind = "permit" as PermitId;
    /// One attempt of one executor to redeem a permit.
    AttemptKind = "attempt" as AttemptId;
    /// One conversation.
    ThreadKind = "thread" as ThreadId;
    /// What follows one message of a person.
    TurnKind = "turn" as TurnId;
    /// One entry of a thread's ledger.
    MessageKind = "message" as MessageId;
    /// One person who may sign in.
    PersonKind = "person" as PersonId;
    /// One signed-in session.
    SessionKind = "session" as SessionId;
    /// One request, followed through every service.
    RequestKind = "request" as RequestId;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::test::{Counting, at};

    #[test]
    fn an_id_reads_back_and_only_as_its_kind() {
        let gate = GateId::new(at(0), &Counting::default());
        let text = gate.to_string();
        assert_eq!(text.parse::<GateId>(), Ok(gate));
        assert!(text.parse::<CallId>().is_err());
        assert!(text.to_uppercase().parse::<GateId>().is_err());
        assert!("gate_".parse::<GateId>().is_err());
    }

    #[test]
    fn ids_sort_by_the_time_they_were_made() {
        let entropy = Counting::default();
        let early = CallId::new(at(1), &entropy);
        let late = CallId::new(at(2), &entropy);
        assert!(early < late);
    }
}

//! A statement: one text for both databases, with the values of its placeholders.
//!
//! What both databases understand alike is little: numbers of 64 bits, texts, bytes. Ids are their 16 bytes in
//! both, so that no value needs to know which database it goes to.

use kazma_domain::{Digest, Id, id::Kind};
use uuid::Uuid;

/// A statement with its values.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) sql: &'static str,
    pub(crate) values: Vec<Value>,
    pub(crate) seen: Option<(&'static str, String)>,
}

impl Statement {
    /// A statement with the placeholders `$1`, `$2` and so on.
    pub(crate) const fn new(sql: &'static str) -> Self {
        Self {
            sql,
            values: Vec::new(),
            seen: None,
        }
    }

    /// Gives the next placeholder its value.
    pub(crate) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Says of one that is written later that it may find its row changed: then the request is refused as
    /// `Stale`.
    pub(crate) fn seen(mut self, table: &'static str, id: impl std::fmt::Display) -> Self {
        self.seen = Some((table, id.to_string()));
        self
    }
}

/// A value to bind. That it is missing has a type too: PostgreSQL prepares a text once, for one type of each value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Number(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

/// What can be bound, and what stands for its being missing.
pub(crate) trait Storable: Into<Value> {
    /// No value of this type.
    const NULL: Value;
}

macro_rules! storable {
    ($($type:ty => $variant:ident, |$value:ident| $stored:expr;)+) => {
        $(
            impl From<$type> for Value {
                fn from($value: $type) -> Self {
                    Self::$variant(Some($stored))
                }
            }

            impl Storable for $type {
                const NULL: Value = Value::$variant(None);
            }
        )+
    };
}

storable! {
    i64 => Number, |number| number;
    u32 => Number, |number| number.into();
    bool => Number, |yes| yes.into();
    &str => Text, |text| text.to_owned();
    &String => Text, |text| text.clone();
    String => Text, |text| text;
    Uuid => Bytes, |uuid| uuid.as_bytes().to_vec();
    &Digest => Bytes, |digest| digest.as_bytes().to_vec();
}

impl<K: Kind> From<Id<K>> for Value {
    fn from(id: Id<K>) -> Self {
        id.uuid().into()
    }
}

impl<K: Kind> Storable for Id<K> {
    const NULL: Value = Value::Bytes(None);
}

impl<T: Storable> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(T::NULL, Into::into)
    }
}

//! Problem documents (RFC 9457), the one shape of every error on every HTTP surface.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The media type of a [`Problem`].
pub const MEDIA_TYPE: &str = "application/problem+json";

/// A problem document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Problem {
    /// The kind of problem, as a relative URI such as `/problems/gate-decided`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened here and what to do, in a sentence. Never internals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The id of the request, to find it in the logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The field of the request that is wrong, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// More members, each with a meaning its kind defines.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub more: Map<String, Value>,
}

impl Problem {
    /// A problem of `kind` (the last part of its type URI).
    pub fn new(status: u16, kind: &str, title: &str) -> Self {
        Self {
            kind: format!("/problems/{kind}"),
            title: title.to_owned(),
            status,
            detail: None,
            instance: None,
            field: None,
            more: Map::new(),
        }
    }

    /// The same with a sentence about what happened here.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same with the field that is wrong.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same with one more member.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Whether it is of `kind` (the last part of its type URI).
    pub fn is(&self, kind: &str) -> bool {
        self.kind.strip_prefix("/problems/") == Some(kind)
    }
}

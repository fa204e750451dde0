//! Arguments of a call, read strictly: a wrong one is named with what to write instead.

use kazma_domain::limits;
use kazma_wire::Problem;
use serde_json::{Map, Value};

/// A 422 problem with the field that is wrong and what to do.
pub(crate) fn wrong(field: &str, fix: String) -> Problem {
    Problem::new(422, "field", "A field is wrong")
        .detail(fix)
        .field(field)
}

/// The arguments not yet read.
#[derive(Debug)]
pub(crate) struct Fields {
    given: Map<String, Value>,
}

impl Fields {
    /// The arguments of one call.
    ///
    /// # Errors
    ///
    /// They are no object, or larger than a call may be.
    pub(crate) fn of(arguments: &Value) -> Result<Self, Problem> {
        let size = kazma_domain::canonical_json(arguments).map_or(usize::MAX, |bytes| bytes.len());
        if size > limits::ARGUMENTS_MAX {
            return Err(wrong(
                "arguments",
                format!(
                    "The arguments are larger than {} bytes. Do it in several calls.",
                    limits::ARGUMENTS_MAX
                ),
            ));
        }
        match arguments {
            Value::Object(given) => Ok(Self {
                given: given.clone(),
            }),
            _ => Err(wrong(
                "arguments",
                "The arguments must be a JSON object.".to_owned(),
            )),
        }
    }

    /// A text that must be there.
    pub(crate) fn text(&mut self, name: &str) -> Result<String, Problem> {
        self.optional_text(name)?.ok_or_else(|| {
            wrong(
                &format!("arguments.{name}"),
                format!("{name} is missing. Give it as text."),
            )
        })
    }

    /// A text that may be there.
    pub(crate) fn optional_text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        match self.given.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(
                &format!("arguments.{name}"),
                format!("{name} must be text."),
            )),
        }
    }

    /// A whole number from `least` to `most` that may be there.
    pub(crate) fn number(
        &mut self,
        name: &str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, Problem> {
        let Some(value) = self.given.remove(name) else {
            return Ok(None);
        };
        value
            .as_u64()
            .filter(|n| (least..=most).contains(n))
            .map(Some)
            .ok_or_else(|| {
                wrong(
                    &format!("arguments.{name}"),
                    format!("{name} must be a whole number from {least} to {most}."),
                )
            })
    }

    /// A list that may be there; an empty one where it is not.
    pub(crate) fn list(&mut self, name: &str) -> Result<Vec<Value>, Problem> {
        match self.given.remove(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(wrong(
                &format!("arguments.{name}"),
                format!("{name} must be a list."),
            )),
        }
    }

    /// Refuses what was not read.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.given.keys().next() {
            None => Ok(()),
            Some(name) => Err(wrong(
                &format!("arguments.{name}"),
                format!("The tool has no argument {name:?}. Leave it out."),
            )),
        }
    }
}

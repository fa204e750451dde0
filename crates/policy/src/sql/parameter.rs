//! Values for placeholders: what JSON can say and `SQLite` can hold, exactly.

use serde_json::Value;

use super::Refusal;

/// The most values for placeholders.
pub const PARAMETERS: usize = 100;
/// The most bytes of all texts among them.
pub const PARAMETER_BYTES: usize = 64 * 1024;
/// The largest whole number that JSON carries exactly (RFC 7493), and so the digest on a permit.
const EXACT_MAX: u64 = (1 << 53) - 1;

/// A value for a placeholder.
#[derive(Debug, Clone, PartialEq)]
pub enum Parameter {
    /// No value.
    Null,
    /// True or false, which `SQLite` keeps as 1 or 0.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number, finite.
    Real(f64),
    /// A text.
    Text(String),
}

/// Reads `params`.
///
/// # Errors
///
/// Says which value is no null, number, text or truth value, or cannot be carried exactly.
pub fn parameters(given: &[Value]) -> Result<Vec<Parameter>, Refusal> {
    if given.len() > PARAMETERS {
        return Err(many());
    }
    given
        .iter()
        .enumerate()
        .map(|(index, value)| read(index + 1, value))
        .collect()
}

fn read(number: usize, value: &Value) -> Result<Parameter, Refusal> {
    Ok(match value {
        Value::Null => Parameter::Null,
        Value::Bool(value) => Parameter::Bool(*value),
        Value::String(text) => Parameter::Text(text.clone()),
        Value::Number(value) => match (value.as_i64(), value.as_f64()) {
            (Some(whole), _) if whole.unsigned_abs() <= EXACT_MAX => Parameter::Integer(whole),
            (None, Some(real)) if value.is_f64() && real.is_finite() => Parameter::Real(real),
            _ => {
                return Err(Refusal::new(format_args!(
                    "params: value {number} is a whole number beyond {EXACT_MAX}, which JSON does not carry \
                     exactly; give it as text and write CAST(? AS INTEGER)"
                )));
            }
        },
        Value::Array(_) | Value::Object(_) => {
            return Err(Refusal::new(format_args!(
                "params: value {number} is a list or an object; give null, true, false, a number or a text, such as \
                 JSON as text for json_each(?)"
            )));
        }
    })
}

fn many() -> Refusal {
    Refusal::new(format_args!(
        "params: more than {PARAMETERS} values; give one JSON list as text and write \
         (SELECT value FROM json_each(?))"
    ))
}

/// Refuses values that `SQLite` would not take as they are.
pub(super) fn check(parameters: &[Parameter]) -> Result<(), Refusal> {
    if parameters.len() > PARAMETERS {
        return Err(many());
    }
    let mut bytes = 0;
    for (index, parameter) in parameters.iter().enumerate() {
        let number = index + 1;
        match parameter {
            Parameter::Text(text) if text.contains('\0') => {
                return Err(Refusal::new(format_args!(
                    "params: value {number} holds a NUL character, at which SQLite ends a text"
                )));
            }
            Parameter::Real(real) if !real.is_finite() => {
                return Err(Refusal::new(format_args!(
                    "params: value {number} is no finite number"
                )));
            }
            Parameter::Text(text) => bytes += text.len(),
            Parameter::Null | Parameter::Bool(_) | Parameter::Integer(_) | Parameter::Real(_) => {}
        }
    }
    if bytes > PARAMETER_BYTES {
        return Err(Refusal::new(format_args!(
            "params: the texts are longer than {PARAMETER_BYTES} bytes together"
        )));
    }
    Ok(())
}

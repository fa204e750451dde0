//! Texts that are written out in code, whole or in parts.

use ruff_python_ast::{Expr, FStringPart, InterpolatedStringElement, Operator};

/// Parts that are joined at most.
const PARTS: u32 = 64;

/// The text that an expression is, as far as it is written out: a literal, literals with `+` between them, an f-string
/// without a field.
pub(crate) fn constant(expression: &Expr) -> Option<String> {
    joined(expression, PARTS)
}

fn joined(expression: &Expr, parts: u32) -> Option<String> {
    let parts = parts.checked_sub(1)?;
    match expression {
        Expr::StringLiteral(literal) => Some(literal.value.to_str().to_owned()),
        Expr::BinOp(it) if it.op == Operator::Add => {
            Some(joined(&it.left, parts)? + &joined(&it.right, parts)?)
        }
        Expr::Named(it) => joined(&it.value, parts),
        Expr::FString(it) => match ending(expression) {
            Some((text, true)) => Some(text),
            _ if it.value.as_slice().is_empty() => Some(String::new()),
            _ => None,
        },
        _ => None,
    }
}

/// What an f-string ends in after its last field, and whether that is all of it.
pub(crate) fn ending(expression: &Expr) -> Option<(String, bool)> {
    let Expr::FString(it) = expression else {
        return None;
    };
    let (mut text, mut whole) = (String::new(), true);
    for part in &it.value {
        match part {
            FStringPart::Literal(literal) => text.push_str(&literal.value),
            FStringPart::FString(inner) => {
                for element in &inner.elements {
                    if let InterpolatedStringElement::Literal(literal) = element {
                        text.push_str(&literal.value);
                    } else {
                        text.clear();
                        whole = false;
                    }
                }
            }
        }
    }
    Some((text, whole))
}

/// The text that bytes are, if they are one.
pub(crate) fn of_bytes(expression: &Expr) -> Option<String> {
    let Expr::BytesLiteral(literal) = expression else {
        return None;
    };
    String::from_utf8(literal.value.bytes().collect()).ok()
}

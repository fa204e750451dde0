//! Characters that code works out one by one, where it can be told without running it: `chr(x + 1) for x in [94, 95]`.

use ruff_python_ast::{Comprehension, Expr, Number, Operator, UnaryOp};

/// Numbers and characters that are gone through at most.
const LONGEST: usize = 4096;

/// What one name stands for: a number, or the character of that number.
#[derive(Debug, Clone, Copy)]
struct One<'a> {
    name: Option<&'a str>,
    number: i64,
}

/// A whole number that is written out or worked out from such.
pub(crate) fn integer(expression: &Expr) -> Option<i64> {
    let nothing = One {
        name: None,
        number: 0,
    };
    number(expression, nothing, 8)
}

pub(crate) fn character(code: i64) -> Option<String> {
    char::from_u32(u32::try_from(code).ok()?).map(String::from)
}

/// What `elt for target in over` gives, when it is a text of one character each time; `text` is the text that `over` is,
/// if it is one, and `table` that of what `elt` takes a character from.
pub(crate) fn each(
    elt: &Expr,
    over: &Comprehension,
    text: Option<&str>,
    table: Option<&str>,
) -> Option<Vec<String>> {
    let Expr::Name(target) = &over.target else {
        return None;
    };
    if !over.ifs.is_empty() {
        return None;
    }
    let numbers = match text {
        Some(text) => text.chars().map(|c| i64::from(u32::from(c))).collect(),
        None => numbers(&over.iter)?,
    };
    gone_through(elt, target.id.as_str(), &numbers, table)
}

/// The characters of the numbers that `elt for target in over` gives.
pub(crate) fn bytes(elt: &Expr, generators: &[Comprehension]) -> Option<Vec<String>> {
    let [over] = generators else {
        return None;
    };
    let Expr::Name(target) = &over.target else {
        return None;
    };
    if !over.ifs.is_empty() {
        return None;
    }
    let numbers = numbers(&over.iter)?;
    let given = numbers.into_iter().take(LONGEST).map(|of| {
        let one = One {
            name: Some(target.id.as_str()),
            number: of,
        };
        character(number(elt, one, 8)?)
    });
    given.collect()
}

/// The same of `map(lambda target: elt, over)`.
pub(crate) fn gone_through(
    elt: &Expr,
    target: &str,
    numbers: &[i64],
    table: Option<&str>,
) -> Option<Vec<String>> {
    if numbers.len() > LONGEST {
        return None;
    }
    numbers
        .iter()
        .map(|number| {
            let one = One {
                name: Some(target),
                number: *number,
            };
            one_character(elt, one, table)
        })
        .collect()
}

/// The numbers of a list of them, or of bytes.
pub(crate) fn numbers(expression: &Expr) -> Option<Vec<i64>> {
    let items = match expression {
        Expr::List(it) => &it.elts,
        Expr::Tuple(it) => &it.elts,
        Expr::BytesLiteral(it) => return Some(it.value.bytes().map(i64::from).collect()),
        _ => return None,
    };
    items.iter().map(integer).collect()
}

fn one_character(elt: &Expr, one: One<'_>, table: Option<&str>) -> Option<String> {
    match elt {
        Expr::Name(name) if Some(name.id.as_str()) == one.name => character(one.number),
        Expr::Call(call) => match (call.func.as_ref(), call.arguments.args.as_ref()) {
            (Expr::Name(name), [code]) if name.id.as_str() == "chr" => {
                character(number(code, one, 8)?)
            }
            _ => None,
        },
        Expr::Subscript(it) => {
            let at = number(&it.slice, one, 8)?;
            let table = table?;
            let length = i64::try_from(table.chars().count()).ok()?;
            let at = if at < 0 { at + length } else { at };
            Some(table.chars().nth(usize::try_from(at).ok()?)?.to_string())
        }
        _ => None,
    }
}

fn number(expression: &Expr, one: One<'_>, parts: u32) -> Option<i64> {
    let parts = parts.checked_sub(1)?;
    match expression {
        Expr::NumberLiteral(it) => match &it.value {
            Number::Int(number) => number.as_i64(),
            _ => None,
        },
        Expr::Name(name) if Some(name.id.as_str()) == one.name => Some(one.number),
        Expr::UnaryOp(it) if it.op == UnaryOp::USub => {
            number(&it.operand, one, parts)?.checked_neg()
        }
        Expr::BinOp(it) => {
            let left = number(&it.left, one, parts)?;
            let right = number(&it.right, one, parts)?;
            match it.op {
                Operator::Add => left.checked_add(right),
                Operator::Sub => left.checked_sub(right),
                Operator::Mult => left.checked_mul(right),
                Operator::BitXor => Some(left ^ right),
                Operator::Mod => left.checked_rem_euclid(right),
                Operator::FloorDiv => left.checked_div_euclid(right),
                _ => None,
            }
        }
        Expr::Call(call) => match (call.func.as_ref(), call.arguments.args.as_ref()) {
            (Expr::Name(name), [of]) if name.id.as_str() == "ord" => match of {
                Expr::StringLiteral(text) => {
                    let mut characters = text.value.to_str().chars();
                    characters.next().map(|c| i64::from(u32::from(c)))
                }
                // The number of a character is the character's, the name standing for either.
                _ => number(of, one, parts),
            },
            _ => None,
        },
        _ => None,
    }
}

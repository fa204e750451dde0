//! Texts that are written out in code, whole or in parts.

use std::collections::BTreeMap;

use ruff_python_ast::{
    Arguments, ConversionFlag, Expr, ExprCall, ExprFString, ExprSlice, FStringPart,
    InterpolatedStringElement, Keyword, Number, Operator, UnaryOp, name::Name,
};

/// Expressions in expressions that are put together at most.
const PARTS: u32 = 64;
/// The longest text that is put together, in bytes.
const LONGEST: usize = 4096;

/// What the code's own names stand for, where they are given one text and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Texts(BTreeMap<Name, Option<String>>);

impl Texts {
    /// Notes that a name is given a value.
    pub(crate) fn give(&mut self, name: &Name, value: Option<&Expr>) {
        let text = value.and_then(|value| self.constant(value));
        let text = text.filter(|text| text.len() <= LONGEST);
        self.0
            .entry(name.clone())
            .and_modify(|known| {
                if *known != text {
                    *known = None;
                }
            })
            .or_insert(text);
    }

    /// The text that an expression is, as far as it is written out: literals, and what they are put together from by
    /// `+`, `*`, `%`, f-strings, slices and the everyday methods of texts.
    pub(crate) fn constant(&self, expression: &Expr) -> Option<String> {
        self.put_together(expression, PARTS)
    }

    fn put_together(&self, expression: &Expr, parts: u32) -> Option<String> {
        let parts = parts.checked_sub(1)?;
        match expression {
            Expr::StringLiteral(literal) => Some(literal.value.to_str().to_owned()),
            Expr::Name(name) => self.0.get(&name.id).cloned().flatten(),
            Expr::Named(it) => self.put_together(&it.value, parts),
            Expr::BinOp(it) => {
                let left = self.put_together(&it.left, parts)?;
                match it.op {
                    Operator::Add => Some(left + &self.put_together(&it.right, parts)?),
                    Operator::Mult => {
                        let times = usize::try_from(integer(&it.right)?).ok()?;
                        (left.len().saturating_mul(times) <= LONGEST).then(|| left.repeat(times))
                    }
                    Operator::Mod => self.filled_in(&left, &it.right, parts),
                    _ => None,
                }
            }
            Expr::FString(it) => self.interpolated(it, parts),
            Expr::Subscript(it) => {
                let text = self.put_together(&it.value, parts)?;
                match it.slice.as_ref() {
                    Expr::Slice(slice) => sliced(&text, slice),
                    index => {
                        let index = integer(index)?;
                        let length = i64::try_from(text.chars().count()).ok()?;
                        let at = if index < 0 { index + length } else { index };
                        let c = text.chars().nth(usize::try_from(at).ok()?)?;
                        Some(c.to_string())
                    }
                }
            }
            Expr::Call(call) => self.called(call, parts),
            _ => None,
        }
    }

    /// An f-string with plain fields only.
    fn interpolated(&self, string: &ExprFString, parts: u32) -> Option<String> {
        let mut text = String::new();
        for part in &string.value {
            let inner = match part {
                FStringPart::Literal(literal) => {
                    text.push_str(&literal.value);
                    continue;
                }
                FStringPart::FString(inner) => inner,
            };
            for element in &inner.elements {
                match element {
                    InterpolatedStringElement::Literal(it) => text.push_str(&it.value),
                    InterpolatedStringElement::Interpolation(it) => {
                        let plain =
                            it.conversion == ConversionFlag::None && it.format_spec.is_none();
                        let expression = Some(&it.expression).filter(|_| plain)?;
                        push(&mut text, &self.put_together(expression, parts)?)?;
                    }
                }
            }
        }
        Some(text)
    }

    /// `"__%s__" % "globals"`, with plain fields only.
    fn filled_in(&self, pattern: &str, values: &Expr, parts: u32) -> Option<String> {
        let mut values = match values {
            Expr::Tuple(it) => self.each(&it.elts, parts)?,
            one => vec![self.put_together(one, parts)?],
        };
        values.reverse();
        let mut text = String::new();
        let mut rest = pattern.chars();
        while let Some(c) = rest.next() {
            match c {
                '%' => match rest.next()? {
                    's' => push(&mut text, &values.pop()?)?,
                    '%' => text.push('%'),
                    _ => return None,
                },
                c => text.push(c),
            }
        }
        Some(text)
    }

    /// What a call makes of texts that are written out.
    fn called(&self, call: &ExprCall, parts: u32) -> Option<String> {
        let arguments = &call.arguments;
        let one = || match arguments.args.as_ref() {
            [one] if arguments.keywords.is_empty() => Some(one),
            _ => None,
        };
        match call.func.as_ref() {
            Expr::Name(name) if name.id.as_str() == "str" => self.put_together(one()?, parts),
            Expr::Name(name) if name.id.as_str() == "chr" => character(integer(one()?)?),
            Expr::Attribute(method) => {
                let name = method.attr.as_str();
                match name {
                    "fromhex" => return from_hex(&self.put_together(one()?, parts)?),
                    "b64decode" | "urlsafe_b64decode" => {
                        return from_base64(&self.bytes_or_text(one()?, parts)?);
                    }
                    "decode" => return self.bytes_or_text(&method.value, parts),
                    _ => {}
                }
                let text = self.put_together(&method.value, parts)?;
                let none = arguments.args.is_empty() && arguments.keywords.is_empty();
                match name {
                    "join" => {
                        let items = self.items(one()?, parts)?;
                        (items.len().saturating_mul(text.len()) <= LONGEST)
                            .then(|| items.join(&text))
                    }
                    "format" => self.formatted(&text, arguments, parts),
                    "replace" => match arguments.args.as_ref() {
                        [from, to] => {
                            let from = self.put_together(from, parts)?;
                            let to = self.put_together(to, parts)?;
                            (text.len().saturating_mul(to.len().max(1)) <= LONGEST)
                                .then(|| text.replace(&from, &to))
                        }
                        _ => None,
                    },
                    "lower" | "casefold" if none => Some(text.to_lowercase()),
                    "upper" if none => Some(text.to_uppercase()),
                    "strip" if none => Some(text.trim().to_owned()),
                    "lstrip" if none => Some(text.trim_start().to_owned()),
                    "rstrip" if none => Some(text.trim_end().to_owned()),
                    "encode" => Some(text),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn bytes_or_text(&self, expression: &Expr, parts: u32) -> Option<String> {
        of_bytes(expression).or_else(|| match expression {
            Expr::Call(call) if named(&call.func, "bytes") => {
                Some(numbers(call.arguments.args.first()?)?.concat())
            }
            other => self.put_together(other, parts),
        })
    }

    /// The texts that `join` is given.
    fn items(&self, expression: &Expr, parts: u32) -> Option<Vec<String>> {
        match expression {
            Expr::List(it) => self.each(&it.elts, parts),
            Expr::Tuple(it) => self.each(&it.elts, parts),
            Expr::Call(call) if named(&call.func, "map") => match call.arguments.args.as_ref() {
                [function, codes] if named(function, "chr") => numbers(codes),
                _ => None,
            },
            Expr::Call(call) if named(&call.func, "reversed") => {
                let text = self.put_together(call.arguments.args.first()?, parts)?;
                Some(vec![text.chars().rev().collect()])
            }
            Expr::Generator(it) => match (it.elt.as_ref(), it.generators.as_slice()) {
                (Expr::Call(call), [over]) if named(&call.func, "chr") => numbers(&over.iter),
                _ => None,
            },
            Expr::ListComp(it) => match (it.elt.as_ref(), it.generators.as_slice()) {
                (Expr::Call(call), [over]) if named(&call.func, "chr") => numbers(&over.iter),
                _ => None,
            },
            other => Some(vec![self.put_together(other, parts)?]),
        }
    }

    fn each(&self, items: &[Expr], parts: u32) -> Option<Vec<String>> {
        let mut left = LONGEST;
        let each = items.iter().map(|item| {
            let text = self.put_together(item, parts)?;
            left = left.checked_sub(text.len())?;
            Some(text)
        });
        each.collect()
    }

    /// `"__{}__".format("globals")`, with plain fields only.
    fn formatted(&self, pattern: &str, arguments: &Arguments, parts: u32) -> Option<String> {
        let mut text = String::new();
        let mut rest = pattern;
        let mut next = 0_usize;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, field) = rest.split_at(at);
            text.push_str(before);
            if let Some(after) = field
                .strip_prefix("{{")
                .or_else(|| field.strip_prefix("}}"))
            {
                text.push_str(field.get(..1)?);
                rest = after;
                continue;
            }
            let (name, after) = field.strip_prefix('{')?.split_once('}')?;
            let value = if name.is_empty() {
                next += 1;
                arguments.args.get(next - 1)?
            } else if let Ok(index) = name.parse::<usize>() {
                arguments.args.get(index)?
            } else {
                let given = |it: &&Keyword| it.arg.as_ref().is_some_and(|arg| arg.as_str() == name);
                &arguments.keywords.iter().find(given)?.value
            };
            push(&mut text, &self.put_together(value, parts)?)?;
            rest = after;
        }
        Some(text + rest)
    }
}

/// Adds to a text while it is not too long.
fn push(text: &mut String, more: &str) -> Option<()> {
    (text.len() + more.len() <= LONGEST).then(|| text.push_str(more))
}

fn named(function: &Expr, wanted: &str) -> bool {
    matches!(function, Expr::Name(name) if name.id.as_str() == wanted)
}

/// A whole number that is written out.
fn integer(expression: &Expr) -> Option<i64> {
    match expression {
        Expr::NumberLiteral(it) => match &it.value {
            Number::Int(number) => number.as_i64(),
            _ => None,
        },
        Expr::UnaryOp(it) if it.op == UnaryOp::USub => integer(&it.operand)?.checked_neg(),
        _ => None,
    }
}

fn character(code: i64) -> Option<String> {
    char::from_u32(u32::try_from(code).ok()?).map(String::from)
}

/// The characters of a list of their numbers.
fn numbers(expression: &Expr) -> Option<Vec<String>> {
    let items = match expression {
        Expr::List(it) => &it.elts,
        Expr::Tuple(it) => &it.elts,
        _ => return None,
    };
    items.iter().map(|it| character(integer(it)?)).collect()
}

/// `text[a:b:c]` as Python cuts it.
fn sliced(text: &str, slice: &ExprSlice) -> Option<String> {
    let whole = |bound: &Option<Box<Expr>>| match bound {
        None => Some(None),
        Some(bound) => integer(bound).map(Some),
    };
    let characters: Vec<char> = text.chars().collect();
    let length = i64::try_from(characters.len()).ok()?;
    let step = whole(&slice.step)?.unwrap_or(1);
    let (first, last) = if step < 0 {
        (-1, length - 1)
    } else {
        (0, length)
    };
    let bound = |at: i64| {
        let at = if at < 0 {
            at.saturating_add(length)
        } else {
            at
        };
        at.clamp(first, last)
    };
    let (from, to) = if step < 0 {
        (last, first)
    } else {
        (first, last)
    };
    let mut at = whole(&slice.lower)?.map_or(from, bound);
    let end = whole(&slice.upper)?.map_or(to, bound);
    let mut cut = String::new();
    while step != 0 && (if step < 0 { at > end } else { at < end }) {
        cut.push(*characters.get(usize::try_from(at).ok()?)?);
        at = at.checked_add(step)?;
    }
    Some(cut)
}

fn from_hex(text: &str) -> Option<String> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16))
        .collect::<Option<_>>()?;
    let bytes = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    });
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

fn from_base64(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for c in text.bytes().filter(|c| !c.is_ascii_whitespace()) {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = ((bits << 6) | u32::from(value)) & 0x00ff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    String::from_utf8(bytes).ok()
}

/// What an f-string ends in after its last field.
pub(crate) fn ending(expression: &Expr) -> Option<String> {
    let Expr::FString(it) = expression else {
        return None;
    };
    let mut text = String::new();
    for part in &it.value {
        match part {
            FStringPart::Literal(literal) => text.push_str(&literal.value),
            FStringPart::FString(inner) => {
                for element in &inner.elements {
                    if let InterpolatedStringElement::Literal(literal) = element {
                        text.push_str(&literal.value);
                    } else {
                        text.clear();
                    }
                }
            }
        }
    }
    Some(text)
}

/// The text that bytes are, if they are one.
pub(crate) fn of_bytes(expression: &Expr) -> Option<String> {
    let Expr::BytesLiteral(literal) = expression else {
        return None;
    };
    String::from_utf8(literal.value.bytes().collect()).ok()
}

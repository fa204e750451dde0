//! Texts that are written out in code, whole or in parts.

use std::collections::BTreeMap;

use ruff_python_ast::{
    Arguments, Comprehension, ConversionFlag, Expr, ExprCall, ExprFString, ExprSubscript,
    FStringPart, InterpolatedElement, InterpolatedStringElement, Keyword, Operator, name::Name,
};

use super::{
    characters::{self, character, integer},
    codecs::{by_codec, from_base64, from_hex, letters, sliced, swapped},
};

/// Expressions in expressions that are put together at most.
const PARTS: u32 = 64;
/// The longest text that is put together, in bytes.
const LONGEST: usize = 4096;

/// What the code's own names stand for, where they are given one text, or one list of texts, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    one: BTreeMap<Name, Option<String>>,
    lists: BTreeMap<Name, Option<Vec<String>>>,
}

impl Texts {
    /// Notes that a name is given a value.
    pub(crate) fn give(&mut self, name: &Name, value: Option<&Expr>) {
        let text = value.and_then(|value| self.constant(value));
        let text = text.filter(|text| text.len() <= LONGEST);
        same_or_none(&mut self.one, name, text);
        let list = match value {
            Some(Expr::List(it)) => self.each(&it.elts, PARTS),
            Some(Expr::Tuple(it)) => self.each(&it.elts, PARTS),
            _ => None,
        };
        same_or_none(&mut self.lists, name, list);
    }

    /// Notes that a text is put behind what a name stands for.
    pub(crate) fn add(&mut self, name: &Name, value: &Expr) {
        let longer = self.one.get(name).cloned().flatten().and_then(|mut text| {
            push(&mut text, &self.constant(value)?)?;
            Some(text)
        });
        self.one.insert(name.clone(), longer);
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
            Expr::Name(name) => self.one.get(&name.id).cloned().flatten(),
            Expr::Named(it) => self.put_together(&it.value, parts),
            Expr::BinOp(it) => {
                if it.op == Operator::Mult {
                    let (text, times) = match integer(&it.left) {
                        Some(times) => (&it.right, times),
                        None => (&it.left, integer(&it.right)?),
                    };
                    let text = self.put_together(text, parts)?;
                    let times = usize::try_from(times).ok()?;
                    return (text.len().saturating_mul(times) <= LONGEST)
                        .then(|| text.repeat(times));
                }
                let left = self.put_together(&it.left, parts)?;
                match it.op {
                    Operator::Add => {
                        let right = self.put_together(&it.right, parts)?;
                        (left.len() + right.len() <= LONGEST).then(|| left + &right)
                    }
                    Operator::Mod => self.filled_in(&left, &it.right, parts),
                    _ => None,
                }
            }
            Expr::FString(it) => self.interpolated(it, parts),
            Expr::Subscript(it) => self.part(it, parts),
            Expr::Call(call) => self.called(call, parts),
            Expr::Attribute(it) if named(&it.value, "string") => letters(it.attr.as_str()),
            _ => None,
        }
    }

    /// A character or part of a text, or one of several texts.
    fn part(&self, subscript: &ExprSubscript, parts: u32) -> Option<String> {
        if let Expr::Dict(it) = subscript.value.as_ref() {
            let wanted = self.put_together(&subscript.slice, parts)?;
            let found = it.items.iter().find(|item| {
                let key = item.key.as_ref();
                key.and_then(|key| self.put_together(key, parts)).as_ref() == Some(&wanted)
            })?;
            return self.put_together(&found.value, parts);
        }
        let at = |length: usize| {
            let index = integer(&subscript.slice)?;
            let length = i64::try_from(length).ok()?;
            let at = if index < 0 { index + length } else { index };
            usize::try_from(at).ok()
        };
        match subscript.value.as_ref() {
            Expr::List(it) => return self.put_together(it.elts.get(at(it.elts.len())?)?, parts),
            Expr::Tuple(it) => return self.put_together(it.elts.get(at(it.elts.len())?)?, parts),
            Expr::Name(name) => {
                if let Some(Some(list)) = self.lists.get(&name.id) {
                    return list.get(at(list.len())?).cloned();
                }
            }
            Expr::Call(call) if splits(call) => {
                let pieces = self.pieces(call, parts)?;
                return pieces.get(at(pieces.len())?).cloned();
            }
            _ => {}
        }
        let text = self.put_together(&subscript.value, parts)?;
        if let Expr::Slice(slice) = subscript.slice.as_ref() {
            return sliced(&text, slice);
        }
        let c = text.chars().nth(at(text.chars().count())?)?;
        Some(c.to_string())
    }

    /// What `split` and `partition` make of a text that is written out.
    pub(crate) fn split(&self, call: &ExprCall) -> Option<Vec<String>> {
        self.pieces(call, PARTS)
    }

    fn pieces(&self, call: &ExprCall, parts: u32) -> Option<Vec<String>> {
        let parts = parts.checked_sub(1)?;
        let Expr::Attribute(method) = call.func.as_ref() else {
            return None;
        };
        if !splits(call) {
            return None;
        }
        let name = method.attr.as_str();
        let text = self.put_together(&method.value, parts)?;
        let owned = |pieces: Vec<&str>| Some(pieces.into_iter().map(str::to_owned).collect());
        let mark = match call.arguments.args.first() {
            Some(mark) if name != "splitlines" => self.put_together(mark, parts)?,
            _ if name == "splitlines" => return owned(text.lines().collect()),
            _ => return owned(text.split_whitespace().collect()),
        };
        let halves = |halves: Option<(&str, &str)>| match halves {
            Some((before, after)) => owned(vec![before, &mark, after]),
            None => owned(vec![&text]),
        };
        match name {
            _ if mark.is_empty() => None,
            "partition" => halves(text.split_once(&mark)),
            "rpartition" => halves(text.rsplit_once(&mark)),
            _ => owned(text.split(&mark).collect()),
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
                        push(&mut text, &self.field(it, parts)?)?;
                    }
                }
            }
        }
        Some(text)
    }

    /// `{x}`, `{x!s}`, `{x:s}` or `{95:c}`.
    fn field(&self, field: &InterpolatedElement, parts: u32) -> Option<String> {
        if !matches!(field.conversion, ConversionFlag::None | ConversionFlag::Str) {
            return None;
        }
        let mut spec = String::new();
        for element in field.format_spec.iter().flat_map(|it| it.elements.iter()) {
            match element {
                InterpolatedStringElement::Literal(it) => spec.push_str(&it.value),
                InterpolatedStringElement::Interpolation(_) => return None,
            }
        }
        match spec.as_str() {
            "" | "s" => self.put_together(&field.expression, parts),
            "c" => character(integer(&field.expression)?),
            _ => None,
        }
    }

    /// `"__%s__" % "globals"`, with plain fields only.
    fn filled_in(&self, pattern: &str, values: &Expr, parts: u32) -> Option<String> {
        let one = |value: &Expr| match integer(value) {
            Some(code) => character(code),
            None => self.put_together(value, parts),
        };
        let mut values = match values {
            Expr::Tuple(it) => it.elts.iter().map(one).collect::<Option<Vec<_>>>()?,
            value => vec![one(value)?],
        };
        values.reverse();
        let mut text = String::new();
        let mut rest = pattern.chars();
        while let Some(c) = rest.next() {
            match c {
                '%' => match rest.next()? {
                    's' | 'c' => push(&mut text, &values.pop()?)?,
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
            Expr::Name(name) if name.id.as_str() == "str" => {
                self.bytes_or_text(arguments.args.first()?, parts)
            }
            Expr::Name(name) if name.id.as_str() == "format" => {
                self.put_together(arguments.args.first()?, parts)
            }
            Expr::Name(name) if name.id.as_str() == "chr" => character(integer(one()?)?),
            // `str.join("", …)` is `"".join(…)`.
            Expr::Attribute(method) if named(&method.value, "str") => {
                let (text, rest) = arguments.args.split_first()?;
                let text = self.put_together(text, parts)?;
                self.method(method.attr.as_str(), text, rest, arguments, parts)
            }
            Expr::Attribute(method) => {
                let name = method.attr.as_str();
                match name {
                    "fromhex" => return from_hex(&self.put_together(one()?, parts)?),
                    "b64decode" | "urlsafe_b64decode" => {
                        return from_base64(&self.bytes_or_text(one()?, parts)?);
                    }
                    // `codecs.decode("…", "rot13")`
                    "decode" | "encode" if named(&method.value, "codecs") => {
                        let [text, codec] = arguments.args.as_ref() else {
                            return None;
                        };
                        let text = self.bytes_or_text(text, parts)?;
                        return by_codec(&text, &self.put_together(codec, parts)?);
                    }
                    "decode" => return self.bytes_or_text(&method.value, parts),
                    _ => {}
                }
                let text = self.put_together(&method.value, parts)?;
                self.method(name, text, &arguments.args, arguments, parts)
            }
            _ => None,
        }
    }

    /// What a method of texts makes of one; `all` are its arguments as they stand, `given` those behind the text.
    fn method(
        &self,
        name: &str,
        text: String,
        given: &[Expr],
        all: &Arguments,
        parts: u32,
    ) -> Option<String> {
        let none = given.is_empty() && all.keywords.is_empty();
        let cut = |cut: fn(&str, &str) -> String| match given {
            [of] => Some(cut(&text, &self.put_together(of, parts)?)),
            _ => None,
        };
        match (name, given) {
            ("join", [items]) => {
                let items = self.items(items, parts)?;
                (items.len().saturating_mul(text.len()) <= LONGEST).then(|| items.join(&text))
            }
            ("format", _) => self.formatted(&text, given, all, parts),
            ("replace", [from, to]) => {
                let from = self.put_together(from, parts)?;
                let to = self.put_together(to, parts)?;
                (text.len().saturating_mul(to.len().max(1)) <= LONGEST)
                    .then(|| text.replace(&from, &to))
            }
            ("lower" | "casefold", []) if none => Some(text.to_lowercase()),
            ("upper", []) if none => Some(text.to_uppercase()),
            ("swapcase", []) if none => Some(swapped(&text)),
            ("strip", []) if none => Some(text.trim().to_owned()),
            ("lstrip", []) if none => Some(text.trim_start().to_owned()),
            ("rstrip", []) if none => Some(text.trim_end().to_owned()),
            ("strip", _) => cut(|text, of| text.trim_matches(|c| of.contains(c)).to_owned()),
            ("lstrip", _) => cut(|text, of| text.trim_start_matches(|c| of.contains(c)).to_owned()),
            ("rstrip", _) => cut(|text, of| text.trim_end_matches(|c| of.contains(c)).to_owned()),
            ("removeprefix", _) => cut(|text, of| text.strip_prefix(of).unwrap_or(text).to_owned()),
            ("removesuffix", _) => cut(|text, of| text.strip_suffix(of).unwrap_or(text).to_owned()),
            ("encode", _) | ("__str__", []) => Some(text),
            ("__add__", [more]) => {
                let more = self.put_together(more, parts)?;
                (text.len() + more.len() <= LONGEST).then(|| text + &more)
            }
            _ => None,
        }
    }

    fn bytes_or_text(&self, expression: &Expr, parts: u32) -> Option<String> {
        of_bytes(expression).or_else(|| match expression {
            Expr::Call(call) if named(&call.func, "bytes") || named(&call.func, "bytearray") => {
                let given = call.arguments.args.first()?;
                match given {
                    Expr::Generator(it) => {
                        Some(characters::bytes(&it.elt, &it.generators)?.concat())
                    }
                    Expr::ListComp(it) => {
                        Some(characters::bytes(&it.elt, &it.generators)?.concat())
                    }
                    _ => match numbers(given) {
                        Some(numbers) => Some(numbers.concat()),
                        None => self.put_together(given, parts),
                    },
                }
            }
            other => self.put_together(other, parts),
        })
    }

    /// The texts that `join` is given.
    fn items(&self, expression: &Expr, parts: u32) -> Option<Vec<String>> {
        match expression {
            Expr::List(it) => self.each(&it.elts, parts),
            Expr::Tuple(it) => self.each(&it.elts, parts),
            Expr::Name(name) if self.lists.get(&name.id).is_some_and(Option::is_some) => {
                self.lists.get(&name.id).cloned().flatten()
            }
            Expr::Call(call) if named(&call.func, "map") => match call.arguments.args.as_ref() {
                [function, codes] if named(function, "chr") => numbers(codes),
                [Expr::Lambda(it), over] => {
                    let parameters = it.parameters.as_ref()?;
                    let target = parameters.iter().next()?.name().id.as_str();
                    let over = match self.put_together(over, parts) {
                        Some(text) => text.chars().map(|c| i64::from(u32::from(c))).collect(),
                        None => characters::numbers(over)?,
                    };
                    characters::gone_through(&it.body, target, &over, None)
                }
                _ => None,
            },
            Expr::Call(call) if named(&call.func, "reversed") => {
                let text = self.put_together(call.arguments.args.first()?, parts)?;
                Some(vec![text.chars().rev().collect()])
            }
            Expr::Generator(it) => self.worked_out(&it.elt, &it.generators, parts),
            Expr::ListComp(it) => self.worked_out(&it.elt, &it.generators, parts),
            Expr::Call(call) if splits(call) => self.pieces(call, parts),
            other => Some(vec![self.put_together(other, parts)?]),
        }
    }

    /// `chr(x + 1) for x in [94, 95]`, `letters[i] for i in [6, 11]`.
    fn worked_out(
        &self,
        elt: &Expr,
        generators: &[Comprehension],
        parts: u32,
    ) -> Option<Vec<String>> {
        let [over] = generators else {
            return None;
        };
        let text = self.put_together(&over.iter, parts);
        let table = match elt {
            Expr::Subscript(it) => self.put_together(&it.value, parts),
            _ => None,
        };
        characters::each(elt, over, text.as_deref(), table.as_deref())
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
    fn formatted(
        &self,
        pattern: &str,
        given: &[Expr],
        all: &Arguments,
        parts: u32,
    ) -> Option<String> {
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
            let (field, after) = field.strip_prefix('{')?.split_once('}')?;
            let (name, spec) = field.split_once([':', '!']).unwrap_or((field, ""));
            let value = if name.is_empty() {
                next += 1;
                given.get(next - 1)?
            } else if let Ok(index) = name.parse::<usize>() {
                given.get(index)?
            } else {
                let called =
                    |it: &&Keyword| it.arg.as_ref().is_some_and(|arg| arg.as_str() == name);
                &all.keywords.iter().find(called)?.value
            };
            let value = match spec {
                "" | "s" => self.put_together(value, parts)?,
                "c" => character(integer(value)?)?,
                _ => return None,
            };
            push(&mut text, &value)?;
            rest = after;
        }
        Some(text + rest)
    }
}

/// Adds to a text while it is not too long.
fn push(text: &mut String, more: &str) -> Option<()> {
    (text.len() + more.len() <= LONGEST).then(|| text.push_str(more))
}

/// Whether a call is of a method that takes a text apart.
fn splits(call: &ExprCall) -> bool {
    matches!(
        call.func.as_ref(),
        Expr::Attribute(it) if matches!(
            it.attr.as_str(),
            "split" | "rsplit" | "partition" | "rpartition" | "splitlines"
        )
    )
}

fn named(function: &Expr, wanted: &str) -> bool {
    matches!(function, Expr::Name(name) if name.id.as_str() == wanted)
}

/// The characters of a list of their numbers.
fn numbers(expression: &Expr) -> Option<Vec<String>> {
    let numbers = characters::numbers(expression)?;
    numbers.into_iter().map(character).collect()
}

fn same_or_none<T: PartialEq>(
    known: &mut BTreeMap<Name, Option<T>>,
    name: &Name,
    value: Option<T>,
) {
    match known.get_mut(name) {
        Some(before) if *before != value => *before = None,
        Some(_) => {}
        None => {
            known.insert(name.clone(), value);
        }
    }
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

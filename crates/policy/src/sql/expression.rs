//! Expressions: operators, values and functions by a list, everything else refused.

use sqlparser::ast::{
    BinaryOperator, CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, InTarget, UnaryOperator, Value, WindowFrameBound,
    WindowSpec, WindowType,
};

use super::{
    Refusal, functions,
    select::{ordered, query, single, table_name},
    tokens::quoted,
};

/// The most bytes that `zeroblob` and `randomblob` may make.
const BLOB_BYTES: u64 = 4096;

type Judged = Result<(), Refusal>;

/// All of these.
pub(super) fn all(parts: &[Expr]) -> Judged {
    parts.iter().try_for_each(expression)
}

fn some(part: Option<&Expr>) -> Judged {
    part.map_or(Ok(()), expression)
}

/// An expression with all that is in it.
pub(super) fn expression(expr: &Expr) -> Judged {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => Ok(()),
        Expr::Value(value) => literal(expr, &value.value),
        Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::Nested(inner)
        | Expr::UnaryOp {
            op:
                UnaryOperator::Plus
                | UnaryOperator::Minus
                | UnaryOperator::Not
                | UnaryOperator::BitwiseNot,
            expr: inner,
        }
        | Expr::Cast {
            kind: CastKind::Cast,
            expr: inner,
            data_type: _,
            format: None,
        } => expression(inner),
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
            expression(left)?;
            expression(right)
        }
        Expr::Between {
            expr: inner,
            low,
            high,
            negated: _,
        } => {
            expression(inner)?;
            expression(low)?;
            expression(high)
        }
        Expr::In {
            expr: inner,
            target,
            negated: _,
            global: false,
        } => {
            expression(inner)?;
            within(expr, target)
        }
        Expr::Like {
            any: false,
            expr: inner,
            pattern,
            escape_char,
            negated: _,
        } => {
            expression(inner)?;
            expression(pattern)?;
            some(escape_char.as_deref())
        }
        Expr::BinaryOp { left, op, right } => {
            operator(expr, op)?;
            expression(left)?;
            expression(right)
        }
        Expr::Collate {
            expr: inner,
            collation,
        } => {
            single(collation)?;
            expression(inner)
        }
        Expr::Case {
            case_token: _,
            end_token: _,
            operand,
            conditions,
            else_result,
        } => {
            some(operand.as_deref())?;
            for when in conditions {
                expression(&when.condition)?;
                expression(&when.result)?;
            }
            some(else_result.as_deref())
        }
        Expr::Tuple(parts) => all(parts),
        Expr::Exists { subquery, .. } | Expr::Subquery(subquery) => query(subquery),
        Expr::Function(function) => call(function),
        _ => Err(Refusal::of(
            expr,
            format_args!(
                "{} is no expression of SQLite that is known here; write it by operators and functions of SQLite",
                quoted(&expr.to_string())
            ),
        )),
    }
}

fn literal(expr: &Expr, value: &Value) -> Judged {
    match value {
        Value::Number(..)
        | Value::SingleQuotedString(_)
        | Value::HexStringLiteral(_)
        | Value::Boolean(_)
        | Value::Null
        | Value::Placeholder(_) => Ok(()),
        _ => Err(Refusal::of(
            expr,
            "a kind of literal that SQLite does not have; write 'text', x'00' or a number",
        )),
    }
}

fn within(expr: &Expr, target: &InTarget) -> Judged {
    match target {
        InTarget::List(parts) => all(parts),
        InTarget::Subquery(inner) => query(inner),
        InTarget::Table { name, args } => table_name(name, args.as_deref()),
        InTarget::Unnest(_) => Err(Refusal::of(
            expr,
            "UNNEST; write (SELECT value FROM json_each(…))",
        )),
    }
}

fn operator(expr: &Expr, op: &BinaryOperator) -> Judged {
    match op {
        BinaryOperator::Plus
        | BinaryOperator::Minus
        | BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Modulo
        | BinaryOperator::StringConcat
        | BinaryOperator::Gt
        | BinaryOperator::Lt
        | BinaryOperator::GtEq
        | BinaryOperator::LtEq
        | BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::And
        | BinaryOperator::Or
        | BinaryOperator::BitwiseOr
        | BinaryOperator::BitwiseAnd
        | BinaryOperator::PGBitwiseShiftLeft
        | BinaryOperator::PGBitwiseShiftRight
        | BinaryOperator::Match
        | BinaryOperator::Glob
        | BinaryOperator::Arrow
        | BinaryOperator::LongArrow
        | BinaryOperator::Is
        | BinaryOperator::IsNot => Ok(()),
        BinaryOperator::Regexp => Err(Refusal::of(
            expr,
            "REGEXP, which SQLite does not have here; write LIKE or GLOB",
        )),
        other => Err(Refusal::of(
            expr,
            format_args!("{} is no operator of SQLite", quoted(&other.to_string())),
        )),
    }
}

fn call(function: &Function) -> Judged {
    let Function {
        name,
        uses_odbc_syntax,
        parameters,
        args,
        within_group,
        filter,
        null_treatment,
        over: window,
    } = function;
    let called = single(name)?;
    if !functions::is_listed(&called.value) {
        return Err(Refusal::of(
            function,
            format_args!(
                "the function {} is not among those that a query may call",
                quoted(&called.value)
            ),
        ));
    }
    let foreign = *uses_odbc_syntax
        || *parameters != FunctionArguments::None
        || !within_group.is_empty()
        || null_treatment.is_some();
    if foreign {
        return Err(Refusal::of(
            function,
            "a way to call a function that SQLite does not have; write name(argument, …)",
        ));
    }
    match args {
        FunctionArguments::None => {}
        FunctionArguments::List(list) => {
            arguments(function, list)?;
            if ["zeroblob", "randomblob"]
                .iter()
                .any(|it| it.eq_ignore_ascii_case(&called.value))
            {
                small(function, list)?;
            }
            if ["printf", "format"]
                .iter()
                .any(|it| it.eq_ignore_ascii_case(&called.value))
            {
                narrow(function, list)?;
            }
        }
        FunctionArguments::Subquery(_) => {
            return Err(Refusal::of(
                function,
                "a query as an argument needs brackets of its own",
            ));
        }
    }
    some(filter.as_deref())?;
    match window {
        None | Some(WindowType::NamedWindow(_)) => Ok(()),
        Some(WindowType::WindowSpec(spec)) => over(spec),
    }
}

fn arguments(function: &Function, list: &FunctionArgumentList) -> Judged {
    list.args.iter().try_for_each(argument)?;
    list.clauses.iter().try_for_each(|clause| match clause {
        FunctionArgumentClause::OrderBy(parts) => ordered(parts),
        _ => Err(Refusal::of(
            function,
            "words inside the brackets of a function; SQLite knows DISTINCT and ORDER BY there",
        )),
    })
}

/// One argument of a function.
pub(super) fn argument(argument: &FunctionArg) -> Judged {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(inner)) => expression(inner),
        FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => Ok(()),
        _ => Err(Refusal::of(
            argument,
            "an argument with a name or of a kind that SQLite does not have",
        )),
    }
}

/// A blob made of nothing is as large as it says; the number must be there to be seen.
fn small(function: &Function, list: &FunctionArgumentList) -> Judged {
    let size = match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    };
    if size.is_some_and(|bytes: u64| bytes <= BLOB_BYTES) {
        return Ok(());
    }
    Err(Refusal::of(
        function,
        format_args!("the size of a made-up blob is a number up to {BLOB_BYTES}, written out"),
    ))
}

/// So is a text whose format has a wide field: `%1000000000d`.
fn narrow(function: &Function, list: &FunctionArgumentList) -> Judged {
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))),
        ..,
    ] = list.args.as_slice()
    else {
        return Ok(());
    };
    let Value::SingleQuotedString(format) = &value.value else {
        return Ok(());
    };
    let wide = format.replace("%%", "").split('%').skip(1).any(|field| {
        let field = field.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let spec = field.find(|c: char| c.is_ascii_alphabetic());
        let numbers = field.get(..spec.unwrap_or(0)).unwrap_or_default();
        numbers.split(|c: char| !c.is_ascii_digit()).any(|digits| {
            digits.parse().is_ok_and(|width: u64| width > BLOB_BYTES) || digits.len() > 18
        })
    });
    if wide {
        return Err(Refusal::of(
            function,
            format_args!("a field in a format is at most {BLOB_BYTES} characters wide"),
        ));
    }
    Ok(())
}

/// The window of a window function.
pub(super) fn over(spec: &WindowSpec) -> Judged {
    let WindowSpec {
        window_name: _,
        partition_by,
        order_by,
        window_frame,
    } = spec;
    all(partition_by)?;
    ordered(order_by)?;
    let Some(frame) = window_frame else {
        return Ok(());
    };
    for bound in std::iter::once(&frame.start_bound).chain(&frame.end_bound) {
        match bound {
            WindowFrameBound::CurrentRow => {}
            WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => {
                some(by.as_deref())?;
            }
        }
    }
    Ok(())
}

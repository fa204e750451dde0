//! Queries: what stands around expressions.

use sqlparser::ast::{
    Cte, Distinct, FunctionArg, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator,
    LimitClause, NamedWindowExpr, ObjectName, ObjectNamePart, OrderBy, OrderByExpr, OrderByKind,
    Query, Select, SelectFlavor, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetOperator,
    SetQuantifier, TableAlias, TableFactor, TableIndexDirective, TableWithJoins,
    WildcardAdditionalOptions,
};

use super::{
    Refusal,
    expression::{all, argument, expression, over},
    functions,
    tokens::quoted,
};

type Judged = Result<(), Refusal>;

/// A query with all that is in it.
pub(super) fn query(query: &Query) -> Judged {
    let Query {
        with,
        body,
        order_by,
        limit_clause,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    let foreign = fetch.is_some()
        || !locks.is_empty()
        || for_clause.is_some()
        || settings.is_some()
        || format_clause.is_some()
        || !pipe_operators.is_empty();
    if foreign {
        return Err(Refusal::of(
            query,
            "a clause that SQLite's SELECT does not have, such as FETCH, FOR UPDATE or FORMAT; leave it out",
        ));
    }
    if let Some(with) = with {
        with.cte_tables.iter().try_for_each(named_query)?;
    }
    set(body)?;
    if let Some(order) = order_by {
        order_clause(order)?;
    }
    limit_clause.as_ref().map_or(Ok(()), limit)
}

fn named_query(cte: &Cte) -> Judged {
    let Cte {
        alias: name,
        query: inner,
        from,
        materialized: _,
        closing_paren_token: _,
    } = cte;
    if from.is_some() {
        return Err(Refusal::of(cte, "FROM behind a query of WITH"));
    }
    alias(Some(name))?;
    query(inner)
}

fn set(body: &SetExpr) -> Judged {
    match body {
        SetExpr::Select(inner) => select(inner),
        SetExpr::Query(inner) => query(inner),
        SetExpr::SetOperation {
            left,
            op: SetOperator::Union | SetOperator::Except | SetOperator::Intersect,
            set_quantifier: SetQuantifier::All | SetQuantifier::None,
            right,
        } => {
            set(left)?;
            set(right)
        }
        SetExpr::SetOperation { .. } => Err(Refusal::of(
            body,
            "queries are joined by UNION, UNION ALL, INTERSECT or EXCEPT",
        )),
        SetExpr::Values(values) => values.rows.iter().try_for_each(|row| all(&row.content)),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
            Err(Refusal::of(
                body,
                "a statement that writes, behind WITH; this tool only reads",
            ))
        }
        SetExpr::Table(_) => Err(Refusal::of(
            body,
            "TABLE as a query; write SELECT * FROM the table",
        )),
    }
}

fn select(select: &Select) -> Judged {
    let Select {
        select_token: _,
        optimizer_hints,
        distinct,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having,
        named_window,
        qualify,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    if into.is_some() {
        return Err(Refusal::of(select, "SELECT … INTO writes; leave INTO out"));
    }
    let foreign = !optimizer_hints.is_empty()
        || select_modifiers.is_some()
        || top.is_some()
        || exclude.is_some()
        || !lateral_views.is_empty()
        || prewhere.is_some()
        || !connect_by.is_empty()
        || !cluster_by.is_empty()
        || !distribute_by.is_empty()
        || !sort_by.is_empty()
        || qualify.is_some()
        || value_table_mode.is_some()
        || *flavor != SelectFlavor::Standard;
    if foreign {
        return Err(Refusal::of(
            select,
            "a clause that SQLite's SELECT does not have, such as TOP, QUALIFY or LATERAL VIEW; leave it out",
        ));
    }
    match distinct {
        None | Some(Distinct::All | Distinct::Distinct) => {}
        Some(Distinct::On(_)) => {
            return Err(Refusal::of(
                select,
                "DISTINCT ON; write GROUP BY or a window function",
            ));
        }
    }
    projection.iter().try_for_each(column)?;
    from.iter().try_for_each(joined)?;
    selection.iter().try_for_each(expression)?;
    group(select, group_by)?;
    having.iter().try_for_each(expression)?;
    named_window.iter().try_for_each(|window| match &window.1 {
        NamedWindowExpr::NamedWindow(_) => Ok(()),
        NamedWindowExpr::WindowSpec(spec) => over(spec),
    })
}

fn column(item: &SelectItem) -> Judged {
    match item {
        SelectItem::UnnamedExpr(inner) | SelectItem::ExprWithAlias { expr: inner, .. } => {
            expression(inner)
        }
        SelectItem::Wildcard(options)
        | SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(_), options) => {
            star(item, options)
        }
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(_), _)
        | SelectItem::ExprWithAliases { .. } => Err(Refusal::of(
            item,
            "a column is an expression, with one name behind AS",
        )),
    }
}

fn star(item: &SelectItem, options: &WildcardAdditionalOptions) -> Judged {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    let more = opt_ilike.is_some()
        || opt_exclude.is_some()
        || opt_except.is_some()
        || opt_replace.is_some()
        || opt_rename.is_some()
        || opt_alias.is_some();
    if more {
        return Err(Refusal::of(
            item,
            "words behind *, which SQLite does not have; name the columns",
        ));
    }
    Ok(())
}

fn group(select: &Select, by: &GroupByExpr) -> Judged {
    match by {
        GroupByExpr::Expressions(parts, more) if more.is_empty() => all(parts),
        _ => Err(Refusal::of(
            select,
            "GROUP BY takes columns and expressions; ALL, ROLLUP and CUBE are not SQLite's",
        )),
    }
}

fn order_clause(order: &OrderBy) -> Judged {
    match (&order.kind, &order.interpolate) {
        (OrderByKind::Expressions(parts), None) => ordered(parts),
        _ => Err(Refusal::of(order, "ORDER BY takes columns and expressions")),
    }
}

/// What things are put in order by.
pub(super) fn ordered(parts: &[OrderByExpr]) -> Judged {
    parts.iter().try_for_each(|part| match part.with_fill {
        None => expression(&part.expr),
        Some(_) => Err(Refusal::of(part, "WITH FILL is not SQLite's")),
    })
}

fn limit(clause: &LimitClause) -> Judged {
    match clause {
        LimitClause::LimitOffset {
            limit,
            offset,
            limit_by,
        } if limit_by.is_empty() => {
            limit.iter().try_for_each(expression)?;
            offset
                .iter()
                .try_for_each(|offset| expression(&offset.value))
        }
        LimitClause::OffsetCommaLimit { offset, limit } => {
            expression(offset)?;
            expression(limit)
        }
        LimitClause::LimitOffset { .. } => Err(Refusal::of(clause, "LIMIT … BY is not SQLite's")),
    }
}

fn joined(tables: &TableWithJoins) -> Judged {
    table(&tables.relation)?;
    tables.joins.iter().try_for_each(join)
}

fn join(join: &Join) -> Judged {
    let foreign = || Err(Refusal::of(join, "a join that SQLite does not have"));
    if join.global {
        return foreign();
    }
    table(&join.relation)?;
    match &join.join_operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on)
        | JoinOperator::CrossJoin(on) => match on {
            JoinConstraint::On(condition) => expression(condition),
            JoinConstraint::Using(_) | JoinConstraint::Natural | JoinConstraint::None => Ok(()),
            JoinConstraint::UsingAlias(..) => foreign(),
        },
        _ => foreign(),
    }
}

fn table(factor: &TableFactor) -> Judged {
    match factor {
        TableFactor::Table {
            name,
            alias: called,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_directives,
            inheritance,
        } => {
            let foreign = !with_hints.is_empty()
                || version.is_some()
                || *with_ordinality
                || !partitions.is_empty()
                || json_path.is_some()
                || sample.is_some()
                || inheritance.is_some()
                || args.as_ref().is_some_and(|args| args.settings.is_some())
                || index_directives
                    .iter()
                    .any(|hint| matches!(hint, TableIndexDirective::MySql(_)));
            if foreign {
                return Err(Refusal::of(
                    factor,
                    "words behind a table that SQLite does not have; leave them out",
                ));
            }
            alias(called.as_ref())?;
            table_name(name, args.as_ref().map(|args| args.args.as_slice()))
        }
        TableFactor::Derived {
            lateral: false,
            subquery,
            alias: called,
            sample: None,
        } => {
            alias(called.as_ref())?;
            query(subquery)
        }
        TableFactor::NestedJoin {
            table_with_joins,
            alias: called,
        } => {
            alias(called.as_ref())?;
            joined(table_with_joins)
        }
        _ => Err(Refusal::of(
            factor,
            "FROM takes tables, views, queries in brackets and table-valued functions of SQLite",
        )),
    }
}

fn alias(alias: Option<&TableAlias>) -> Judged {
    match alias {
        Some(alias)
            if alias.at.is_some() || alias.columns.iter().any(|it| it.data_type.is_some()) =>
        {
            Err(Refusal::at(
                alias.name.span.start,
                "a name behind AS takes no type and no AT",
            ))
        }
        _ => Ok(()),
    }
}

/// A table, a view, or a function whose result is a table.
pub(super) fn table_name(name: &ObjectName, arguments: Option<&[FunctionArg]>) -> Judged {
    let (schema, table) = match name.0.as_slice() {
        [table] => (None, plain(name, table)?),
        [schema, table] => (Some(plain(name, schema)?), plain(name, table)?),
        _ => {
            return Err(Refusal::of(
                name,
                "a table's name has at most two parts, such as main.notes",
            ));
        }
    };
    if let Some(schema) = schema
        && !["main", "temp"].contains(&schema.value.to_ascii_lowercase().as_str())
    {
        return Err(Refusal::of(
            name,
            format_args!(
                "the database {}: only the one that db_path names is open, as main",
                quoted(&schema.value)
            ),
        ));
    }
    let bare = table.value.to_ascii_lowercase();
    if bare.starts_with("pragma_") {
        return Err(Refusal::of(
            name,
            format_args!(
                "{} is a PRAGMA in disguise; read sqlite_schema, whose column sql holds each table's definition",
                quoted(&table.value)
            ),
        ));
    }
    if bare.starts_with("sqlite_") && !functions::is_own_table(&bare) {
        return Err(Refusal::of(
            name,
            format_args!(
                "{} is a table of SQLite's own that is not read here; sqlite_schema is",
                quoted(&table.value)
            ),
        ));
    }
    match arguments {
        None => Ok(()),
        Some(arguments) if functions::is_table(&bare) => arguments.iter().try_for_each(argument),
        Some(_) => Err(Refusal::of(
            name,
            format_args!(
                "{} is no table-valued function that is known here: json_each, json_tree and generate_series are; \
                 search full text by MATCH",
                quoted(&table.value)
            ),
        )),
    }
}

fn plain<'t>(whole: &ObjectName, part: &'t ObjectNamePart) -> Result<&'t Ident, Refusal> {
    match part {
        ObjectNamePart::Identifier(ident) => Ok(ident),
        ObjectNamePart::Function(_) => Err(Refusal::of(whole, "a name that is computed")),
    }
}

/// A name of one part.
pub(super) fn single(name: &ObjectName) -> Result<&Ident, Refusal> {
    match name.0.as_slice() {
        [part] => plain(name, part),
        _ => Err(Refusal::of(name, "a name of several parts; write one")),
    }
}

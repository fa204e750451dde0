//! The functions that a query may call, from `SQLite`'s manual.
//!
//! Not here, though `SQLite` has them: `load_extension` (loads code), `fts3_tokenizer` (takes and gives addresses), the
//! FTS3 `optimize` (writes), `sqlite_compileoption_*`, `sqlite_offset`, `sqlite_log` and `subtype` (tell of the library,
//! not of the data), and all of the shell's (`readfile`, `writefile`, `edit`, `fsdir`).

/// <https://www.sqlite.org/lang_corefunc.html>
const CORE: &[&str] = &[
    "abs",
    "changes",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "format",
    "glob",
    "hex",
    "if",
    "ifnull",
    "iif",
    "instr",
    "last_insert_rowid",
    "length",
    "like",
    "likelihood",
    "likely",
    "lower",
    "ltrim",
    "max",
    "min",
    "nullif",
    "octet_length",
    "printf",
    "quote",
    "random",
    "randomblob",
    "replace",
    "round",
    "rtrim",
    "sign",
    "soundex",
    "sqlite_version",
    "substr",
    "substring",
    "total_changes",
    "trim",
    "typeof",
    "unhex",
    "unicode",
    "unistr",
    "unistr_quote",
    "unlikely",
    "upper",
    "zeroblob",
];
/// <https://www.sqlite.org/lang_aggfunc.html>, <https://www.sqlite.org/percentile.html>
const AGGREGATE: &[&str] = &[
    "avg",
    "count",
    "group_concat",
    "median",
    "percentile",
    "percentile_cont",
    "percentile_disc",
    "string_agg",
    "sum",
    "total",
];
/// <https://www.sqlite.org/windowfunctions.html>
const WINDOW: &[&str] = &[
    "cume_dist",
    "dense_rank",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
];
/// <https://www.sqlite.org/lang_datefunc.html>; the last three are words of the language that `SQLite` carries out as
/// functions.
const DATE: &[&str] = &[
    "date",
    "datetime",
    "julianday",
    "strftime",
    "time",
    "timediff",
    "unixepoch",
    "current_date",
    "current_time",
    "current_timestamp",
];
/// <https://www.sqlite.org/lang_mathfunc.html>
const MATH: &[&str] = &[
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "ceiling", "cos", "cosh",
    "degrees", "exp", "floor", "ln", "log", "log10", "log2", "mod", "pi", "pow", "power",
    "radians", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
];
/// <https://www.sqlite.org/json1.html>; the last two are the operators `->` and `->>`.
const JSON: &[&str] = &[
    "json",
    "jsonb",
    "json_array",
    "jsonb_array",
    "json_array_insert",
    "jsonb_array_insert",
    "json_array_length",
    "json_error_position",
    "json_extract",
    "jsonb_extract",
    "json_insert",
    "jsonb_insert",
    "json_object",
    "jsonb_object",
    "json_patch",
    "jsonb_patch",
    "json_pretty",
    "json_quote",
    "json_remove",
    "jsonb_remove",
    "json_replace",
    "jsonb_replace",
    "json_set",
    "jsonb_set",
    "json_type",
    "json_valid",
    "json_group_array",
    "jsonb_group_array",
    "json_group_object",
    "jsonb_group_object",
    "->",
    "->>",
];
/// Full-text search, <https://www.sqlite.org/fts5.html>, <https://www.sqlite.org/fts3.html>
const TEXT: &[&str] = &[
    "bm25",
    "highlight",
    "matchinfo",
    "offsets",
    "snippet",
    "match",
];

/// All of them: what `SQLite`'s authorizer is told in the jail.
pub const AUTHORIZED: &[&[&str]] = &[CORE, AGGREGATE, WINDOW, DATE, MATH, JSON, TEXT];

/// Functions whose result is a table. <https://www.sqlite.org/json1.html>, <https://www.sqlite.org/series.html>
const TABLES: &[&str] = &[
    "generate_series",
    "json_each",
    "json_tree",
    "jsonb_each",
    "jsonb_tree",
];

/// Tables of `SQLite` itself that may be read. <https://www.sqlite.org/fileformat2.html>, sections 2.6.1 to 2.6.4 and
/// <https://www.sqlite.org/schematab.html>
const OWN_TABLES: &[&str] = &[
    "sqlite_master",
    "sqlite_schema",
    "sqlite_sequence",
    "sqlite_stat1",
    "sqlite_stat2",
    "sqlite_stat3",
    "sqlite_stat4",
    "sqlite_temp_master",
    "sqlite_temp_schema",
];

/// Whether a query may call the function of this name, in any case of letters.
pub fn is_listed(name: &str) -> bool {
    AUTHORIZED.iter().any(|list| holds(list, name))
}

pub(super) fn is_table(name: &str) -> bool {
    holds(TABLES, name)
}

pub(super) fn is_own_table(name: &str) -> bool {
    holds(OWN_TABLES, name)
}

fn holds(list: &[&str], name: &str) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(name))
}

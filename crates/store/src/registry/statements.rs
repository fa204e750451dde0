//! Every statement of the registry's repositories is prepared by both databases.

use camino::Utf8PathBuf;
use sqlx::{AssertSqlSafe, Executor as _};

use super::SCHEMA;
use crate::{
    Database,
    postgres::tests::{admin, own_schema, url},
    sqlite::{self, Access},
};

const SOURCES: [&str; 9] = [
    include_str!("audit.rs"),
    include_str!("calls.rs"),
    include_str!("events.rs"),
    include_str!("gates.rs"),
    include_str!("mesh.rs"),
    include_str!("meta.rs"),
    include_str!("permits.rs"),
    include_str!("standing.rs"),
    include_str!("threads.rs"),
];

/// The string literals of a source file. None of ours has an escape, or a quote in a comment.
fn literals(source: &str) -> Vec<&str> {
    let plain = |line: &str| {
        let comment = line.trim_start().starts_with("//") && line.contains('"');
        !comment && !line.contains('\\')
    };
    assert!(source.lines().all(plain), "this reader cannot read it");
    source.split('"').skip(1).step_by(2).collect()
}

/// The statements: what begins like one; and what continues one that is begun by a macro.
fn statements() -> Vec<String> {
    let mut all = vec![
        include_str!("tail.rs")
            .split('"')
            .nth(1)
            .unwrap()
            .to_owned(),
    ];
    for source in SOURCES {
        let words = |literal: &&str| {
            ["SELECT ", "INSERT ", "UPDATE ", "DELETE "]
                .iter()
                .any(|verb| literal.trim_start().starts_with(verb))
                || literal.starts_with("SELECT\n")
        };
        let own = literals(source);
        let head = own
            .iter()
            .find(|literal| literal.contains("FROM calls c LEFT JOIN"));
        all.extend(own.iter().copied().filter(words).map(ToOwned::to_owned));
        let tails = own.iter().filter(|literal| literal.starts_with("WHERE "));
        all.extend(tails.map(|tail| format!("{}{tail}", head.unwrap())));
    }
    all
}

#[tokio::test]
async fn both_databases_prepare_every_statement() {
    let statements = statements();
    assert!(
        statements.len() > 50,
        "only {} were found",
        statements.len()
    );
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::try_from(folder.path().join("registry.db")).unwrap();
    let in_it = Database::open(&path, SCHEMA.sqlite).await.unwrap();
    let sqlite = sqlite::open(&path, Access::Read).unwrap();
    let server = own_schema(&url());
    let on_it = Database::open_server(&server, SCHEMA.postgres)
        .await
        .unwrap();
    let mut postgres = admin(&server).await;
    let look_there = format!("SET search_path TO {}", server.schema());
    postgres.execute(AssertSqlSafe(look_there)).await.unwrap();
    for text in statements {
        if let Err(error) = sqlite.prepare(&text) {
            panic!("SQLite: {error}: {text}");
        }
        let prepared = (&mut postgres)
            .prepare(sqlx::SqlSafeStr::into_sql_str(AssertSqlSafe(text.clone())))
            .await;
        prepared.unwrap_or_else(|error| panic!("PostgreSQL: {error}: {text}"));
    }
    in_it.close().await.unwrap();
    on_it.close().await.unwrap();
}

//! `sqlite_query` in the sandbox, in each tier that is here: ordinary databases, and ones made to do harm.
//!
//! What the broker's own judge would refuse cannot be asked by this way, so the second lock, inside the sandbox, is tried
//! by views and virtual tables of the files themselves, and by running its program without the first.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    time::Duration,
};

use camino::Utf8Path;
use kazma_policy::sql;
use kazma_sandbox_runner::broker::{Outcome, Program, Query};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    commands::{each, give},
    house::{House, text},
};

const DATABASES: &str = include_str!("queries/databases.py");
const UNLOCKED: &str = include_str!("queries/unlocked.py");
const READER: &str = include_str!("../../src/broker/query.py");

/// The databases of `databases.py`; some are held open by a program that still lives.
struct Databases {
    child: Child,
    _hold: ChildStdin,
}

impl Databases {
    fn make(at: &Utf8Path) -> Self {
        let mut child = Command::new("python3")
            .args(["-I", "-c", DATABASES, at.as_str(), "stay"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0_u8; 5];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut said)
            .unwrap();
        assert_eq!(&said, b"made\n");
        for entry in walk(at.as_std_path()) {
            let name = Utf8Path::from_path(&entry).unwrap();
            let found = fs::symlink_metadata(name).unwrap();
            if found.is_dir() {
                give(name, 0o2750);
            } else if found.is_file() {
                give(name, 0o640);
            }
        }
        Self {
            _hold: child.stdin.take().unwrap(),
            child,
        }
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn walk(at: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            found.extend(walk(&path));
        }
        found.push(path);
    }
    found
}

/// Every file of a folder with all that is in it.
fn content(at: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    walk(at)
        .into_iter()
        .filter(|path| fs::symlink_metadata(path).unwrap().is_file())
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect()
}

/// What the reader said, and the code it ended with.
#[derive(Debug)]
struct Said {
    code: i32,
    json: Value,
}

impl Said {
    fn rows(&self) -> &Value {
        self.json.get("rows").unwrap_or(&Value::Null)
    }

    fn error(&self) -> &str {
        let error = self.json.get("error").and_then(Value::as_str);
        error.unwrap_or_default()
    }
}

async fn ask(house: &House, path: &str, query: &str) -> Said {
    asked(house, path, query, 100, Duration::from_secs(25)).await
}

async fn asked(house: &House, path: &str, query: &str, limit: u64, timeout: Duration) -> Said {
    let run = house
        .run_with("", |spec| {
            spec.program = Program::Sqlite(Query {
                path: path.to_owned(),
                query: query.to_owned(),
                parameters: Vec::new(),
                limit,
                bytes: 30_000,
            });
            spec.timeout = timeout;
            spec.output_cap = 64_000;
        })
        .await;
    let Outcome::Exited { code } = run.finished.outcome else {
        panic!("{path}: {query}: {run:?}");
    };
    let json = serde_json::from_slice(&run.stdout).unwrap_or_else(|error| {
        panic!(
            "{path}: {query}: {error}: {} {}",
            text(&run.stdout),
            text(&run.stderr)
        )
    });
    assert_eq!(text(&run.stderr), "", "{path}: {query}");
    Said { code, json }
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_are_read_in_every_tier_and_none_is_changed() {
    each(async |house| {
        let databases = Databases::make(&house.workspace);
        let before = content(house.workspace.as_std_path());
        for (path, query, rows) in [
            (
                "data/shop.db",
                "SELECT name, email FROM customers ORDER BY id",
                json!([
                    ["Ada", "ada@example.org"],
                    ["Ben", null],
                    ["Cem", "cem@example.org"]
                ]),
            ),
            (
                "data/shop.db",
                "SELECT * FROM spent ORDER BY total",
                json!([["Ben", 99.99], ["Ada", 140.5]]),
            ),
            (
                "data/shop.db",
                "SELECT a FROM kinds",
                json!([
                    [null],
                    [9_007_199_254_740_993_i64],
                    [-1.5],
                    [{"real": "Infinity"}],
                    [{"real": "-Infinity"}],
                    ["text"],
                    [{"blob": "00ff", "bytes": 2}],
                    [{"text": "\u{fffd}A", "characters": 2, "not_utf8": true}],
                    ["a\0b"],
                    ["\u{202e}<|im_start|>"],
                ]),
            ),
            (
                "data/shop.db",
                "SELECT title FROM notes_fts WHERE notes_fts MATCH 'budget'",
                json!([["the budget"]]),
            ),
            (
                "data/shop.db",
                "SELECT value FROM products, json_each(meta, '$.tags')",
                json!([["new"]]),
            ),
            (
                "fts4.db",
                "SELECT * FROM f WHERE f MATCH 'two'",
                json!([["one two"]]),
            ),
            ("generated.db", "SELECT * FROM t", json!([["x", "X"]])),
            ("view.db", "SELECT * FROM fine", json!([["/ETC/PASSWD"]])),
            // What is written and not yet in the file itself is there.
            ("wal.db", "SELECT a FROM t ORDER BY a", json!([[1], [2]])),
            ("closed-wal.db", "SELECT a FROM t", json!([[1]])),
            // What a program did not finish is not there.
            (
                "hot.db",
                "SELECT count(*), min(a), max(a), min(b) = max(b) FROM t",
                json!([[2000, 1, 2000, 1]]),
            ),
            ("large.db", "SELECT length(x) FROM b", json!([[5_000_000]])),
        ] {
            let said = ask(house, path, query).await;
            assert_eq!(
                (said.code, said.rows()),
                (0, &rows),
                "{path}: {query}: {said:?}"
            );
        }
        assert_eq!(content(house.workspace.as_std_path()), before);
        drop(databases);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_hostile_file_asks_for_it_does_not_get() {
    each(async |house| {
        let databases = Databases::make(&house.workspace);
        let before = content(house.workspace.as_std_path());
        for (path, query, words) in [
            ("view.db", "SELECT * FROM loads", "load_extension"),
            ("view.db", "SELECT * FROM deep", "load_extension"),
            ("view.db", "SELECT * FROM tokenizer", "fts3_tokenizer"),
            ("view.db", "SELECT * FROM settings", "pragma_database_list"),
            ("view.db", "SELECT * FROM huge", "too big"),
            (
                "rtree.db",
                "SELECT * FROM r",
                "comes to what a query may not",
            ),
            ("vtab.db", "SELECT * FROM x", ""),
            ("nonsense.db", "SELECT * FROM t", "malformed"),
            ("cut.db", "SELECT * FROM customers", "malformed"),
            ("torn.db", "SELECT * FROM customers", "malformed"),
            ("pages.db", "SELECT * FROM customers", ""),
            ("text.db", "SELECT 1", "no SQLite 3 database"),
            ("empty.db", "SELECT 1", "empty"),
            ("folder.db", "SELECT 1", "no regular file"),
            // gVisor does not let it be looked at.
            ("pipe.db", "SELECT 1", ""),
            ("link.db", "SELECT 1", "no regular file"),
            ("twice.db", "SELECT 1", "no regular file"),
            ("out/passwd", "SELECT 1", "cannot be opened"),
            ("none.db", "SELECT 1", "no such file"),
            ("data/shop.db", "SELECT * FROM nope", "no such table: nope"),
        ] {
            let said = ask(house, path, query).await;
            assert_eq!(said.code, 3, "{path}: {query}: {said:?}");
            assert!(said.error().contains(words), "{path}: {query}: {said:?}");
            assert!(
                !said.error().is_empty() && said.rows().is_null(),
                "{path}: {query}: {said:?}"
            );
        }
        // It may say what it likes of itself, or nothing; it changes nothing and ends.
        ask(house, "shadow.db", "SELECT * FROM f WHERE f MATCH 'one'").await;
        ask(house, "vtab.db", "SELECT * FROM e").await;
        assert_eq!(content(house.workspace.as_std_path()), before);
        drop(databases);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_bytes_time_and_memory_are_bounded() {
    let house = House::open().await;
    give(&house.workspace, 0o2750);
    let databases = Databases::make(&house.workspace);
    fs::remove_file(house.workspace.join("twice.db")).unwrap();
    let quick = Duration::from_secs(7);
    let said = asked(&house, "many.db", "SELECT i FROM n", 1000, quick).await;
    assert_eq!(said.rows().as_array().unwrap().len(), 1000, "{said:?}");
    assert_eq!(
        (&said.json["more"], &said.json["count"]),
        (&json!(true), &json!(1000))
    );
    let said = asked(&house, "many.db", "SELECT i FROM n LIMIT 1000", 1000, quick).await;
    assert_eq!(said.json["more"], json!(false));
    // 5,000 rows of 100 bytes do not fit; all that is there is whole.
    let said = asked(&house, "many.db", "SELECT * FROM n", 1000, quick).await;
    let rows = said.rows().as_array().unwrap();
    assert!((200..300).contains(&rows.len()), "{}", rows.len());
    assert!(said.json["more"] == json!(true) && said.json["notes"][0].is_string());
    assert!(said.json.to_string().len() < 30_000);
    let said = ask(&house, "large.db", "SELECT x FROM t").await;
    assert_eq!(said.rows()[0][0]["characters"], json!(9000), "{said:?}");
    let said = ask(&house, "large.db", "SELECT x FROM b").await;
    assert_eq!(said.rows()[0][0]["bytes"], json!(5_000_000), "{said:?}");
    let wide: Vec<String> = (0..150)
        .map(|n| format!("1 AS \"{}{n}\"", "x".repeat(190)))
        .collect();
    let said = ask(&house, "many.db", &format!("SELECT {}", wide.join(", "))).await;
    assert!(said.error().contains("select fewer columns"), "{said:?}");

    // What is too large to be copied is not, and the reader says what to do.
    let left_open = house.workspace.join("left-open.db");
    fs::copy(house.workspace.join("closed-wal.db"), &left_open).unwrap();
    give(&left_open, 0o640);
    let beside = house.workspace.join("left-open.db-wal");
    fs::File::create(&beside)
        .unwrap()
        .set_len(60 << 20)
        .unwrap();
    give(&beside, 0o640);
    let said = ask(&house, "left-open.db", "SELECT a FROM t").await;
    assert!(said.error().contains("larger than 48 MiB"), "{said:?}");
    fs::remove_file(&beside).unwrap();
    let said = ask(&house, "left-open.db", "SELECT a FROM t").await;
    assert_eq!(said.rows(), &json!([[1]]), "{said:?}");

    for (path, query) in [
        ("view.db", "SELECT * FROM endless"),
        (
            "many.db",
            "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT max(i) FROM c",
        ),
        ("many.db", "SELECT count(*) FROM n a, n b, n c, n d"),
    ] {
        let said = asked(&house, path, query, 100, quick).await;
        assert!(
            said.code == 3 && said.error().contains("the time of 2 s is over"),
            "{said:?}"
        );
    }
    for query in [
        "SELECT hex(x) FROM b, t, (SELECT 1 UNION SELECT 2) ORDER BY 1",
        "WITH RECURSIVE c(i, x) AS (SELECT 1, (SELECT x FROM b) UNION ALL SELECT i + 1, x || i FROM c) SELECT count(DISTINCT x) FROM c",
        "SELECT replace(replace(hex(x), '0', 'xxxxxxxx'), 'x', 'yyyyyyyy') FROM b",
    ] {
        let said = ask(&house, "large.db", query).await;
        assert!(
            said.code == 0 || !said.error().is_empty(),
            "{query}: {said:?}"
        );
    }
    drop(databases);
    house.close().await;
}

/// A broker checks for itself, whoever asks.
#[tokio::test(flavor = "multi_thread")]
async fn the_broker_refuses_what_the_api_should_have() {
    let house = House::open().await;
    for (path, query) in [
        ("shop.db", "DELETE FROM customers"),
        ("../shop.db", "SELECT 1"),
        ("registry.db", "SELECT 1"),
        ("", "SELECT 1"),
    ] {
        let mut spec = crate::house::spec("");
        spec.program = Program::Sqlite(Query {
            path: path.to_owned(),
            query: query.to_owned(),
            parameters: Vec::new(),
            limit: 1,
            bytes: 1000,
        });
        assert!(house.client.run(spec).await.is_err(), "{path}: {query}");
    }
    house.close().await;
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    query: String,
    #[serde(default)]
    params: Vec<Value>,
    expect: String,
    /// Whether the SQLite that tests have is new enough for it.
    #[serde(default = "yes")]
    runs: bool,
}

fn yes() -> bool {
    true
}

/// The reader on this machine, without a sandbox and without the first lock: the code that it ends with for each
/// statement, and what it says.
fn unlocked<'r>(
    at: &Path,
    asked: impl Iterator<Item = (&'r str, &'r [Value])>,
) -> Vec<(i64, Value)> {
    let functions = sql::AUTHORIZED.concat();
    let jobs: Vec<Value> = asked
        .map(|(query, params)| {
            json!({
                "path": "data/shop.db",
                "query": query,
                "parameters": params,
                "limit": 100,
                "bytes": 30_000,
                "seconds": 10.0,
                "functions": functions,
            })
        })
        .collect();
    let mut child = Command::new("python3")
        .args(["-I", "-B", "-c", UNLOCKED])
        .current_dir(at)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let all = json!({"reader": READER, "jobs": jobs}).to_string();
    input.write_all(all.as_bytes()).unwrap();
    drop(input);
    let said = child.wait_with_output().unwrap();
    let answers: Vec<(i64, String)> = text(&said.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), jobs.len());
    answers
        .into_iter()
        .map(|(code, said)| {
            let json = serde_json::from_str(&said).unwrap_or_else(|_| json!({ "odd": said }));
            (code, json)
        })
        .collect()
}

/// What the judge allows runs and changes nothing; of what it refuses, nothing changes anything either.
#[test]
fn the_rows_mean_to_sqlite_what_the_judge_says() {
    let folder = tempfile::tempdir().unwrap();
    let databases = Databases::make(Utf8Path::from_path(folder.path()).unwrap());
    let before = content(folder.path());
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/sql.jsonl");
    let rows: Vec<Row> = fs::read_to_string(cases)
        .unwrap()
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    let mut ran = 0;
    let asked = rows
        .iter()
        .map(|row| (row.query.as_str(), row.params.as_slice()));
    for (row, (code, said)) in rows.iter().zip(unlocked(folder.path(), asked)) {
        if row.expect == "allow" && row.runs {
            assert_eq!(code, 0, "{}: {}: {said}", row.id, row.query);
            ran += 1;
        }
        assert!(matches!(code, 0 | 3), "{}: {said}", row.id);
    }
    assert!(ran >= 120, "{ran}");
    assert_eq!(content(folder.path()), before);
    drop(databases);
}

/// Without the judge, SQLite itself still refuses to write, attach, set, load or begin.
#[test]
fn the_second_lock_holds_alone() {
    let folder = tempfile::tempdir().unwrap();
    let databases = Databases::make(Utf8Path::from_path(folder.path()).unwrap());
    let before = content(folder.path());
    let queries = [
        "DELETE FROM orders",
        "INSERT INTO orders VALUES (9, 1, 1, '', '')",
        "UPDATE orders SET total = 0",
        "WITH a AS (SELECT 1) DELETE FROM orders",
        "REPLACE INTO orders VALUES (1, 1, 1, '', '')",
        "DROP TABLE orders",
        "CREATE TABLE new (a)",
        "CREATE TEMP TABLE new (a)",
        "CREATE VIRTUAL TABLE new USING fts5(a)",
        "ALTER TABLE orders ADD COLUMN x",
        "UPDATE sqlite_schema SET sql = ''",
        "DELETE FROM sqlite_schema",
        "ATTACH 'other.db' AS other",
        "ATTACH ':memory:' AS other",
        "DETACH main",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA database_list",
        "PRAGMA temp_store_directory = '/tmp'",
        "SELECT * FROM pragma_database_list",
        "SELECT * FROM pragma_table_info('orders')",
        "SELECT load_extension('/tmp/x.so')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT sqlite_compileoption_get(0)",
        "SELECT optimize(notes_fts) FROM notes_fts",
        "INSERT INTO notes_fts(notes_fts) VALUES ('rebuild')",
        "VACUUM",
        "VACUUM INTO 'copy.db'",
        "REINDEX",
        "ANALYZE",
        "BEGIN IMMEDIATE",
        "SAVEPOINT a",
        "SELECT 1; SELECT 2",
        "SELECT hex(zeroblob(100000000))",
    ];
    let none: &[Value] = &[];
    let asked = queries.iter().map(|query| (*query, none));
    for (query, (code, said)) in queries.iter().zip(unlocked(folder.path(), asked)) {
        assert_eq!(code, 3, "{query}: {said}");
        assert!(
            said["error"].as_str().is_some_and(|why| !why.is_empty()),
            "{query}: {said}"
        );
    }
    assert_eq!(content(folder.path()), before);
    drop(databases);
}

/// Statements put together of pieces that mean something: of those that the judge allows, whatever they come to, none
/// changes anything or does what the second lock has to stop.
#[test]
fn no_statement_put_together_at_random_needs_the_second_lock() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/sql.jsonl");
    let whole: Vec<String> = fs::read_to_string(cases)
        .unwrap()
        .lines()
        .map(|row| serde_json::from_str::<Row>(row).unwrap().query)
        .filter(|query| query.len() < 200 && query.is_ascii())
        .collect();
    // Always the same ones, so that a finding is found again.
    let mut state = 0x5eed_u64;
    let mut pick = |n: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % n
    };
    let mut allowed = Vec::new();
    for _ in 0..30_000 {
        let mut query = whole[pick(whole.len())].clone();
        for _ in 0..=pick(3) {
            let other = &whole[pick(whole.len())];
            let from = pick(other.len() + 1);
            let piece = &other[from..(from + pick(20)).min(other.len())];
            let at = pick(query.len() + 1);
            let to = (at + pick(8)).min(query.len());
            query.replace_range(at..to, piece);
        }
        if sql::judge(&query, &[]).is_ok() && !whole.contains(&query) {
            allowed.push(query);
        }
    }
    assert!(allowed.len() > 400, "{}", allowed.len());
    allowed.truncate(500);
    let folder = tempfile::tempdir().unwrap();
    let databases = Databases::make(Utf8Path::from_path(folder.path()).unwrap());
    let before = content(folder.path());
    let none: &[Value] = &[];
    let asked = allowed.iter().map(|query| (query.as_str(), none));
    for (query, (code, said)) in allowed.iter().zip(unlocked(folder.path(), asked)) {
        assert!(matches!(code, 0 | 3), "{query:?}: {code} {said}");
        let error = said["error"].as_str().unwrap_or_default();
        assert!(!error.contains("may not"), "{query:?}: {error}");
    }
    assert_eq!(content(folder.path()), before);
    drop(databases);
}

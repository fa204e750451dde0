use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use camino::Utf8PathBuf;
use futures_util::future::join_all;

use super::*;
use crate::{postgres::tests::schema, statement::Statement};

const THINGS: [&str; 2] = [
    "CREATE TABLE things (name TEXT PRIMARY KEY, of TEXT REFERENCES things (name)
     DEFERRABLE INITIALLY DEFERRED) STRICT;",
    "CREATE TABLE things (name TEXT PRIMARY KEY, of TEXT REFERENCES things (name)
     DEFERRABLE INITIALLY DEFERRED);",
];
const fn step(sql: &'static str) -> [Migration; 1] {
    [Migration {
        version: 1,
        name: "things",
        sql,
    }]
}
static SCHEMA: Schema = Schema {
    sqlite: &step(THINGS[0]),
    postgres: &step(THINGS[1]),
};

struct Ground {
    _folder: tempfile::TempDir,
    path: Utf8PathBuf,
    place: Place,
}

/// Where a test's own database is: on the server that the tests are given, or in a file.
fn ground() -> Ground {
    let mut ground = file();
    if let Some(server) = schema() {
        ground.place = Place::Server(server);
    }
    ground
}

fn file() -> Ground {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::try_from(folder.path().join("x.db")).unwrap();
    Ground {
        _folder: folder,
        place: Place::File(path.clone()),
        path,
    }
}

impl Ground {
    async fn open(&self) -> Database {
        Database::open_at(&self.place, &SCHEMA).await.unwrap()
    }
}

async fn add(database: &Database, name: &str) -> Result<(), StoreError> {
    let name = name.to_owned();
    database
        .write(move |tx| {
            Box::pin(async move {
                tx.execute(Statement::new("INSERT INTO things (name) VALUES ($1)").bind(name))
                    .await?;
                Ok::<_, StoreError>(())
            })
        })
        .await
}

async fn names(database: &Database) -> Vec<String> {
    database
        .read(|tx| {
            Box::pin(async move {
                let rows = tx.all(Statement::new("SELECT name FROM things ORDER BY name"));
                let rows = rows.await?;
                rows.iter()
                    .map(|row| row.get("name"))
                    .collect::<Result<_, StoreError>>()
            })
        })
        .await
        .unwrap()
}

#[tokio::test]
async fn many_requests_share_commits_and_a_failing_one_rolls_back_alone() {
    let ground = ground();
    let database = ground.open().await;
    add(&database, "taken").await.unwrap();
    let requests = (0..64).map(|i| {
        let database = database.clone();
        async move {
            let name = if i == 31 {
                "taken".to_owned()
            } else {
                format!("{i:02}")
            };
            add(&database, &name).await
        }
    });
    let answers = join_all(requests).await;
    for (i, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_ok(), i != 31, "{i}: {answer:?}");
    }
    assert!(answers[31].as_ref().unwrap_err().is_taken());
    database.close().await.unwrap();

    let database = ground.open().await;
    assert_eq!(names(&database).await.len(), 64);
}

/// Writes, and then fails or not.
async fn try_to(database: &Database, name: String, fail: bool) -> Result<(), StoreError> {
    database
        .write(move |tx| {
            Box::pin(async move {
                tx.execute(Statement::new("INSERT INTO things (name) VALUES ($1)").bind(name))
                    .await?;
                if fail { Err(StoreError::Full) } else { Ok(()) }
            })
        })
        .await
}

#[tokio::test]
async fn whichever_requests_of_one_commit_fail_exactly_the_others_are_kept() {
    const TOGETHER: usize = 5;
    let ground = ground();
    let database = ground.open().await;
    let mut expected = Vec::new();
    for failing in 0_u32..1 << TOGETHER {
        // The writer is kept busy until all of them wait, so that they share a commit.
        let (go, wait) = oneshot::channel();
        let busy = database.write(move |_| {
            Box::pin(async move {
                drop(wait.await);
                Ok::<_, StoreError>(())
            })
        });
        let fails = |i: usize| (failing >> i) & 1 == 1;
        let name = |i: usize| format!("{failing:02}-{i}");
        let requests = (0..TOGETHER).map(|i| try_to(&database, name(i), fails(i)));
        // Polled in this order: the last one once all the others are in the queue.
        let (first, answers, ()) =
            tokio::join!(biased; busy, join_all(requests), async { go.send(()).unwrap() });
        first.unwrap();
        for (i, answer) in answers.iter().enumerate() {
            assert_eq!(answer.is_err(), fails(i), "{failing:05b}, {i}: {answer:?}");
        }
        expected.extend((0..TOGETHER).filter(|i| !fails(*i)).map(name));
    }
    expected.sort();
    assert_eq!(names(&database).await, expected);
}

#[tokio::test]
async fn an_error_undoes_what_the_request_did_before_it() {
    let ground = ground();
    let database = ground.open().await;
    let result: Result<(), StoreError> = database
        .write(|tx| {
            Box::pin(async move {
                tx.execute(Statement::new("INSERT INTO things (name) VALUES ('half')"))
                    .await?;
                Err(StoreError::Stale {
                    table: "things",
                    id: "half".to_owned(),
                })
            })
        })
        .await;
    assert!(matches!(result, Err(StoreError::Stale { .. })));
    assert!(names(&database).await.is_empty());
}

#[tokio::test]
async fn a_row_that_is_not_as_it_was_seen_refuses_the_request_and_undoes_it() {
    let ground = ground();
    let database = ground.open().await;
    add(&database, "kept").await.unwrap();
    for seen in ["kept", "another"] {
        let result: Result<(), StoreError> = database
            .write(move |tx| {
                Box::pin(async move {
                    tx.later(
                        Statement::new("INSERT INTO things (name) VALUES ($1)")
                            .bind(format!("after {seen}")),
                    );
                    tx.later(
                        Statement::new("UPDATE things SET of = $1 WHERE name = $2")
                            .bind("kept")
                            .bind(seen)
                            .seen("things", seen),
                    );
                    Ok(())
                })
            })
            .await;
        match seen {
            "kept" => result.unwrap(),
            _ => assert!(
                matches!(&result, Err(StoreError::Stale { table: "things", id }) if id == seen),
                "{result:?}"
            ),
        }
    }
    assert_eq!(names(&database).await, ["after kept", "kept"]);
}

#[tokio::test]
async fn a_panic_is_the_error_of_one_request_and_the_writer_lives() {
    let ground = ground();
    let database = ground.open().await;
    let result: Result<(), StoreError> = database
        .write(|_| Box::pin(async move { panic!("a bug") }))
        .await;
    assert!(matches!(result, Err(StoreError::Panicked)));
    add(&database, "after").await.unwrap();
    assert_eq!(names(&database).await, ["after"]);
}

#[tokio::test]
async fn a_second_process_is_refused_until_the_first_closed() {
    let ground = ground();
    let first = ground.open().await;
    let error = Database::open_at(&ground.place, &SCHEMA).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Locked { .. } | StoreError::Taken { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("another process uses"));
    first.close().await.unwrap();
    assert!(matches!(add(&first, "late").await, Err(StoreError::Closed)));
    ground.open().await;
}

#[tokio::test]
async fn a_failed_commit_tells_nobody_that_it_was_kept_and_ends_the_writer() {
    let ground = file();
    let failures = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&failures);
    let options = Options::default().on_commit_failure(move |error| {
        assert!(matches!(error, StoreError::Commit(_)));
        seen.fetch_add(1, Ordering::SeqCst);
    });
    let database = Database::open_with(&ground.path, SCHEMA.sqlite, options)
        .await
        .unwrap();
    // A broken deferred reference shows only when the transaction is committed.
    let result: Result<(), StoreError> = database
        .write(|tx| {
            Box::pin(async move {
                tx.execute(Statement::new(
                    "INSERT INTO things (name, of) VALUES ('child', 'nobody')",
                ))
                .await?;
                Ok(())
            })
        })
        .await;
    assert!(matches!(result, Err(StoreError::RolledBack)), "{result:?}");
    assert_eq!(failures.load(Ordering::SeqCst), 1);
    assert!(add(&database, "later").await.is_err());
}

#[tokio::test]
async fn a_request_that_swallows_the_end_of_the_transaction_takes_its_batch_with_it() {
    let ground = ground();
    let database = ground.open().await;
    // As SQLite does by itself on a full disk: the transaction is gone, the request says all is well.
    let result: Result<(), StoreError> = database
        .write(|tx| {
            Box::pin(async move {
                tx.execute(Statement::new("INSERT INTO things (name) VALUES ('lost')"))
                    .await?;
                tx.connection.rollback().await
            })
        })
        .await;
    assert!(matches!(result, Err(StoreError::RolledBack)), "{result:?}");
    add(&database, "after").await.unwrap();
    assert_eq!(names(&database).await, ["after"]);
}

#[tokio::test]
async fn a_full_disk_keeps_nothing_of_the_request_and_the_writer_lives() {
    let ground = file();
    let options = Options::default().on_commit_failure(|_| panic!("nothing is in doubt"));
    let database = Database::open_with(&ground.path, SCHEMA.sqlite, options)
        .await
        .unwrap();
    add(&database, "before").await.unwrap();
    let limit = |pragma: &'static str| {
        let database = database.clone();
        async move {
            database
                .write(move |tx| {
                    Box::pin(async move {
                        tx.one(Statement::new(pragma)).await?;
                        Ok::<_, StoreError>(())
                    })
                })
                .await
        }
    };
    limit("PRAGMA max_page_count = 1").await.unwrap();
    let result = add(&database, &"long".repeat(100_000)).await;
    assert!(result.is_err(), "{result:?}");
    limit("PRAGMA max_page_count = 1000000").await.unwrap();
    add(&database, "after").await.unwrap();
    assert_eq!(names(&database).await, ["after", "before"]);
}

#[tokio::test]
async fn a_changed_or_newer_schema_is_refused() {
    static OTHERS: [Migration; 1] = step("CREATE TABLE others (name TEXT);");
    static CHANGED: Schema = Schema {
        sqlite: &OTHERS,
        postgres: &OTHERS,
    };
    static OLDER: Schema = Schema {
        sqlite: &[],
        postgres: &[],
    };
    let ground = ground();
    let database = ground.open().await;
    database.close().await.unwrap();
    let open = |schema| Database::open_at(&ground.place, schema);
    let changed = open(&CHANGED).await.unwrap_err();
    assert!(matches!(
        changed,
        StoreError::MigrationChanged { version: 1 }
    ));
    let older = open(&OLDER).await.unwrap_err();
    assert!(matches!(older, StoreError::Newer { found: 1, known: 0 }));
}

#[tokio::test]
async fn only_its_owner_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let ground = file();
    let database = ground.open().await;
    add(&database, "x").await.unwrap();
    for end in ["", "-wal", "-shm", ".lock"] {
        let path = format!("{}{end}", ground.path);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{path}");
    }
}

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use camino::Utf8PathBuf;
use futures_util::future::join_all;

use super::*;
use crate::tx::Write;

static SCHEMA: [Migration; 1] = [Migration {
    version: 1,
    name: "things",
    sql: "CREATE TABLE things (name TEXT PRIMARY KEY, of TEXT REFERENCES things (name)
          DEFERRABLE INITIALLY DEFERRED) STRICT;",
}];

struct Place {
    _folder: tempfile::TempDir,
    path: Utf8PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::try_from(folder.path().join("x.db")).unwrap();
    Place {
        _folder: folder,
        path,
    }
}

async fn add(database: &Database, name: &str) -> Result<(), StoreError> {
    let name = name.to_owned();
    database
        .write(move |tx| {
            Box::pin(async move {
                sqlx::query("INSERT INTO things (name) VALUES ($1)")
                    .bind(name)
                    .execute(tx.connection())
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
                let rows = sqlx::query_scalar("SELECT name FROM things ORDER BY name")
                    .fetch_all(tx.connection())
                    .await?;
                Ok::<_, StoreError>(rows)
            })
        })
        .await
        .unwrap()
}

#[tokio::test]
async fn many_requests_share_commits_and_a_failing_one_rolls_back_alone() {
    let place = place();
    let database = Database::open(&place.path, &SCHEMA).await.unwrap();
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

    let database = Database::open(&place.path, &SCHEMA).await.unwrap();
    assert_eq!(names(&database).await.len(), 64);
}

#[tokio::test]
async fn an_error_undoes_what_the_request_did_before_it() {
    let place = place();
    let database = Database::open(&place.path, &SCHEMA).await.unwrap();
    let result: Result<(), StoreError> = database
        .write(|tx| {
            Box::pin(async move {
                sqlx::query("INSERT INTO things (name) VALUES ('half')")
                    .execute(tx.connection())
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
    let place = place();
    let database = Database::open(&place.path, &SCHEMA).await.unwrap();
    add(&database, "kept").await.unwrap();
    for seen in ["kept", "another"] {
        let result: Result<(), StoreError> = database
            .write(move |tx| {
                Box::pin(async move {
                    tx.later(
                        Write::new("INSERT INTO things (name) VALUES ($1)")
                            .bind(format!("after {seen}")),
                    );
                    tx.later(
                        Write::new("UPDATE things SET of = $1 WHERE name = $2")
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
    let place = place();
    let database = Database::open(&place.path, &SCHEMA).await.unwrap();
    let result: Result<(), StoreError> = database
        .write(|_| Box::pin(async move { panic!("a bug") }))
        .await;
    assert!(matches!(result, Err(StoreError::Panicked)));
    add(&database, "after").await.unwrap();
    assert_eq!(names(&database).await, ["after"]);
}

#[tokio::test]
async fn a_second_process_is_refused_until_the_first_closed() {
    let place = place();
    let first = Database::open(&place.path, &SCHEMA).await.unwrap();
    let error = Database::open(&place.path, &SCHEMA).await.unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("another process uses"));
    first.close().await.unwrap();
    assert!(matches!(add(&first, "late").await, Err(StoreError::Closed)));
    Database::open(&place.path, &SCHEMA).await.unwrap();
}

#[tokio::test]
async fn a_failed_commit_tells_nobody_that_it_was_kept_and_ends_the_writer() {
    let place = place();
    let failures = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&failures);
    let options = Options::default().on_commit_failure(move |error| {
        assert!(matches!(error, StoreError::Commit(_)));
        seen.fetch_add(1, Ordering::SeqCst);
    });
    let database = Database::open_with(&place.path, &SCHEMA, options)
        .await
        .unwrap();
    // A broken deferred reference shows only when the transaction is committed.
    let result: Result<(), StoreError> = database
        .write(|tx| {
            Box::pin(async move {
                sqlx::query("INSERT INTO things (name, of) VALUES ('child', 'nobody')")
                    .execute(tx.connection())
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
    let place = place();
    let database = Database::open(&place.path, &SCHEMA).await.unwrap();
    // As SQLite does by itself on a full disk: the transaction is gone, the request says all is well.
    let result: Result<(), StoreError> = database
        .write(|tx| {
            Box::pin(async move {
                sqlx::query("INSERT INTO things (name) VALUES ('lost')")
                    .execute(tx.connection())
                    .await?;
                tx.run("ROLLBACK").await
            })
        })
        .await;
    assert!(matches!(result, Err(StoreError::RolledBack)), "{result:?}");
    add(&database, "after").await.unwrap();
    assert_eq!(names(&database).await, ["after"]);
}

#[tokio::test]
async fn a_full_disk_keeps_nothing_of_the_request_and_the_writer_lives() {
    let place = place();
    let options = Options::default().on_commit_failure(|_| panic!("nothing is in doubt"));
    let database = Database::open_with(&place.path, &SCHEMA, options)
        .await
        .unwrap();
    add(&database, "before").await.unwrap();
    let limit = |pragma: &'static str| {
        let database = database.clone();
        async move {
            database
                .write(move |tx| {
                    Box::pin(async move {
                        sqlx::query(pragma).fetch_one(tx.connection()).await?;
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
    static CHANGED: [Migration; 1] = [Migration {
        sql: "CREATE TABLE others (name TEXT) STRICT;",
        ..SCHEMA[0]
    }];
    static OLDER: [Migration; 0] = [];
    let place = place();
    let database = Database::open(&place.path, &SCHEMA).await.unwrap();
    database.close().await.unwrap();
    let changed = Database::open(&place.path, &CHANGED).await.unwrap_err();
    assert!(matches!(
        changed,
        StoreError::MigrationChanged { version: 1 }
    ));
    let older = Database::open(&place.path, &OLDER).await.unwrap_err();
    assert!(matches!(older, StoreError::Newer { found: 1, known: 0 }));
}

#[tokio::test]
async fn only_its_owner_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = place();
    let database = Database::open(&place.path, &SCHEMA).await.unwrap();
    add(&database, "x").await.unwrap();
    for end in ["", "-wal", "-shm", ".lock"] {
        let path = format!("{}{end}", place.path);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{path}");
    }
}

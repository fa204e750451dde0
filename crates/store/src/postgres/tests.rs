//! What a server alone can do to its clients.

use std::{
    path::Path,
    process::id,
    sync::atomic::{AtomicU32, Ordering},
};

use jiff::Timestamp;
use kazma_domain::ThreadId;
use kazma_wire::events::What;
use secrecy::SecretString;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use uuid::Uuid;

use super::{passage::Passage, *};
use crate::{Database, Migration, StoreError, registry, row::Row, statement::Statement};

static SCHEMA: [Migration; 1] = [Migration {
    version: 1,
    name: "things",
    sql: "CREATE TABLE things (name TEXT PRIMARY KEY);",
}];

/// The URL of the server that the suite is to run on, if it is.
#[expect(
    clippy::disallowed_methods,
    reason = "tests are told by the environment"
)]
fn given() -> Option<String> {
    std::env::var("KAZMA_TEST_POSTGRES").ok()
}

/// A schema of a test's own, where the suite runs on a server.
pub(crate) fn schema() -> Option<Server> {
    given().map(|url| own_schema(&url))
}

pub(crate) fn own_schema(url: &str) -> Server {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let began = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let name = format!(
        "t_{}_{}_{began}",
        id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    Server::new(&SecretString::from(url), &name).unwrap()
}

/// A server: the given one, or one of our own that stays for the next test.
#[expect(clippy::disallowed_methods, reason = "a server is what is tried")]
pub(crate) fn url() -> String {
    given().unwrap_or_else(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let program = std::env::current_exe().unwrap();
        let folder = program.ancestors().nth(3).unwrap().join("postgres");
        let started = std::process::Command::new(root.join("scripts/postgres"))
            .arg("start")
            .arg(folder)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&started.stderr);
        assert!(started.status.success(), "scripts/postgres: {told}");
        String::from_utf8(started.stdout).unwrap().trim().to_owned()
    })
}

async fn open(server: &Server) -> Database {
    Database::open_server(server, &SCHEMA).await.unwrap()
}

async fn add(database: &Database, name: &'static str) -> Result<(), StoreError> {
    database
        .write(move |tx| {
            Box::pin(async move {
                let insert = Statement::new("INSERT INTO things (name) VALUES ($1)").bind(name);
                tx.execute(insert).await.map(drop)
            })
        })
        .await
}

async fn names(database: &Database) -> Vec<String> {
    database
        .read(|tx| {
            Box::pin(async move {
                let rows = tx.all(Statement::new("SELECT name FROM things ORDER BY name"));
                rows.await?.iter().map(|row| row.get("name")).collect()
            })
        })
        .await
        .unwrap_or_else(|error: StoreError| panic!("{error}"))
}

/// The process on the server that holds the lock of `server`'s schema.
async fn holder(admin: &mut PgConnection, server: &Server) -> i64 {
    let asked = sqlx::query(
        "SELECT pid::bigint AS pid FROM pg_locks
         WHERE locktype = 'advisory' AND granted AND ((classid::bigint << 32) | objid::bigint) = $1",
    );
    let row = asked.bind(server.lock()).fetch_one(admin).await.unwrap();
    Row::Postgres(row).get("pid").unwrap()
}

async fn end(admin: &mut PgConnection, process: i64) {
    sqlx::query("SELECT pg_terminate_backend($1::int, 10000)")
        .bind(process)
        .execute(admin)
        .await
        .unwrap();
}

pub(crate) async fn admin(server: &Server) -> PgConnection {
    PgConnection::connect_with(server.options()).await.unwrap()
}

#[tokio::test]
async fn who_is_refused_learns_who_is_there() {
    let server = own_schema(&url());
    let database = open(&server).await;
    let refused = Database::open_server(&server, &SCHEMA).await.unwrap_err();
    assert!(matches!(refused, StoreError::Taken { .. }), "{refused:?}");
    let said = refused.to_string();
    let name = format!("kazma {}, process {}", server.schema(), id());
    // The server keeps 63 bytes of a name.
    assert!(said.contains(&name[..name.len().min(63)]), "{said}");
    assert!(said.contains("the server's own machine"), "{said}");
    database.close().await.unwrap();
    open(&server).await;
}

#[tokio::test]
async fn a_lost_connection_is_made_anew_and_loses_no_request_that_waits() {
    let server = own_schema(&url());
    let database = open(&server).await;
    let mut admin = admin(&server).await;
    add(&database, "before").await.unwrap();
    let first = holder(&mut admin, &server).await;
    end(&mut admin, first).await;
    add(&database, "after").await.unwrap();
    assert_ne!(holder(&mut admin, &server).await, first);
    assert_eq!(names(&database).await, ["after", "before"]);
}

#[tokio::test]
async fn a_reader_whose_connection_is_lost_reads_again() {
    let server = own_schema(&url());
    let database = open(&server).await;
    add(&database, "there").await.unwrap();
    let mut admin = admin(&server).await;
    let others = sqlx::query(
        "SELECT pid::bigint AS pid FROM pg_stat_activity
         WHERE pid <> pg_backend_pid() AND application_name =
               (SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid())",
    );
    let others = others.fetch_all(&mut admin).await.unwrap();
    assert_eq!(others.len(), 5, "a writer and four readers");
    for row in others {
        end(&mut admin, Row::Postgres(row).get("pid").unwrap()).await;
    }
    for _ in 0..8 {
        assert_eq!(names(&database).await, ["there"]);
    }
}

#[tokio::test]
async fn a_connection_lost_in_the_middle_of_a_request_keeps_nothing_of_it() {
    let server = own_schema(&url());
    let database = open(&server).await;
    let lost: Result<(), StoreError> = database
        .write(|tx| {
            Box::pin(async move {
                let insert = Statement::new("INSERT INTO things (name) VALUES ('half')");
                tx.execute(insert).await?;
                // It ends itself, and says all is well.
                let end = Statement::new("SELECT pg_terminate_backend(pg_backend_pid())");
                drop(tx.execute(end).await);
                Ok(())
            })
        })
        .await;
    assert!(matches!(lost, Err(StoreError::RolledBack)), "{lost:?}");
    add(&database, "after").await.unwrap();
    assert_eq!(names(&database).await, ["after"]);
}

#[tokio::test]
async fn what_a_commit_refuses_is_not_kept_and_the_writer_lives() {
    static DEFERRED: [Migration; 1] = [Migration {
        version: 1,
        name: "things",
        sql: "CREATE TABLE things (name TEXT PRIMARY KEY,
                  of TEXT REFERENCES things (name) DEFERRABLE INITIALLY DEFERRED);",
    }];
    let server = own_schema(&url());
    let database = Database::open_server(&server, &DEFERRED).await.unwrap();
    let refused: Result<u64, StoreError> = database
        .write(|tx| {
            let orphan = Statement::new("INSERT INTO things (name, of) VALUES ('child', 'nobody')");
            Box::pin(tx.execute(orphan))
        })
        .await;
    assert!(
        matches!(refused, Err(StoreError::RolledBack)),
        "{refused:?}"
    );
    add(&database, "after").await.unwrap();
    assert_eq!(names(&database).await, ["after"]);
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_told_as_neither_kept_nor_lost() {
    let url = url();
    let server = own_schema(&url);
    let passage = Passage::to(&url);
    let through = Server::new(&SecretString::from(passage.url()), server.schema()).unwrap();
    let database = open(&through).await;
    add(&database, "before").await.unwrap();
    passage.cut();
    let unknown = add(&database, "kept").await.unwrap_err();
    assert!(unknown.is_unknown(), "{unknown:?}");
    // And it was kept, as whoever looks finds.
    add(&database, "after").await.unwrap();
    assert!(add(&database, "kept").await.unwrap_err().is_taken());
    assert_eq!(names(&database).await, ["after", "before", "kept"]);
}

#[tokio::test]
async fn who_lost_the_lock_writes_nothing_until_it_has_it_again() {
    let server = own_schema(&url());
    let first = open(&server).await;
    let mut admin = admin(&server).await;
    let process = holder(&mut admin, &server).await;
    // The second one waits for the lock when the first one's session ends.
    let (second, ()) = tokio::join!(Database::open_server(&server, &SCHEMA), async {
        let waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                       AND ((classid::bigint << 32) | objid::bigint) = $1";
        loop {
            let asked = sqlx::query(waiting).bind(server.lock());
            if asked.fetch_optional(&mut admin).await.unwrap().is_some() {
                break end(&mut admin, process).await;
            }
        }
    });
    let second = second.unwrap();
    let refused = add(&first, "late").await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Unreachable { .. }),
        "{refused:?}"
    );
    assert!(
        refused.to_string().contains("another process uses"),
        "{refused}"
    );
    add(&second, "mine").await.unwrap();
    assert_eq!(names(&first).await, ["mine"], "reading needs no lock");
    second.close().await.unwrap();
    add(&first, "again").await.unwrap();
    assert_eq!(names(&first).await, ["again", "mine"]);
}

#[tokio::test]
async fn what_another_one_wrote_meanwhile_is_seen_by_who_has_the_lock_again() {
    let server = own_schema(&url());
    let open = || Database::open_server(&server, registry::SCHEMA.postgres);
    let thread = ThreadId::from_uuid(Uuid::from_u128(1));
    let tell = |database: Database| async move {
        let told = database.write::<_, StoreError, _>(move |tx| {
            Box::pin(async move {
                let at = Timestamp::UNIX_EPOCH;
                registry::events::append(tx, at, thread, None, &What::Thread).await
            })
        });
        told.await.unwrap()
    };
    let first = open().await.unwrap();
    assert_eq!(tell(first.clone()).await, 1);
    let mut admin = admin(&server).await;
    let process = holder(&mut admin, &server).await;
    end(&mut admin, process).await;
    let second = open().await.unwrap();
    assert_eq!(tell(second.clone()).await, 2);
    second.close().await.unwrap();
    assert_eq!(tell(first.clone()).await, 3);
}

#[tokio::test]
async fn a_password_opens_and_a_wrong_one_is_not_shown() {
    let url = url();
    let mut admin = admin(&own_schema(&url)).await;
    let role = "DO $$ BEGIN
            CREATE ROLE with_password LOGIN PASSWORD 'correct horse';
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
        GRANT CREATE ON DATABASE kazma TO with_password";
    // Two of these at once: one of them may meet the other.
    drop(sqlx::raw_sql(role).execute(&mut admin).await);
    let with = |password: &str| url.replace("kazma@", &format!("with_password:{password}@"));
    let server = own_schema(&with("correct%20horse"));
    let database = open(&server).await;
    add(&database, "there").await.unwrap();
    let wrong = own_schema(&with("battery%20staple"));
    let refused = Database::open_server(&wrong, &SCHEMA).await.unwrap_err();
    let told = format!("{refused} {refused:?} {wrong} {wrong:?}");
    assert!(told.contains("password authentication failed"), "{told}");
    assert!(!told.contains("staple"), "{told}");
}

#[tokio::test]
async fn a_database_that_cannot_keep_every_text_is_refused() {
    let url = url();
    let mut admin = admin(&own_schema(&url)).await;
    let name = format!("bytes_{}", id());
    let create =
        format!("CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0");
    let made = sqlx::raw_sql(AssertSqlSafe(create))
        .execute(&mut admin)
        .await;
    made.unwrap();
    let server = own_schema(&url.replace("/kazma?", &format!("/{name}?")));
    let refused = Database::open_server(&server, &SCHEMA).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unfit { .. }), "{refused:?}");
    assert!(refused.to_string().contains("UTF8"), "{refused}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_to_be_away() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("postgres://k:hunter2@/k?host={}", folder.path().display());
    let refused = Database::open_server(&own_schema(&url), &SCHEMA)
        .await
        .unwrap_err();
    assert!(
        matches!(refused, StoreError::Unreachable { .. }),
        "{refused:?}"
    );
    assert!(!format!("{refused:?}").contains("hunter2"));
}

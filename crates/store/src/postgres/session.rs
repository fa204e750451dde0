//! A session: connected when it is needed, looked at before it is trusted, and given up at the first doubt.
//!
//! **Invariant:** the writer's session holds the lock that keeps other processes away, and every write goes
//! through that session. Who loses the connection loses both at once.

use std::{future::Future, io, time::Duration};

use sqlx::{
    AssertSqlSafe, Connection as _, PgConnection, Postgres,
    postgres::{PgDatabaseError, PgRow, PgSeverity},
    query::Query,
};
use tokio::time::{Instant, sleep, timeout};

use super::Server;
use crate::{
    Migration, StoreError,
    connection::Committed,
    error::chain,
    migrate,
    row::Row,
    statement::{Statement, Value},
};

/// How long one statement may take. The server itself gives up a little earlier.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long requests wait for a server that is away. Then they are refused, and the next ones wait again.
const AWAY: Duration = Duration::from_secs(3);
/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(50);
/// The oldest server that it was tried on.
const OLDEST: i64 = 15;

/// What a server says of itself.
const LOOK: &str = "SELECT current_setting('server_version_num')::bigint / 10000 AS version,
            current_setting('fsync') AS fsync, current_setting('server_encoding') AS encoding,
            pg_is_in_recovery()::int::bigint AS standby,
            (to_regnamespace($1) IS NOT NULL)::int::bigint AS there";
/// Names are looked for in the one schema. Whoever vanishes without a word is noticed within a minute, and its lock
/// with it. What is answered is on the disk, whatever the server's own default is; a stricter one stays.
const SETTLE: &str = "SELECT set_config('search_path', $1, false),
            set_config('lock_timeout', $2, false),
            set_config('tcp_keepalives_idle', '20', false),
            set_config('tcp_keepalives_interval', '10', false),
            set_config('tcp_keepalives_count', '3', false),
            set_config('synchronous_commit',
                       CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
                       ELSE current_setting('synchronous_commit') END, false)";
/// A killed process's session may linger for a moment; one that lives longer belongs to another process.
const LOCK_WAIT: &str = "2s";
/// From then on for rows and tables, which nobody else should hold; and for each statement.
const READY: &str = "SET lock_timeout = '10s'; SET statement_timeout = '25s'";
/// Who holds the lock.
const HOLDER: &str = "SELECT a.pid::bigint AS pid, COALESCE(a.application_name, '') AS name,
            COALESCE(host(a.client_addr), 'the server''s own machine') AS host,
            COALESCE(to_char(a.backend_start, 'YYYY-MM-DD HH24:MI:SS TZ'), '?') AS since
     FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND l.classid::bigint = ($1 >> 32) & 4294967295 AND l.objid::bigint = $1 & 4294967295";
/// One view for all statements of a transaction.
const VIEW: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// Begins a transaction with a savepoint for its first request: an error ends what is not behind one.
const BEGIN: &str = "BEGIN; SAVEPOINT request";
/// Keeps everything. Where the first of the two is refused, the server does not look at the second.
const COMMIT: &str = "RELEASE request; COMMIT";

/// What a session is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    /// It writes, alone, in the schema that these steps lead to.
    Writer(&'static [Migration]),
    /// It reads.
    Reader,
}

/// A session with a server, which may be away.
#[derive(Debug)]
pub(crate) struct Session {
    server: Server,
    role: Role,
    live: Option<PgConnection>,
}

impl Session {
    /// Connects and looks at the server.
    pub(crate) async fn open(server: Server, role: Role) -> Result<Self, StoreError> {
        let mut session = Self {
            server,
            role,
            live: None,
        };
        session.restore().await?;
        Ok(session)
    }

    pub(crate) async fn all(&mut self, statement: Statement) -> Result<Vec<PgRow>, StoreError> {
        let result = patient(query(statement).fetch_all(self.live()?)).await;
        self.judged(result)
    }

    pub(crate) async fn optional(
        &mut self,
        statement: Statement,
    ) -> Result<Option<PgRow>, StoreError> {
        let result = patient(query(statement).fetch_optional(self.live()?)).await;
        self.judged(result)
    }

    pub(crate) async fn execute(&mut self, statement: Statement) -> Result<u64, StoreError> {
        let result = patient(query(statement).execute(self.live()?)).await;
        Ok(self.judged(result)?.rows_affected())
    }

    pub(crate) async fn run(&mut self, statements: &'static str) -> Result<(), StoreError> {
        let result = patient(sqlx::raw_sql(statements).execute(self.live()?)).await;
        self.judged(result).map(drop)
    }

    /// Begins a transaction with a savepoint. Waits a little for a server that is away. Says whether the session
    /// is a new one: another process may have had the lock between the two.
    pub(crate) async fn begin(&mut self) -> Result<bool, StoreError> {
        let until = Instant::now() + AWAY;
        let mut anew = false;
        loop {
            anew |= self.live.is_none();
            let begun = match self.restored().await {
                Ok(()) => self.run(BEGIN).await,
                Err(error) => Err(error),
            };
            match begun {
                Ok(()) => return Ok(anew),
                Err(error) if error.is_away() && Instant::now() < until => sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Begins one consistent view. Connects anew where the connection turns out to be gone.
    pub(crate) async fn begin_view(&mut self) -> Result<(), StoreError> {
        if self.live.is_some() && self.run(VIEW).await.is_ok() {
            return Ok(());
        }
        self.restore().await?;
        self.run(VIEW).await
    }

    /// Makes everything durable. Only the server's own refusal says that it is not.
    pub(crate) async fn commit(&mut self) -> Committed {
        let live = match self.live() {
            Ok(live) => live,
            Err(lost) => return Committed::Lost(lost),
        };
        match patient(sqlx::raw_sql(COMMIT).execute(live)).await {
            Ok(_) => Committed::Yes { begun: false },
            Err(error) if !breaks(&error) => {
                let error = StoreError::from(error);
                if error.is_full() {
                    Committed::Full
                } else {
                    Committed::Lost(error)
                }
            }
            Err(error) => {
                self.live = None;
                Committed::Unknown(StoreError::Unknown { why: chain(&error) })
            }
        }
    }

    /// Lets go of the lock and ends the session.
    pub(crate) async fn close(mut self) -> Result<(), StoreError> {
        if self.live.is_none() {
            return Ok(());
        }
        // The server notices the end in its own time; another process may come at once.
        let unlocked = self.run("SELECT pg_advisory_unlock_all()").await;
        if let Some(live) = self.live.take() {
            drop(timeout(CONNECT, live.close()).await);
        }
        unlocked
    }

    fn live(&mut self) -> Result<&mut PgConnection, StoreError> {
        let gone = || sqlx::Error::from(io::Error::from(io::ErrorKind::NotConnected));
        let live = self.live.as_mut();
        live.ok_or_else(|| StoreError::Lost(gone().into()))
    }

    /// Gives the connection up where the error leaves doubt about it.
    fn judged<T>(&mut self, result: Result<T, sqlx::Error>) -> Result<T, StoreError> {
        result.map_err(|error| {
            if breaks(&error) {
                self.live = None;
                StoreError::Lost(error.into())
            } else {
                error.into()
            }
        })
    }

    async fn restored(&mut self) -> Result<(), StoreError> {
        match self.live {
            Some(_) => Ok(()),
            None => self.restore().await,
        }
    }

    /// Connects, and trusts the server only as far as it can be.
    async fn restore(&mut self) -> Result<(), StoreError> {
        self.live = None;
        let mut live = connect(&self.server).await?;
        let prepared = match self.role {
            Role::Writer(steps) => take(&mut live, &self.server, steps).await,
            Role::Reader => match look(&mut live, &self.server).await {
                Ok(Found { there: false, .. }) => Err(StoreError::Unfit {
                    what: format!("it has no schema {}", self.server.schema()),
                }),
                looked => looked.map(drop),
            },
        };
        match prepared {
            Ok(()) => self.live = Some(live),
            Err(error) => {
                // Politely: what it holds is free for the next attempt.
                drop(timeout(CONNECT, live.close()).await);
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Becomes the one who writes.
async fn take(
    live: &mut PgConnection,
    server: &Server,
    steps: &'static [Migration],
) -> Result<(), StoreError> {
    let Found { there, .. } = look(live, server).await?;
    lock(live, server).await?;
    if !there {
        // The name has small letters alone.
        let create = format!("CREATE SCHEMA IF NOT EXISTS {}", server.schema());
        prepare(sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut *live)).await?;
    }
    migrate::on_postgres(live, steps).await?;
    prepare(sqlx::raw_sql(READY).execute(live)).await?;
    Ok(())
}

/// Looks at the server, and says what the session is to be like.
async fn look(live: &mut PgConnection, server: &Server) -> Result<Found, StoreError> {
    let asked = Statement::new(LOOK).bind(server.schema());
    let row = Row::Postgres(prepare(query(asked).fetch_one(&mut *live)).await?);
    let unfit = |what: String| Err(StoreError::Unfit { what });
    let version: i64 = row.get("version")?;
    if version < OLDEST {
        return unfit(format!(
            "it is PostgreSQL {version}; {OLDEST} or later is needed"
        ));
    }
    if row.get::<&str>("fsync")? != "on" {
        return unfit("fsync is off there: what it says is kept may be lost".to_owned());
    }
    let encoding: &str = row.get("encoding")?;
    if encoding != "UTF8" {
        return unfit(format!(
            "the database keeps text as {encoding}; UTF8 is needed"
        ));
    }
    if row.get::<i64>("standby")? != 0 {
        return unfit("it is a standby, which cannot be written to".to_owned());
    }
    let there = row.get::<i64>("there")? != 0;
    let settle = Statement::new(SETTLE)
        .bind(format!("{}, pg_temp", server.schema()))
        .bind(LOCK_WAIT);
    prepare(query(settle).execute(live)).await?;
    Ok(Found { version, there })
}

/// Takes the lock that keeps other processes away, for as long as the session lives.
async fn lock(live: &mut PgConnection, server: &Server) -> Result<(), StoreError> {
    let key = server.lock();
    let asked = Statement::new("SELECT pg_advisory_lock($1)").bind(key);
    let Err(error) = patient(query(asked).execute(&mut *live)).await else {
        return Ok(());
    };
    if code(&error) != Some("55P03") {
        return Err(unprepared(error));
    }
    let by = holder(live, server).await?;
    Err(StoreError::Taken {
        schema: server.schema().to_owned(),
        by: by.unwrap_or_else(|| "it has just ended".to_owned()),
    })
}

/// Who holds the lock, as far as the server knows.
async fn holder(live: &mut PgConnection, server: &Server) -> Result<Option<String>, StoreError> {
    let asked = Statement::new(HOLDER).bind(server.lock());
    let Some(row) = prepare(query(asked).fetch_optional(live)).await? else {
        return Ok(None);
    };
    let row = Row::Postgres(row);
    let name = Some(row.get::<&str>("name")?).filter(|name| !name.is_empty());
    Ok(Some(format!(
        "{} from {}, since {}",
        name.unwrap_or("one without a name"),
        row.get::<&str>("host")?,
        row.get::<&str>("since")?
    )))
}

/// What a server says to whoever only looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The version of PostgreSQL: its first number.
    pub version: i64,
    /// The process that writes in the schema, if one does.
    pub holder: Option<String>,
}

impl Server {
    /// Looks at the server. Changes nothing and takes no lock.
    ///
    /// # Errors
    ///
    /// Says why it cannot be reached or relied on.
    pub async fn look(&self) -> Result<Look, StoreError> {
        let mut live = connect(self).await?;
        let found = look(&mut live, self).await?;
        let holder = holder(&mut live, self).await?;
        drop(timeout(CONNECT, live.close()).await);
        Ok(Look {
            version: found.version,
            holder,
        })
    }
}

async fn connect(server: &Server) -> Result<PgConnection, StoreError> {
    timeout(CONNECT, PgConnection::connect_with(server.options()))
        .await
        .unwrap_or_else(|_| Err(timed_out()))
        .map_err(|error| not_let_in(&error))
}

/// What was found on a server that can be relied on.
struct Found {
    version: i64,
    /// Whether the schema is there.
    there: bool,
}

/// The driver's query with its values.
pub(crate) fn query(statement: Statement) -> Query<'static, Postgres, sqlx::postgres::PgArguments> {
    let values = statement.values.into_iter();
    values.fold(sqlx::query(statement.sql), |query, value| match value {
        Value::Number(number) => query.bind(number),
        Value::Text(text) => query.bind(text),
        Value::Bytes(bytes) => query.bind(bytes),
    })
}

/// Waits for a statement, but not for ever.
async fn patient<T>(
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    timeout(PATIENCE, statement)
        .await
        .unwrap_or_else(|_| Err(timed_out()))
}

/// The same while the session is prepared: a server that goes away then was never there.
async fn prepare<T>(
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    patient(statement).await.map_err(unprepared)
}

fn unprepared(error: sqlx::Error) -> StoreError {
    if breaks(&error) {
        StoreError::Unreachable { why: chain(&error) }
    } else {
        error.into()
    }
}

/// Why there is no connection: nobody is there yet, or somebody who says no.
fn not_let_in(error: &sqlx::Error) -> StoreError {
    match code(error) {
        // It starts or ends, or has no place left for now.
        None | Some("57P03" | "53300") => StoreError::Unreachable { why: chain(error) },
        Some(_) => StoreError::Unfit { what: chain(error) },
    }
}

fn timed_out() -> sqlx::Error {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

fn said(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    match error {
        sqlx::Error::Database(error) => error.try_downcast_ref(),
        _ => None,
    }
}

fn code(error: &sqlx::Error) -> Option<&str> {
    said(error).map(PgDatabaseError::code)
}

/// Whether the session cannot be trusted after this error. Where the server refuses a statement, or a row does
/// not decode, it can.
fn breaks(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(_) => {
            said(error).is_none_or(|said| !matches!(said.severity(), PgSeverity::Error))
        }
        sqlx::Error::RowNotFound
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::Encode(_) => false,
        _ => true,
    }
}

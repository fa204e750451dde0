//! One SQLite file: a writer with group commit, a few readers, and a lock against other processes.

use std::{fmt, sync::Arc, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use futures_util::future::BoxFuture;
use sqlx::{
    ConnectOptions as _,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::{
    Migration, StoreError, ground, migrate,
    tx::Tx,
    writer::{Command, OnCommitFailure, QUEUE, Writer, guarded, request},
};

/// Connections that read.
const READERS: usize = 4;

/// A database. Clones share it.
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    path: Utf8PathBuf,
    writer: mpsc::Sender<Command>,
    readers: Readers,
}

/// How a database is opened.
#[derive(Clone)]
pub struct Options {
    on_commit_failure: OnCommitFailure,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            on_commit_failure: Arc::new(|_| std::process::abort()),
        }
    }
}

impl Options {
    /// The same with something else than the end of the process for a commit that failed. For tests:
    /// whatever it does, the writer stops and no request of that commit is told that it was kept.
    #[must_use]
    pub fn on_commit_failure(self, hook: impl Fn(&StoreError) + Send + Sync + 'static) -> Self {
        Self {
            on_commit_failure: Arc::new(hook),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").finish_non_exhaustive()
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.0.path)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Opens the database at `path`, made if it is not there, and brings it to the given schema.
    ///
    /// # Errors
    ///
    /// Refuses network file systems, a file that another process uses, and a schema it does not know.
    pub async fn open(
        path: &Utf8Path,
        migrations: &'static [Migration],
    ) -> Result<Self, StoreError> {
        Self::open_with(path, migrations, Options::default()).await
    }

    /// The same with options.
    ///
    /// # Errors
    ///
    /// As [`Database::open`].
    pub async fn open_with(
        path: &Utf8Path,
        migrations: &'static [Migration],
        options: Options,
    ) -> Result<Self, StoreError> {
        ground::check(
            path.parent()
                .filter(|p| *p != "")
                .unwrap_or(Utf8Path::new(".")),
        )?;
        let lock = ground::lock(path)?;
        // SQLite gives its side files the permissions of the database.
        drop(ground::private(path)?);
        let mut connection = settings(path).connect().await?;
        migrate::run(&mut connection, migrations).await?;
        let (writer, commands) = mpsc::channel(QUEUE);
        let readers = Readers::open(&settings(path).read_only(true)).await?;
        tokio::spawn(
            Writer {
                tx: Tx::new(connection),
                commands,
                on_commit_failure: options.on_commit_failure,
                lock,
            }
            .serve(),
        );
        Ok(Self(Arc::new(Inner {
            path: path.to_owned(),
            writer,
            readers,
        })))
    }

    /// Reads the database at `path` beside the process that writes it, without a lock.
    ///
    /// # Errors
    ///
    /// Fails where there is no such file.
    pub async fn read_only<T, E, F>(path: &Utf8Path, f: F) -> Result<T, E>
    where
        F: for<'c> FnOnce(&'c mut Tx) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
        E: From<StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let connection = settings(path)
            .create_if_missing(false)
            .read_only(true)
            .connect()
            .await
            .map_err(|error| E::from(error.into()))?;
        let mut tx = Tx::new(connection);
        let result = view(&mut tx, f).await;
        tx.close().await?;
        result
    }

    /// Runs `f` in a transaction of its own within a shared commit, and answers after that commit.
    /// An error of `f` undoes what `f` did and nothing else. Goes on when the caller stops waiting.
    ///
    /// # Errors
    ///
    /// What `f` returned, or why nothing could be kept.
    pub async fn write<T, E, F>(&self, f: F) -> Result<T, E>
    where
        F: for<'c> FnOnce(&'c mut Tx) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
        E: From<StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (to, answer) = oneshot::channel();
        self.0
            .writer
            .send(request(f, to))
            .await
            .map_err(|_| StoreError::Closed)?;
        answer
            .await
            .unwrap_or_else(|_| Err(StoreError::RolledBack.into()))
    }

    /// Runs `f` on one consistent view of what was committed.
    ///
    /// # Errors
    ///
    /// What `f` returned, or why nothing could be read.
    pub async fn read<T, E, F>(&self, f: F) -> Result<T, E>
    where
        F: for<'c> FnOnce(&'c mut Tx) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
        E: From<StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let database = Arc::clone(&self.0);
        // In a task of its own, so that a connection comes back even when the caller stops waiting.
        tokio::spawn(async move {
            let mut tx = database.readers.take().await?;
            let result = view(&mut tx, f).await;
            database.readers.put_back(tx).await;
            result
        })
        .await
        .unwrap_or_else(|_| Err(StoreError::Panicked.into()))
    }

    /// How many requests wait for the writer, and how many may.
    pub fn waiting(&self) -> (usize, usize) {
        let bound = self.0.writer.max_capacity();
        (bound - self.0.writer.capacity(), bound)
    }

    /// Finishes what waits, closes the files and lets go of the lock. Later requests are refused.
    ///
    /// # Errors
    ///
    /// Fails when the files could not be closed properly; what was committed is safe.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.0.readers.close().await;
        let (done, closed) = oneshot::channel();
        if self.0.writer.send(Command::Close(done)).await.is_err() {
            return Ok(());
        }
        closed.await.unwrap_or(Ok(()))
    }
}

fn settings(path: &Utf8Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        .statement_cache_capacity(256)
        .pragma("trusted_schema", "OFF")
        // A service may write into its own folder alone, and what a statement sets aside may be secret.
        .pragma("temp_store", "MEMORY")
        // Pages written again and again are folded into the file once: 32 MiB of log, not 4.
        .pragma("wal_autocheckpoint", "8000")
        .pragma("journal_size_limit", "67108864")
}

/// Runs `f` between BEGIN and ROLLBACK: one view, nothing kept.
async fn view<T, E, F>(tx: &mut Tx, f: F) -> Result<T, E>
where
    F: for<'c> FnOnce(&'c mut Tx) -> BoxFuture<'c, Result<T, E>>,
    E: From<StoreError>,
{
    tx.tail = None;
    tx.run("BEGIN").await?;
    let result = guarded(f, tx).await;
    tx.run("ROLLBACK").await?;
    result
}

/// A few connections that read, handed around.
struct Readers {
    give: mpsc::Sender<Tx>,
    take: Mutex<mpsc::Receiver<Tx>>,
}

impl Readers {
    async fn open(settings: &SqliteConnectOptions) -> Result<Self, StoreError> {
        let (give, take) = mpsc::channel(READERS);
        for _ in 0..READERS {
            let tx = Tx::new(settings.connect().await?);
            give.send(tx).await.map_err(|_| StoreError::Closed)?;
        }
        Ok(Self {
            give,
            take: Mutex::new(take),
        })
    }

    async fn take(&self) -> Result<Tx, StoreError> {
        self.take
            .lock()
            .await
            .recv()
            .await
            .ok_or(StoreError::Closed)
    }

    async fn put_back(&self, tx: Tx) {
        if let Err(mpsc::error::SendError(tx)) = self.give.send(tx).await {
            drop(tx.close().await);
        }
    }

    async fn close(&self) {
        let mut take = self.take.lock().await;
        take.close();
        while let Ok(tx) = take.try_recv() {
            drop(tx.close().await);
        }
    }
}

#[cfg(test)]
mod tests;

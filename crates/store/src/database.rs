//! A database, in a file or on a server: a writer with group commit, a few readers, and a lock against other
//! processes.

use std::{fmt, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use futures_util::future::BoxFuture;
use tokio::{
    runtime::Handle,
    sync::{Mutex, mpsc, oneshot},
    task::spawn_blocking,
};

use crate::{
    Migration, Schema, Server, StoreError,
    connection::Connection,
    ground, migrate,
    postgres::{Role, Session},
    sqlite::{self, Access},
    tx::Tx,
    writer::{Command, OnCommitFailure, QUEUE, Request, Writer, guarded},
};

/// Connections that read.
const READERS: usize = 4;

/// Where a database is.
#[derive(Debug, Clone)]
pub enum Place {
    /// In a SQLite file.
    File(Utf8PathBuf),
    /// On a PostgreSQL server.
    Server(Server),
}

/// A database. Clones share it.
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    place: Place,
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
            .field("place", &self.0.place)
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
        let folder = path.parent().filter(|folder| *folder != "");
        ground::check(folder.unwrap_or(Utf8Path::new(".")))?;
        let lock = ground::lock(path)?;
        // SQLite gives its side files the permissions of the database.
        drop(ground::private(path)?);
        let mut connection = sqlite::open(path, Access::Write)?;
        migrate::on_sqlite(&mut connection, migrations)?;
        let readers = Readers::new();
        for _ in 0..READERS {
            let reader = sqlite::open(path, Access::Read)?;
            readers.add(Connection::Sqlite(reader)).await?;
        }
        let writer = Connection::Sqlite(connection);
        let place = Place::File(path.to_owned());
        Self::start(place, writer, readers, Some(lock), options)
    }

    /// Opens the schema on `server`, made if it is not there, and brings it to the given one.
    ///
    /// # Errors
    ///
    /// Refuses a server that cannot be relied on, a schema that another process uses, and one it does not know.
    pub async fn open_server(
        server: &Server,
        migrations: &'static [Migration],
    ) -> Result<Self, StoreError> {
        let writer = Session::open(server.clone(), Role::Writer(migrations)).await?;
        let readers = Readers::new();
        for _ in 0..READERS {
            let reader = Session::open(server.clone(), Role::Reader).await?;
            readers.add(Connection::Postgres(reader)).await?;
        }
        let writer = Connection::Postgres(writer);
        let place = Place::Server(server.clone());
        Self::start(place, writer, readers, None, Options::default())
    }

    /// Opens the database at `place`, wherever that is.
    ///
    /// # Errors
    ///
    /// As [`Database::open`] and [`Database::open_server`].
    pub async fn open_at(place: &Place, schema: &Schema) -> Result<Self, StoreError> {
        match place {
            Place::File(path) => Self::open(path, schema.sqlite).await,
            Place::Server(server) => Self::open_server(server, schema.postgres).await,
        }
    }

    fn start(
        place: Place,
        connection: Connection,
        readers: Readers,
        lock: Option<ground::Lock>,
        options: Options,
    ) -> Result<Self, StoreError> {
        let (writer, commands) = mpsc::channel(QUEUE);
        let task = Writer {
            tx: Tx::new(connection),
            commands,
            on_commit_failure: options.on_commit_failure,
            lock,
        };
        match &place {
            // A request is one hand-over to that thread, and its statements wait for nobody.
            Place::File(path) => {
                let runtime = Handle::current();
                std::thread::Builder::new()
                    .name("writer".to_owned())
                    .spawn(move || runtime.block_on(task.serve()))
                    .map_err(|source| StoreError::Io {
                        path: path.clone(),
                        source,
                    })?;
            }
            Place::Server(_) => drop(tokio::spawn(task.serve())),
        }
        Ok(Self(Arc::new(Inner {
            place,
            writer,
            readers,
        })))
    }

    /// Reads the database at `place` beside the process that writes it, without a lock.
    ///
    /// # Errors
    ///
    /// Fails where there is none.
    pub async fn read_only<T, E, F>(place: &Place, f: F) -> Result<T, E>
    where
        F: for<'c> FnOnce(&'c mut Tx) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
        E: From<StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let mut tx = Tx::new(reader(place).await?);
        let result = view(&mut tx, f).await;
        tx.connection.close().await?;
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
            .send(Command::Write(Box::new(Request { f, to })))
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
        let mut tx = database.readers.take().await?;
        let file = matches!(database.place, Place::File(_));
        let read = async move {
            let result = view(&mut tx, f).await;
            database.readers.put_back(tx).await;
            result
        };
        // In a task of its own, so that a connection comes back even when the caller stops waiting.
        let task = if file {
            let runtime = Handle::current();
            spawn_blocking(move || runtime.block_on(read))
        } else {
            tokio::spawn(read)
        };
        task.await
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

/// One more connection that reads.
async fn reader(place: &Place) -> Result<Connection, StoreError> {
    Ok(match place {
        Place::File(path) => Connection::Sqlite(sqlite::open(path, Access::Read)?),
        Place::Server(server) => {
            Connection::Postgres(Session::open(server.clone(), Role::Reader).await?)
        }
    })
}

/// Runs `f` between BEGIN and ROLLBACK: one view, nothing kept.
async fn view<T, E, F>(tx: &mut Tx, f: F) -> Result<T, E>
where
    F: for<'c> FnOnce(&'c mut Tx) -> BoxFuture<'c, Result<T, E>>,
    E: From<StoreError>,
{
    tx.tail = None;
    tx.connection.begin_view().await?;
    let result = guarded(f, tx).await;
    tx.connection.rollback().await?;
    result
}

/// A few connections that read, handed around.
struct Readers {
    give: mpsc::Sender<Tx>,
    take: Mutex<mpsc::Receiver<Tx>>,
}

impl Readers {
    fn new() -> Self {
        let (give, take) = mpsc::channel(READERS);
        Self {
            give,
            take: Mutex::new(take),
        }
    }

    async fn add(&self, connection: Connection) -> Result<(), StoreError> {
        let given = self.give.send(Tx::new(connection)).await;
        given.map_err(|_| StoreError::Closed)
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
            drop(tx.connection.close().await);
        }
    }

    async fn close(&self) {
        let mut take = self.take.lock().await;
        take.close();
        while let Ok(tx) = take.try_recv() {
            drop(tx.connection.close().await);
        }
    }
}

#[cfg(test)]
mod tests;

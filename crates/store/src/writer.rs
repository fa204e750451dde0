//! The one writer: requests share a commit, each behind its own savepoint, and no answer leaves before it.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use crate::{StoreError, ground::Lock};

/// Requests that may share one commit.
const BATCH: usize = 128;
/// Requests that may wait; the next one waits for a place.
pub(crate) const QUEUE: usize = 1024;

/// A transaction, or a consistent view where nothing is written. Repositories take one.
#[derive(Debug)]
pub struct Tx(SqliteConnection);

impl Tx {
    pub(crate) const fn new(connection: SqliteConnection) -> Self {
        Self(connection)
    }

    pub(crate) const fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.0
    }

    pub(crate) async fn close(self) -> Result<(), StoreError> {
        Ok(self.0.close().await?)
    }

    pub(crate) async fn run(&mut self, statement: &'static str) -> Result<(), StoreError> {
        sqlx::query(statement).execute(&mut self.0).await?;
        Ok(())
    }
}

/// What runs when a transaction could not be made durable.
pub(crate) type OnCommitFailure = Arc<dyn Fn(&StoreError) + Send + Sync>;

/// How a request learns its fate once the commit is through or not.
type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// A request that ran but is not answered yet.
pub(crate) struct Ran {
    keep: bool,
    answer: Answer,
}

/// A request that has not run yet.
type Job = Box<dyn for<'c> FnOnce(&'c mut Tx) -> BoxFuture<'c, Ran> + Send>;

pub(crate) enum Command {
    Write(Job),
    Close(oneshot::Sender<Result<(), StoreError>>),
}

/// Wraps `f` so that its result is held back until the commit.
pub(crate) fn request<T, E, F>(f: F, to: oneshot::Sender<Result<T, E>>) -> Command
where
    F: for<'c> FnOnce(&'c mut Tx) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    E: From<StoreError> + Send + 'static,
    T: Send + 'static,
{
    fn boxed<F>(f: F) -> Command
    where
        F: for<'c> FnOnce(&'c mut Tx) -> BoxFuture<'c, Ran> + Send + 'static,
    {
        Command::Write(Box::new(f))
    }
    boxed(move |tx| {
        Box::pin(async move {
            let result = guarded(f, tx).await;
            Ran {
                keep: result.is_ok(),
                answer: Box::new(move |fate| {
                    // Who asked may be gone; what was done stays done.
                    drop(to.send(match fate {
                        Ok(()) => result,
                        Err(error) => Err(error.into()),
                    }));
                }),
            }
        })
    })
}

/// Runs `f`; a panic inside is the error of this one request.
pub(crate) async fn guarded<T, E, F>(f: F, tx: &mut Tx) -> Result<T, E>
where
    F: for<'c> FnOnce(&'c mut Tx) -> BoxFuture<'c, Result<T, E>>,
    E: From<StoreError>,
{
    AssertUnwindSafe(async move { f(tx).await })
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(StoreError::Panicked.into()))
}

/// The task that owns the writing connection.
pub(crate) struct Writer {
    pub(crate) tx: Tx,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) on_commit_failure: OnCommitFailure,
    pub(crate) lock: Lock,
}

impl Writer {
    /// Serves until closed, or until the last handle is gone.
    pub(crate) async fn serve(mut self) {
        let mut closing = None;
        while closing.is_none() {
            let Some(first) = self.commands.recv().await else {
                break;
            };
            let mut next = Some(first);
            let mut batch = Vec::new();
            while let Some(command) = next.take() {
                match command {
                    Command::Write(job) => batch.push(job),
                    Command::Close(done) => closing = Some(done),
                }
                if closing.is_none() && batch.len() < BATCH {
                    next = self.commands.try_recv().ok();
                }
            }
            if !batch.is_empty() && !self.batch(batch).await {
                break;
            }
        }
        self.commands.close();
        let result = self.tx.close().await;
        // Only once the files are closed may another process have them.
        drop(self.lock);
        if let Some(done) = closing {
            drop(done.send(result));
        }
    }

    /// Runs `jobs` in one transaction. False when it could not be made durable.
    async fn batch(&mut self, jobs: Vec<Job>) -> bool {
        if let Err(error) = self.tx.run("BEGIN IMMEDIATE").await {
            tracing::error!(error = %chain(&error), "no transaction could be begun");
            // The jobs are dropped unrun, and whoever waits reads that as `RolledBack`.
            return true;
        }
        let mut answers = Vec::with_capacity(jobs.len());
        let mut whole = true;
        for job in jobs {
            if !whole {
                break;
            }
            match self.one(job).await {
                Ok(answer) => answers.push(answer),
                Err((error, answer)) => {
                    tracing::error!(error = %chain(&error), "a transaction was lost as a whole");
                    answers.extend(answer);
                    whole = false;
                }
            }
        }
        if !whole {
            self.undo(answers).await;
            return true;
        }
        match self.tx.run("COMMIT").await {
            Ok(()) => {
                for answer in answers {
                    answer(Ok(()));
                }
                true
            }
            Err(error) if error.is_full() => {
                tracing::error!("the disk is full: nothing was kept");
                self.undo(answers).await;
                true
            }
            Err(error) => {
                self.commit_failed(error, answers).await;
                false
            }
        }
    }

    async fn one(&mut self, job: Job) -> Result<Answer, (StoreError, Option<Answer>)> {
        if let Err(error) = self.tx.run("SAVEPOINT request").await {
            return Err((error, None));
        }
        let ran = job(&mut self.tx).await;
        let undone = if ran.keep {
            Ok(())
        } else {
            self.tx.run("ROLLBACK TO request").await
        };
        match undone {
            Ok(()) => match self.tx.run("RELEASE request").await {
                Ok(()) => Ok(ran.answer),
                Err(error) => Err((error, Some(ran.answer))),
            },
            Err(error) => Err((error, Some(ran.answer))),
        }
    }

    async fn commit_failed(&mut self, error: StoreError, answers: Vec<Answer>) {
        let error = match error {
            StoreError::Sql(source) => StoreError::Commit(source),
            other => other,
        };
        tracing::error!(error = %chain(&error), "a commit failed: what is on the disk is not known");
        // After a failed sync nothing that the page cache says can be trusted: no second try.
        (self.on_commit_failure)(&error);
        self.undo(answers).await;
    }

    /// Rolls all of it back and says so to everybody.
    async fn undo(&mut self, answers: Vec<Answer>) {
        // Some errors end the transaction by themselves; then there is none to roll back.
        drop(self.tx.run("ROLLBACK").await);
        for answer in answers {
            answer(Err(StoreError::RolledBack));
        }
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

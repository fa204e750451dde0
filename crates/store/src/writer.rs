//! The one writer: requests share a commit, what one of them did can be undone alone, and no answer leaves before it.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::sync::{mpsc, oneshot};

use crate::{StoreError, Tx, connection::Committed, error::chain, ground::Lock};

/// Requests that may share one commit.
const BATCH: usize = 128;
/// Requests that may wait; the next one waits for a place.
pub(crate) const QUEUE: usize = 1024;

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
pub(crate) trait Job: Send {
    /// Runs it. Its result is held back until the commit.
    fn run<'c>(self: Box<Self>, tx: &'c mut Tx) -> BoxFuture<'c, Ran>
    where
        Self: 'c;

    /// Answers it unrun.
    fn refuse(self: Box<Self>, why: StoreError);
}

pub(crate) enum Command {
    Write(Box<dyn Job>),
    Close(oneshot::Sender<Result<(), StoreError>>),
}

/// A request and who waits for it.
pub(crate) struct Request<F, T, E> {
    pub(crate) f: F,
    pub(crate) to: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Job for Request<F, T, E>
where
    F: for<'c> FnOnce(&'c mut Tx) -> BoxFuture<'c, Result<T, E>> + Send,
    E: From<StoreError> + Send + 'static,
    T: Send + 'static,
{
    fn run<'c>(self: Box<Self>, tx: &'c mut Tx) -> BoxFuture<'c, Ran>
    where
        Self: 'c,
    {
        let Self { f, to } = *self;
        Box::pin(async move {
            let mut result = guarded(f, tx).await;
            if result.is_ok()
                && let Err(error) = tx.flush().await
            {
                result = Err(error.into());
            }
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
    }

    fn refuse(self: Box<Self>, why: StoreError) {
        drop(self.to.send(Err(why.into())));
    }
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
    /// The lock on a file.
    pub(crate) lock: Option<Lock>,
}

impl Writer {
    /// Serves until closed, or until the last handle is gone.
    pub(crate) async fn serve(mut self) {
        let mut closing = None;
        let mut begun = false;
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
            if batch.is_empty() {
                continue;
            }
            if !begun {
                match self.tx.connection.begin().await {
                    Ok(false) => {}
                    // What was known of the ends is not known any more.
                    Ok(true) => self.tx.tail = None,
                    Err(error) => {
                        refuse(batch, &error);
                        continue;
                    }
                }
            }
            match self.batch(batch).await {
                Some(ready) => begun = ready,
                None => break,
            }
        }
        self.commands.close();
        // An open transaction would keep the log from being folded into the file.
        drop(self.tx.connection.rollback().await);
        let result = self.tx.connection.close().await;
        // Only once the files are closed may another process have them.
        drop(self.lock);
        if let Some(done) = closing {
            drop(done.send(result));
        }
    }

    /// Runs `jobs` in the transaction that was begun. Says whether the next one is; none when it could
    /// not be made durable.
    async fn batch(&mut self, jobs: Vec<Box<dyn Job>>) -> Option<bool> {
        let mut answers = Vec::with_capacity(jobs.len());
        let mut kept = 0;
        let mut behind_kept = false;
        for job in jobs {
            if behind_kept && let Err(error) = self.tx.connection.next(kept).await {
                return Some(self.lose(error, answers).await);
            }
            let before = self.tx.tail;
            let ran = job.run(&mut self.tx).await;
            answers.push(ran.answer);
            behind_kept = ran.keep;
            if ran.keep {
                kept += 1;
                continue;
            }
            self.tx.forget();
            self.tx.tail = before;
            if let Err(error) = self.tx.connection.undo(kept).await {
                return Some(self.lose(error, answers).await);
            }
        }
        match self.tx.connection.commit().await {
            Committed::Yes { begun } => {
                for answer in answers {
                    answer(Ok(()));
                }
                Some(begun)
            }
            Committed::Lost(error) => Some(self.lose(error, answers).await),
            Committed::Full => {
                tracing::error!("the disk is full: nothing was kept");
                self.undo(answers, || StoreError::Full).await;
                Some(false)
            }
            Committed::Unknown(StoreError::Unknown { why }) => {
                tracing::error!(error = why, "it is not known whether a commit was kept");
                let unknown = || StoreError::Unknown { why: why.clone() };
                self.undo(answers, unknown).await;
                Some(false)
            }
            Committed::Unknown(error) => {
                self.commit_failed(error, answers).await;
                None
            }
        }
    }

    /// The transaction is gone as a whole: some errors end it by themselves.
    async fn lose(&mut self, error: StoreError, answers: Vec<Answer>) -> bool {
        tracing::error!(error = %chain(&error), "a transaction was lost as a whole");
        self.undo(answers, || StoreError::RolledBack).await;
        false
    }

    async fn commit_failed(&mut self, error: StoreError, answers: Vec<Answer>) {
        let error = match error {
            StoreError::Sql(source) => StoreError::Commit(source),
            other => other,
        };
        tracing::error!(error = %chain(&error), "a commit failed: what is on the disk is not known");
        // After a failed sync nothing that the page cache says can be trusted: no second try.
        (self.on_commit_failure)(&error);
        self.undo(answers, || StoreError::RolledBack).await;
    }

    /// Rolls all of it back and says so to everybody.
    async fn undo(&mut self, answers: Vec<Answer>, why: impl Fn() -> StoreError) {
        // Where there is none to roll back any more, this fails, and all is as it should be.
        drop(self.tx.connection.rollback().await);
        self.tx.forget();
        self.tx.tail = None;
        for answer in answers {
            answer(Err(why()));
        }
    }
}

/// Answers requests for which no transaction could be begun.
fn refuse(batch: Vec<Box<dyn Job>>, error: &StoreError) {
    let why = chain(error);
    tracing::error!(error = why, "no transaction could be begun");
    for job in batch {
        job.refuse(StoreError::Unreachable { why: why.clone() });
    }
}

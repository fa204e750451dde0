//! Jails that are started, locked down and initialised, and have run nothing. Each is used once.
//!
//! One task owns them all; others send it messages. Waiting runs are served in order.

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use super::workshop::{Made, Workshop};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};

/// Jails that are started at once: a start is CPU work, and more at once only makes each slower.
const STARTS_AT_ONCE: usize = 2;
/// A start takes CPU time from the run that has just begun; while others are idle it can wait a moment.
const REFILL_PAUSE: Duration = Duration::from_millis(40);
const BACKOFF_FIRST: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// How long to wait where the machine has no memory to spare.
const NO_ROOM_PAUSE: Duration = Duration::from_secs(2);
const NEVER: Duration = Duration::from_hours(1);
const INBOX: usize = 256;

/// What the pool keeps ready, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keep {
    /// How many wait.
    pub(super) size: usize,
    /// One that has waited this long is replaced.
    pub(super) max_age: Duration,
    /// Bytes that the machine must have to spare before one is started that nobody waits for.
    pub(super) spare_memory: u64,
}

/// Whether the machine has this much memory to spare. One that does not say has.
fn spare(bytes: u64) -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    available.is_none_or(|kib| kib.saturating_mul(1024) >= bytes)
}

/// What the pool tells about itself.
#[derive(Debug, Clone)]
pub(super) struct PoolState<E> {
    pub(super) idle: usize,
    pub(super) starting: usize,
    pub(super) replaced: u64,
    /// A jail has been ready at least once, or none is kept ready.
    pub(super) filled: bool,
    /// Why the last start failed, until one succeeds.
    pub(super) failing: Option<E>,
}

impl<E> Default for PoolState<E> {
    fn default() -> Self {
        Self {
            idle: 0,
            starting: 0,
            replaced: 0,
            filled: false,
            failing: None,
        }
    }
}

type Answer<W> = Result<<W as Workshop>::Made, <W as Workshop>::Error>;
type Taker<W> = oneshot::Sender<Answer<W>>;

enum Message<W: Workshop> {
    Take(Taker<W>),
    Made(Answer<W>),
    Ended(u64),
}

struct Idle<M> {
    id: u64,
    jail: M,
    since: Instant,
}

/// A handle to the pool. When the last one is dropped, the pool and its idle jails end.
pub(super) struct Pool<W: Workshop> {
    inbox: mpsc::Sender<Message<W>>,
    state: watch::Receiver<PoolState<W::Error>>,
}

impl<W: Workshop> Clone for Pool<W> {
    fn clone(&self) -> Self {
        Self {
            inbox: self.inbox.clone(),
            state: self.state.clone(),
        }
    }
}

impl<W: Workshop> fmt::Debug for Pool<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.borrow().fmt(f)
    }
}

impl<W: Workshop> Pool<W> {
    pub(super) fn start(workshop: Arc<W>, keep: Keep) -> Self {
        let (inbox, messages) = mpsc::channel(INBOX);
        let (state, watched) = watch::channel(PoolState::default());
        let tracker = workshop.tracker();
        let keeper = Keeper {
            workshop,
            keep,
            // Weak, so that the pool ends with its handles.
            inbox: inbox.downgrade(),
            state,
            idle: VecDeque::new(),
            waiting: VecDeque::new(),
            starting: 0,
            next_id: 0,
            replaced: 0,
            failing: None,
            backoff: BACKOFF_FIRST,
            not_before: Instant::now(),
            quiet_until: Instant::now(),
        };
        tracker.spawn(keeper.keep(messages));
        Self {
            inbox,
            state: watched,
        }
    }

    /// A fresh jail: at once while some are idle, else as soon as one is ready. Dropping the future is safe.
    pub(super) async fn take(&self) -> Answer<W> {
        let (taker, jail) = oneshot::channel();
        self.inbox
            .send(Message::Take(taker))
            .await
            .map_err(|_| W::DIED)?;
        jail.await.unwrap_or(Err(W::DIED))
    }

    pub(super) fn state(&self) -> PoolState<W::Error> {
        self.state.borrow().clone()
    }
}

struct Keeper<W: Workshop> {
    workshop: Arc<W>,
    keep: Keep,
    inbox: mpsc::WeakSender<Message<W>>,
    state: watch::Sender<PoolState<W::Error>>,
    idle: VecDeque<Idle<W::Made>>,
    waiting: VecDeque<Taker<W>>,
    starting: usize,
    next_id: u64,
    replaced: u64,
    failing: Option<W::Error>,
    backoff: Duration,
    not_before: Instant,
    quiet_until: Instant,
}

impl<W: Workshop> Keeper<W> {
    async fn keep(mut self, mut messages: mpsc::Receiver<Message<W>>) {
        loop {
            self.refill();
            self.tell();
            tokio::select! {
                message = messages.recv() => match message {
                    Some(Message::Take(taker)) => self.waiting.push_back(taker),
                    Some(Message::Made(made)) => self.made(made),
                    Some(Message::Ended(id)) => self.drop_idle(|idle| idle.id == id),
                    None => return,
                },
                () = sleep_until(self.next_event()) => {
                    let max_age = self.keep.max_age;
                    self.drop_idle(|idle| idle.since.elapsed() >= max_age);
                }
            }
            self.hand_out();
        }
    }

    fn made(&mut self, made: Answer<W>) {
        self.starting = self.starting.saturating_sub(1);
        match made {
            Ok(jail) => {
                self.failing = None;
                self.backoff = BACKOFF_FIRST;
                self.put(jail);
            }
            Err(error) => {
                tracing::warn!(%error, "a sandbox could not be started");
                // One failed start, one honest answer; the others still have a chance.
                if let Some(taker) = self.waiting.pop_front() {
                    let _ = taker.send(Err(error.clone()));
                }
                self.failing = Some(error);
                self.not_before = Instant::now() + self.backoff;
                self.backoff = self.backoff.saturating_mul(2).min(BACKOFF_MAX);
            }
        }
    }

    fn put(&mut self, jail: W::Made) {
        let id = self.next_id;
        self.next_id = self.next_id.saturating_add(1);
        let (gone, inbox) = (jail.gone(), self.inbox.clone());
        tokio::spawn(async move {
            gone.await;
            if let Some(inbox) = inbox.upgrade() {
                let _ = inbox.send(Message::Ended(id)).await;
            }
        });
        self.idle.push_back(Idle {
            id,
            jail,
            since: Instant::now(),
        });
    }

    fn hand_out(&mut self) {
        while let Some(idle) = self.idle.pop_front() {
            let Some(taker) = self.waiting.pop_front() else {
                self.idle.push_front(idle);
                return;
            };
            let Idle { id, jail, since } = idle;
            match taker.send(Ok(jail)) {
                Ok(()) => self.quiet_until = Instant::now() + REFILL_PAUSE,
                // Whoever waited has given up; the jail is as fresh as before.
                Err(Ok(jail)) => self.idle.push_front(Idle { id, jail, since }),
                Err(Err(_)) => {}
            }
        }
    }

    fn drop_idle(&mut self, gone: impl Fn(&Idle<W::Made>) -> bool) {
        let before = self.idle.len();
        self.idle.retain(|idle| !gone(idle));
        let dropped = before.saturating_sub(self.idle.len());
        self.replaced = self.replaced.saturating_add(dropped as u64);
    }

    fn refill(&mut self) {
        self.waiting.retain(|taker| !taker.is_closed());
        let now = Instant::now();
        let can_wait = self.waiting.is_empty() && !self.idle.is_empty();
        if now < self.not_before || (can_wait && now < self.quiet_until) {
            return;
        }
        let there = self.idle.len() + self.starting;
        let mut goal = self.keep.size + self.waiting.len();
        // The first one shows that the tier works; it is always tried.
        if goal > there && self.next_id > 0 && !spare(self.keep.spare_memory) {
            goal = self.waiting.len();
            self.quiet_until = now + NO_ROOM_PAUSE;
        }
        let wanted = goal.saturating_sub(there);
        for _ in 0..wanted.min(STARTS_AT_ONCE.saturating_sub(self.starting)) {
            self.starting += 1;
            let (workshop, inbox) = (Arc::clone(&self.workshop), self.inbox.clone());
            workshop.tracker().spawn(async move {
                let made = workshop.make(None).await;
                if let Some(inbox) = inbox.upgrade() {
                    let _ = inbox.send(Message::Made(made)).await;
                }
            });
        }
    }

    /// When to look again although nobody said anything.
    fn next_event(&self) -> Instant {
        let now = Instant::now();
        let oldest = self
            .idle
            .iter()
            .map(|idle| idle.since + self.keep.max_age)
            .min();
        let pauses = [self.not_before, self.quiet_until];
        let over = pauses.into_iter().filter(|end| *end > now);
        oldest.into_iter().chain(over).min().unwrap_or(now + NEVER)
    }

    fn tell(&self) {
        self.state.send_replace(PoolState {
            idle: self.idle.len(),
            starting: self.starting,
            replaced: self.replaced,
            filled: self.next_id > 0 || self.keep.size == 0,
            failing: self.failing.clone(),
        });
    }
}

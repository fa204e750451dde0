//! Which calls this process has begun, so that none runs twice in it and the held ones are reported.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kazma_domain::CallId;

/// How many calls that are over are remembered. The registry refuses to let one run twice; this is the
/// second lock on the same door.
const REMEMBERED: usize = 65_536;

/// The calls of this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Begun {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    calls: HashMap<CallId, Stage>,
    over: VecDeque<CallId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not redeemed: may be begun again later.
    Preparing,
    /// Redeemed or about to be: never begun again here.
    Held,
    /// Run, or refused for good.
    Over,
}

/// One call that is being worked on. Dropped, it lets go.
#[derive(Debug)]
pub(crate) struct Working {
    begun: Begun,
    call: CallId,
}

impl Begun {
    /// Begins a call, unless it is being worked on or was already run here.
    pub(crate) fn begin(&self, call: CallId) -> Option<Working> {
        let mut inner = self.lock();
        if inner.calls.contains_key(&call) {
            return None;
        }
        inner.calls.insert(call, Stage::Preparing);
        drop(inner);
        Some(Working {
            begun: self.clone(),
            call,
        })
    }

    /// The calls that this process holds, to be reported.
    pub(crate) fn held(&self) -> Vec<CallId> {
        let inner = self.lock();
        inner
            .calls
            .iter()
            .filter(|(_, stage)| **stage == Stage::Held)
            .map(|(call, _)| *call)
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Working {
    /// From here on the registry may count the call as claimed by us.
    pub(crate) fn hold(&self) {
        self.begun.lock().calls.insert(self.call, Stage::Held);
    }

    /// The registry refused, so the call is not claimed by us after all.
    pub(crate) fn release(&self) {
        self.begun.lock().calls.insert(self.call, Stage::Preparing);
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut inner = self.begun.lock();
        match inner.calls.get(&self.call) {
            Some(Stage::Held) => {
                inner.calls.insert(self.call, Stage::Over);
                inner.over.push_back(self.call);
                if inner.over.len() > REMEMBERED
                    && let Some(oldest) = inner.over.pop_front()
                {
                    inner.calls.remove(&oldest);
                }
            }
            Some(Stage::Preparing) => {
                inner.calls.remove(&self.call);
            }
            Some(Stage::Over) | None => {}
        }
    }
}

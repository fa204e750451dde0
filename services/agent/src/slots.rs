//! How many turns think at once. One that waits for a person takes no place.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A turn's place among those that think.
#[derive(Debug)]
pub(crate) struct Slot {
    places: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
}

impl Slot {
    pub(crate) const fn new(places: Arc<Semaphore>) -> Self {
        Self {
            places,
            taken: None,
        }
    }

    /// Waits for a place, unless one is held.
    pub(crate) async fn take(&mut self) {
        if self.taken.is_none() {
            // The semaphore is never closed.
            self.taken = Arc::clone(&self.places).acquire_owned().await.ok();
        }
    }

    /// Gives the place to another turn.
    pub(crate) fn give_back(&mut self) {
        self.taken = None;
    }
}

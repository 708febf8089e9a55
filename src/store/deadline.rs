//! The request deadline: how long one request may wait for Redis in all, however many calls it makes.
//!
//! The remaining time belongs to the task that serves the request, so it applies to every call. Only time in the store
//! counts, because a client may take long to send a body. Outside a request, each call has the whole time for itself.
//!
//! That a request was made before is known to its script, and belongs to the same task.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

use super::{Store, StoreError, Unavailable};

/// How many times as long a list that gathers may take.
const GATHERING_FACTOR: u32 = 8;

tokio::task_local! {
    static LEFT: Cell<Duration>;
    static REPLAYED: Cell<bool>;
}

/// Notes that a script replied with the stored outcome of the request that this task serves.
pub(super) fn note_replay() {
    let _ = REPLAYED.try_with(|replayed| replayed.set(true));
}

/// Whether a script replied with the stored outcome of the request that this task serves.
pub fn is_replay() -> bool {
    REPLAYED.try_with(Cell::get).unwrap_or(false)
}

/// A call in progress. When it is dropped, the time that it took is deducted from the time of its request.
pub(crate) struct TimedCall {
    begun: Instant,
    /// When the call is given up.
    pub deadline: Instant,
}

impl Drop for TimedCall {
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        // Fails outside a request, where nothing needs to be deducted.
        let _ = LEFT.try_with(|left| left.set(left.get().saturating_sub(took)));
    }
}

impl Store {
    /// Serves a request: all calls that `request` makes have [`Store::timeout`] together.
    pub fn serve<F: Future>(&self, request: F) -> impl Future<Output = F::Output> + use<F> {
        let request = LEFT.scope(Cell::new(self.timeout()), request);
        REPLAYED.scope(Cell::new(false), request)
    }

    /// The same for a list that gathers: hundreds of calls, between which those of others come, have eight times as long.
    pub fn serve_gathering<F: Future>(&self, list: F) -> impl Future<Output = F::Output> + use<F> {
        LEFT.scope(Cell::new(self.timeout() * GATHERING_FACTOR), list)
    }

    /// Begins a call.
    ///
    /// # Errors
    /// [`Unavailable::TimeIsUp`] when earlier calls of the request used up its time; nothing is sent then.
    pub(crate) fn begin_call(&self) -> Result<TimedCall, StoreError> {
        let left = LEFT.try_with(Cell::get).unwrap_or_else(|_| self.timeout());
        if left.is_zero() {
            return Err(Unavailable::TimeIsUp.into());
        }
        let begun = Instant::now();
        Ok(TimedCall {
            begun,
            deadline: begun + left,
        })
    }
}

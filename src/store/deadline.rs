//! How long one request may wait for Redis in all, however many calls it takes.
//!
//! The time belongs to the task that serves the request, so no call can forget it: not a list that walks an index, not an
//! expiry of dead holds page by page, not the audit of what failed. Only time in the store counts, since a
//! client may take long to send a body. Outside a request each call has the whole time for itself.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

use super::{Store, StoreError, Unavailable};

tokio::task_local! {
    static LEFT: Cell<Duration>;
}

/// A call on its way. What it takes is taken from its request.
pub(super) struct Turn {
    begun: Instant,
    /// When the call is given up.
    pub deadline: Instant,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        // Without a request there is nothing to take it from.
        let _ = LEFT.try_with(|left| left.set(left.get().saturating_sub(took)));
    }
}

impl Store {
    /// Serves a request: all calls that `request` makes have [`Store::timeout`] together.
    pub async fn serve<F: Future>(&self, request: F) -> F::Output {
        LEFT.scope(Cell::new(self.timeout()), request).await
    }

    /// Begins a call.
    ///
    /// # Errors
    /// [`Unavailable::TimeIsUp`] when earlier calls of the request have taken all of its time; nothing is sent then.
    pub(super) fn turn(&self) -> Result<Turn, StoreError> {
        let left = LEFT.try_with(Cell::get).unwrap_or_else(|_| self.timeout());
        if left.is_zero() {
            return Err(Unavailable::TimeIsUp.into());
        }
        let begun = Instant::now();
        Ok(Turn {
            begun,
            deadline: begun + left,
        })
    }
}

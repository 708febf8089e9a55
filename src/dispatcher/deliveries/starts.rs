//! Lets first attempts of a lane that overlap begin in order: none is sent before the one claimed before it has begun. Where one is
//! put off, so are those behind it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::domain::ids::Partition;

/// How far the start of an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// It is being sent, or will not be.
    Begun,
    PutOff(Duration),
}

/// The last attempt of each lane that was claimed.
#[derive(Debug, Default)]
pub(super) struct Starts {
    lasts: Mutex<HashMap<String, watch::Receiver<State>>>,
    /// Held by a call that claims, until its claims are here; several partitions share one.
    claiming: [tokio::sync::Mutex<()>; 32],
}

/// The start of one attempt. Dropped, it has begun.
#[derive(Debug)]
pub(super) struct Start {
    all: Arc<Starts>,
    lane: String,
    before: Option<watch::Receiver<State>>,
    own: watch::Sender<State>,
}

impl Starts {
    /// The start of an attempt behind those of its lane that were claimed before.
    pub fn next(self: &Arc<Self>, lane: &str) -> Start {
        let (own, last) = watch::channel(State::Waiting);
        let mut lasts = self.lasts();
        let before = lasts.insert(lane.to_owned(), last);
        Start {
            all: Arc::clone(self),
            lane: lane.to_owned(),
            before: before.filter(|before| *before.borrow() == State::Waiting),
            own,
        }
    }

    fn lasts(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<State>>> {
        self.lasts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held while a call claims deliveries of a partition, until [`Starts::next`] has heard of them: so they are here in the order
    /// of the claims.
    pub async fn claiming(&self, partition: Partition) -> tokio::sync::MutexGuard<'_, ()> {
        let place = usize::from(partition.index()) % self.claiming.len();
        self.claiming[place].lock().await
    }
}

impl Start {
    /// Waits until the attempt before has begun.
    ///
    /// # Errors
    /// By how much that was put off, as this one has to be.
    pub async fn wait(&self) -> Result<(), Duration> {
        let Some(mut before) = self.before.clone() else {
            return Ok(());
        };
        let state = before.wait_for(|state| *state != State::Waiting).await;
        // Whoever had it is gone.
        let state = state.map_or(State::Begun, |state| *state);
        match state {
            State::PutOff(delay) => Err(delay),
            State::Waiting | State::Begun => Ok(()),
        }
    }

    /// The attempt is being sent.
    pub fn begin(&self) {
        self.become_from_waiting(State::Begun);
    }

    /// The attempt was not sent, and comes later.
    pub fn put_off(&self, delay: Duration) {
        self.become_from_waiting(State::PutOff(delay));
    }

    fn become_from_waiting(&self, next: State) {
        self.own.send_if_modified(|state| {
            let waits = *state == State::Waiting;
            if waits {
                *state = next;
            }
            waits
        });
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        self.begin();
        let mut lasts = self.all.lasts();
        let own = self.own.subscribe();
        if lasts
            .get(&self.lane)
            .is_some_and(|last| last.same_channel(&own))
        {
            lasts.remove(&self.lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn an_attempt_waits_for_the_one_before_it_in_its_lane_alone() {
        let starts = Arc::new(Starts::default());
        let (first, second, other) = (starts.next("a"), starts.next("a"), starts.next("b"));
        assert_eq!(first.wait().await, Ok(()));
        assert_eq!(other.wait().await, Ok(()));
        let mut waits = Box::pin(second.wait());
        tokio::select! {
            biased;
            _ = &mut waits => panic!("it does not wait"),
            () = tokio::task::yield_now() => first.begin(),
        }
        assert_eq!(waits.await, Ok(()));
        let third = starts.next("a");
        drop(second);
        assert_eq!(third.wait().await, Ok(()));
        drop((first, third, other));
        assert!(starts.lasts().is_empty());
    }

    #[tokio::test]
    async fn what_is_behind_one_that_is_put_off_is_put_off_too_and_what_comes_later_is_not() {
        let starts = Arc::new(Starts::default());
        let (first, second) = (starts.next("a"), starts.next("a"));
        first.put_off(LATER);
        let again = starts.next("a");
        assert_eq!(second.wait().await, Err(LATER));
        second.put_off(LATER);
        // Behind it when it was claimed.
        assert_eq!(again.wait().await, Err(LATER));
        let later = starts.next("a");
        again.put_off(LATER);
        drop((first, second, again));
        let last = starts.next("a");
        later.begin();
        assert_eq!(last.wait().await, Ok(()));
    }
}

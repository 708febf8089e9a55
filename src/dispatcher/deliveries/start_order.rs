//! Starts overlapping first attempts of a lane in order: each waits until the one claimed before it is being sent. Where one is
//! postponed, so are those behind it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::domain::ids::Partition;

/// State of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// It is being sent, or will not be.
    Started,
    Postponed(Duration),
}

/// The last claimed attempt of each lane.
#[derive(Debug, Default)]
pub(super) struct StartOrder {
    lasts: Mutex<HashMap<String, watch::Receiver<State>>>,
    /// Held by a call that claims, until its claims have tickets; several partitions share one.
    claiming: [tokio::sync::Mutex<()>; 32],
}

/// The place of one attempt in the order of its lane. Dropped, it lets the next one start.
#[derive(Debug)]
pub(super) struct StartTicket {
    all: Arc<StartOrder>,
    lane: String,
    before: Option<watch::Receiver<State>>,
    own: watch::Sender<State>,
}

impl StartOrder {
    /// The ticket of an attempt behind those of its lane that were claimed before.
    pub fn next(self: &Arc<Self>, lane: &str) -> StartTicket {
        let (own, last) = watch::channel(State::Waiting);
        let mut lasts = self.lasts.lock();
        let before = lasts.insert(lane.to_owned(), last);
        StartTicket {
            all: Arc::clone(self),
            lane: lane.to_owned(),
            before: before.filter(|before| *before.borrow() == State::Waiting),
            own,
        }
    }

    /// Held while a call claims deliveries of a partition, until these have their tickets: so tickets are in the order of the claims.
    pub async fn claiming(&self, partition: Partition) -> tokio::sync::MutexGuard<'_, ()> {
        let place = usize::from(partition.index()) % self.claiming.len();
        self.claiming[place].lock().await
    }
}

impl StartTicket {
    /// Waits until the attempt before has started.
    ///
    /// # Errors
    /// The delay of the attempt before, if that was postponed: it applies to this one too.
    pub async fn wait(&self) -> Result<(), Duration> {
        let Some(mut before) = self.before.clone() else {
            return Ok(());
        };
        let state = before.wait_for(|state| *state != State::Waiting).await;
        match state.as_deref() {
            Ok(State::Postponed(delay)) => Err(*delay),
            _ => Ok(()),
        }
    }

    /// The attempt is being sent.
    pub fn start(&self) {
        self.leave_waiting(State::Started);
    }

    /// The attempt was not sent, and comes later.
    pub fn postpone(&self, delay: Duration) {
        self.leave_waiting(State::Postponed(delay));
    }

    fn leave_waiting(&self, next: State) {
        self.own.send_if_modified(|state| {
            let waits = *state == State::Waiting;
            if waits {
                *state = next;
            }
            waits
        });
    }
}

impl Drop for StartTicket {
    fn drop(&mut self) {
        self.start();
        let mut lasts = self.all.lasts.lock();
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
    async fn an_attempt_waits_only_for_the_previous_one_of_its_lane() {
        let order = Arc::new(StartOrder::default());
        let (first, second, other) = (order.next("a"), order.next("a"), order.next("b"));
        assert_eq!(first.wait().await, Ok(()));
        assert_eq!(other.wait().await, Ok(()));
        let mut waits = Box::pin(second.wait());
        tokio::select! {
            biased;
            _ = &mut waits => panic!("it does not wait"),
            () = tokio::task::yield_now() => first.start(),
        }
        assert_eq!(waits.await, Ok(()));
        let third = order.next("a");
        drop(second);
        assert_eq!(third.wait().await, Ok(()));
        drop((first, third, other));
        assert!(order.lasts.lock().is_empty());
    }

    #[tokio::test]
    async fn an_attempt_behind_a_postponed_one_is_postponed_and_a_later_one_is_not() {
        let order = Arc::new(StartOrder::default());
        let (first, second) = (order.next("a"), order.next("a"));
        first.postpone(LATER);
        let again = order.next("a");
        assert_eq!(second.wait().await, Err(LATER));
        second.postpone(LATER);
        // Behind it when it was claimed.
        assert_eq!(again.wait().await, Err(LATER));
        let later = order.next("a");
        again.postpone(LATER);
        drop((first, second, again));
        let last = order.next("a");
        later.start();
        assert_eq!(last.wait().await, Ok(()));
    }
}

//! Books how attempts ended, with the others of their partition.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::bookings::{Booking, Reply};
use super::inner::{CLAIM_MS, Inner};
use super::starts::Start;
use crate::domain::ids::Partition;
use crate::domain::tenant::SYSTEM;
use crate::domain::webhook::Owner;
use crate::store::StoreError;
use crate::store::dispatcher::attempts::{Booked, EndAttempts, Ending};

/// The events about a failure for good.
pub(super) struct Failure {
    /// Of the subscription.
    pub owner: Owner,
    /// Their cause, lines of name and value.
    pub context: String,
    /// As JSON; empty where there is no event about the delivery.
    pub details: String,
}

/// Books for a partition.
struct Booker {
    inner: Arc<Inner>,
    partition: Partition,
    is_done: bool,
}

impl Drop for Booker {
    fn drop(&mut self) {
        if !self.is_done {
            self.inner.bookings.break_off(self.partition);
        }
    }
}

impl Booker {
    async fn run(mut self) {
        loop {
            // What has ended by now comes along.
            yield_now().await;
            let Some(taken) = self.inner.bookings.take(self.partition) else {
                self.is_done = true;
                return;
            };
            let ends: Vec<&Ending> = taken.iter().map(|booking| &*booking.ending).collect();
            let booked = self.inner.end_all(self.partition, &ends, None).await;
            let failure = booked.as_ref().err().cloned();
            let mut booked = booked.into_iter().flatten();
            for booking in taken {
                let reply = match &failure {
                    Some(failure) => Err(Arc::clone(failure)),
                    None => booked.next().map_or_else(unread, Ok),
                };
                // Whoever waited may be gone, at a shutdown.
                let _ = booking.reply.send(reply);
            }
        }
    }
}

/// For one of which there is no reply.
fn unread() -> Reply {
    Ok((Booked::Damaged("there was no reply".to_owned()), None))
}

impl Inner {
    /// Books an end with the others of its partition.
    ///
    /// # Errors
    /// Those of the call, which may have booked it.
    pub async fn end(self: &Arc<Self>, partition: Partition, ending: &Arc<Ending>) -> Reply {
        let (reply, booked) = oneshot::channel();
        let ending = Arc::clone(ending);
        if self.bookings.add(partition, Booking { ending, reply }) {
            let booker = Booker {
                inner: Arc::clone(self),
                partition,
                is_done: false,
            };
            tokio::spawn(booker.run());
        }
        booked.await.unwrap_or_else(|_| unread())
    }

    /// Books a failure for good, in a call of its own: few are, and their events take time.
    ///
    /// # Errors
    /// Those of the call, which may have booked it.
    pub async fn end_failed(
        &self,
        partition: Partition,
        ending: &Ending,
        failure: &Failure,
    ) -> Reply {
        let booked = self.end_all(partition, &[ending], Some(failure)).await?;
        booked.into_iter().next().map_or_else(unread, Ok)
    }

    async fn end_all(
        &self,
        partition: Partition,
        attempts: &[&Ending],
        failure: Option<&Failure>,
    ) -> Result<Vec<(Booked, Option<Start>)>, Arc<StoreError>> {
        let call = EndAttempts {
            partition,
            system: SYSTEM,
            fails: failure.is_some(),
            owner: failure.map_or("", |failure| failure.owner.as_str()),
            context: failure.map_or("", |failure| &failure.context),
            details: failure.map_or("", |failure| &failure.details),
            dispatcher: &self.name,
            claim_ms: CLAIM_MS,
            lane_concurrency: self.lane_concurrency,
            stale_before_ms: self.stale_before_ms(),
            attempts,
        };
        let _in_order = self.claiming(partition).await;
        let booked = self.store.end_attempts(&call).await.map_err(Arc::new)?;
        Ok(booked.into_iter().map(|one| self.with_start(one)).collect())
    }

    fn with_start(&self, booked: Booked) -> (Booked, Option<Start>) {
        let next = match &booked {
            Booked::Ended(ended) => ended.next.as_ref(),
            Booked::Lost | Booked::Damaged(_) => None,
        };
        let start = next.and_then(|next| self.start_of(next));
        (booked, start)
    }
}

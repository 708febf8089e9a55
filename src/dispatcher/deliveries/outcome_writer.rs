//! Records how attempts ended. Those of a partition that end while the call before them is under way share the next one, so that
//! Redis reads and writes what they have in common once. One that ends alone is recorded at once.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::end_queue::{EndReply, QueuedEnd};
use super::start_order::StartTicket;
use super::state::{CLAIM_MS, WorkerState};
use crate::domain::ids::Partition;
use crate::domain::tenant::SYSTEM;
use crate::domain::webhook::Owner;
use crate::store::StoreError;
use crate::store::dispatcher::attempts::{AttemptEnd, EndAttempts, EndResult};

/// The events about a final failure.
pub(super) struct FailureEvents {
    /// Owner of the subscription.
    pub owner: Owner,
    /// Their cause, lines of name and value.
    pub context: String,
    /// As JSON; empty where there is no event about the delivery.
    pub details: String,
}

/// Records the ends of a partition until none is left.
struct OutcomeWriter {
    state: Arc<WorkerState>,
    partition: Partition,
    is_done: bool,
}

impl Drop for OutcomeWriter {
    fn drop(&mut self) {
        // After a panic, nobody else would record what waits.
        if !self.is_done {
            self.state.ends.clear(self.partition);
        }
    }
}

impl OutcomeWriter {
    async fn run(mut self) {
        loop {
            // Attempts that have ended by now join the batch.
            yield_now().await;
            let Some(taken) = self.state.ends.take(self.partition) else {
                self.is_done = true;
                return;
            };
            let ends: Vec<&AttemptEnd> = taken.iter().map(|queued| &*queued.end).collect();
            let results = self.state.end_all(self.partition, &ends, None).await;
            let failure = results.as_ref().err().cloned();
            let mut results = results.into_iter().flatten();
            for queued in taken {
                let reply = match &failure {
                    Some(failure) => Err(Arc::clone(failure)),
                    None => results.next().map_or_else(no_reply, Ok),
                };
                // The receiver may be gone, at a shutdown.
                let _ = queued.reply.send(reply);
            }
        }
    }
}

fn no_reply() -> EndReply {
    Ok((EndResult::Damaged("there was no reply".to_owned()), None))
}

impl WorkerState {
    /// Records an end with the others of its partition.
    ///
    /// # Errors
    /// Those of the call, which may have recorded it.
    pub async fn end(self: &Arc<Self>, partition: Partition, end: &Arc<AttemptEnd>) -> EndReply {
        let (reply, recorded) = oneshot::channel();
        let end = Arc::clone(end);
        if self.ends.add(partition, QueuedEnd { end, reply }) {
            let writer = OutcomeWriter {
                state: Arc::clone(self),
                partition,
                is_done: false,
            };
            tokio::spawn(writer.run());
        }
        recorded.await.unwrap_or_else(|_| no_reply())
    }

    /// Records a final failure, in a call of its own: few are, and their events take time.
    ///
    /// # Errors
    /// Those of the call, which may have recorded it.
    pub async fn end_failed(
        &self,
        partition: Partition,
        end: &AttemptEnd,
        failure: &FailureEvents,
    ) -> EndReply {
        let results = self.end_all(partition, &[end], Some(failure)).await?;
        results.into_iter().next().map_or_else(no_reply, Ok)
    }

    async fn end_all(
        &self,
        partition: Partition,
        attempts: &[&AttemptEnd],
        failure: Option<&FailureEvents>,
    ) -> Result<Vec<(EndResult, Option<StartTicket>)>, Arc<StoreError>> {
        let call = EndAttempts {
            partition,
            system: SYSTEM,
            fails: failure.is_some(),
            owner: failure.map_or("", |failure| failure.owner.as_str()),
            context: failure.map_or("", |failure| &failure.context),
            details: failure.map_or("", |failure| &failure.details),
            dispatcher: &self.settings.name,
            claim_ms: CLAIM_MS,
            lane_concurrency: self.settings.lane_concurrency,
            stale_before_ms: self.stale_before_ms(),
            attempts,
        };
        let _in_order = self.claiming(partition).await;
        let results = self.store.end_attempts(&call).await.map_err(Arc::new)?;
        let with_ticket = |result: EndResult| {
            let next = match &result {
                EndResult::Recorded(recorded) => recorded.next.as_ref(),
                EndResult::Lost | EndResult::Damaged(_) => None,
            };
            let ticket = next.and_then(|next| self.ticket_of(next));
            (result, ticket)
        };
        Ok(results.into_iter().map(with_ticket).collect())
    }
}

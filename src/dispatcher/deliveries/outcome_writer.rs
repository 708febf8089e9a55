//! Records how attempts ended. Those of a partition that end while the call before them is under way share the next one, so that
//! Redis reads and writes what they have in common once. One that ends alone is recorded at once.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::yield_now;

use super::attempt::AttemptResult;
use super::end_queue::{EndReply, QueuedEnd};
use super::rendered_event::RenderedEvent;
use super::start_order::StartTicket;
use super::state::{CLAIM_MS, WorkerState};
use crate::domain::event::types::EventType;
use crate::domain::ids::Partition;
use crate::domain::tenant::SYSTEM;
use crate::domain::webhook::Owner;
use crate::store::dispatcher::attempts::{AttemptEnd, EndAttempts, EndAttemptsReply, EndResult};
use crate::store::dispatcher::deliveries::ClaimedDelivery;
use crate::store::{Lane, StoreError, outcome};

/// The events about a final failure.
pub(super) struct FailureEvents {
    /// Owner of the subscription.
    pub owner: Owner,
    /// Their cause, lines of name and value.
    pub context: String,
    /// As JSON; empty where there is no event about the delivery.
    pub details: String,
    /// The address whose receiver is gone, which disables the subscription; else empty.
    pub gone_url: String,
}

impl FailureEvents {
    /// Those about a final failure of the delivery of `event`. `source`: theirs.
    pub fn of(
        event: &RenderedEvent,
        claim: &ClaimedDelivery,
        result: &AttemptResult,
        source: &str,
    ) -> Self {
        let mut context = format!("source {source}\nactor system\ntrace_id {}", event.trace_id);
        if let Some(request_id) = &event.request_id {
            context += &format!("\nrequest_id {request_id}");
        }
        let mut details = json!({
            "subscription_id": claim.subscription, "tenant_id": claim.owner, "delivery_id": claim.id,
            "event_id": event.event_id, "event_type": event.event_type, "attempts": claim.attempts,
        });
        if let Some(status) = result.status() {
            details["last_response_status"] = status.into();
        }
        if let Some(error) = result.field("error_message") {
            details["error"] = error.into();
        }
        // No event is about the delivery of such an event.
        let is_emitted = event.event_type != EventType::SystemWebhookDeliveryFailed.as_str();
        Self {
            owner: claim.owner.clone(),
            context,
            details: match is_emitted {
                true => details.to_string(),
                false => String::new(),
            },
            gone_url: result.gone_url.clone(),
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
    pub async fn end(&self, partition: Partition, end: &Arc<AttemptEnd>) -> EndReply {
        let (reply, mut recorded) = oneshot::channel();
        let end = Arc::clone(end);
        let queue = self.ends.of(partition);
        queue.waiting.lock().push_back(QueuedEnd { end, reply });
        let _recording = tokio::select! {
            biased;
            reply = &mut recorded => return reply.unwrap_or_else(|_| no_reply()),
            recording = queue.recording.lock() => recording,
        };
        loop {
            match recorded.try_recv() {
                Ok(reply) => return reply,
                // The task that took it was cancelled.
                Err(TryRecvError::Closed) => return no_reply(),
                Err(TryRecvError::Empty) => {}
            }
            // Attempts that have ended by now join the batch.
            yield_now().await;
            // On the heap, as all calls of Redis here: most ends are recorded by another task.
            Box::pin(self.end_queued(partition, queue.take())).await;
        }
    }

    async fn end_queued(&self, partition: Partition, taken: Vec<QueuedEnd>) {
        let ends: Vec<&AttemptEnd> = taken.iter().map(|queued| &*queued.end).collect();
        let results = self.end_all(partition, &ends, None).await;
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
            gone_url: failure.map_or("", |failure| &failure.gone_url),
            dispatcher: &self.settings.name,
            claim_ms: CLAIM_MS,
            lane_concurrency: self.settings.lane_concurrency,
            stale_before_ms: self.stale_before_ms(),
            attempts,
        };
        let _in_order = self.claiming(partition).await;
        let reply = outcome(self.store.run(Lane::Background, &call).await);
        let EndAttemptsReply::Ended { ends } = reply.map_err(Arc::new)?;
        let with_ticket = |result: EndResult| {
            let next = match &result {
                EndResult::Recorded(recorded) => recorded.next.as_ref(),
                EndResult::Lost | EndResult::Damaged(_) => None,
            };
            let ticket = next.and_then(|next| self.ticket_of(next));
            (result, ticket)
        };
        Ok(ends.into_iter().map(with_ticket).collect())
    }
}

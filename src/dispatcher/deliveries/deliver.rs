//! The task of a delivery in flight: reads event and subscription, attempts the delivery, and records the outcome.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep};
use tracing::{error, info, warn};

use super::attempt::{AttemptResult, Outcome, attempt};
use super::outcome_writer::FailureEvents;
use super::permits::Permit;
use super::rendered_event::RenderedEvent;
use super::start_order::StartTicket;
use super::state::{ATTEMPT, CLAIM_MS, LAST_WAIT, WorkerState};
use crate::admin::webhooks::sending::Receiver;
use crate::domain::ids::Partition;
use crate::driver::script::Counted;
use crate::store::StoreError;
use crate::store::dispatcher::attempts::{AttemptEnd, EndResult, RecordedEnd};
use crate::store::dispatcher::deliveries::{ClaimedDelivery, EventPlace};
use crate::store::dispatcher::outbox::EventRange;

/// The pause before recording an outcome is tried again.
const RECORD_RETRY: Duration = Duration::from_millis(200);

/// Attempts a delivery, and then the next of its lane, until there is none. `ticket`: where first attempts of a lane overlap.
pub(super) async fn deliver(
    state: Arc<WorkerState>,
    mut claim: ClaimedDelivery,
    mut ticket: Option<StartTicket>,
    permit: Permit,
) {
    state.metrics.in_flight.inc();
    loop {
        let until = Instant::now() + ATTEMPT;
        let (event, result) = match state.event(claim.place.as_ref()).await {
            Err(result) => (None, result),
            Ok(event) => {
                if let Some(delay) = event.delay(&claim) {
                    state.metrics.delay.observe(delay.as_secs_f64());
                }
                let result = state.attempt(&claim, &event, (ticket.as_ref(), until));
                let result = result.await;
                (Some(event), result)
            }
        };
        if let (Some(ticket), Outcome::Later(delay)) = (&ticket, &result.outcome) {
            ticket.postpone(*delay);
        }
        let next = state.record(&claim, event.as_deref(), result, &permit);
        let Some((next, next_ticket)) = next.await else {
            break;
        };
        (claim, ticket) = (next, next_ticket);
    }
    state.metrics.in_flight.dec();
}

impl WorkerState {
    /// The ticket of an attempt behind those of its lane; `None` where none of a lane overlap, and for retries.
    pub fn ticket_of(&self, claim: &ClaimedDelivery) -> Option<StartTicket> {
        let overlaps = self.settings.lane_concurrency > 1 && claim.failures == 0;
        overlaps.then(|| self.start_order.next(&claim.lane))
    }

    /// Held while a call claims deliveries of a partition, until these have tickets; `None` where none overlap.
    pub async fn claiming(&self, partition: Partition) -> Option<MutexGuard<'_, ()>> {
        match self.settings.lane_concurrency > 1 {
            true => Some(self.start_order.claiming(partition).await),
            false => None,
        }
    }

    /// The event of a delivery.
    ///
    /// # Errors
    /// The result of the attempt, where the event cannot be sent.
    async fn event(&self, place: Option<&EventPlace>) -> Result<Arc<RenderedEvent>, AttemptResult> {
        let damaged = || AttemptResult::dropped("damaged", "The delivery is damaged");
        let place = place.ok_or_else(damaged)?;
        // On the heap, as all reads of Redis here: most events are cached, and this task keeps its memory while it waits for the receiver.
        let read = async { Box::pin(self.read_event(place)).await };
        self.events.get(place, read).await
    }

    async fn read_event(&self, place: &EventPlace) -> Result<RenderedEvent, AttemptResult> {
        let target = EventRange {
            tenant: place.tenant.clone(),
            day: place.day,
            first: place.entry,
            count: 1,
        };
        let targets = [(place.partition, &target)];
        let found = self.store.read_targets(&targets).await;
        let facts = found
            .ok()
            .and_then(|found| found.into_iter().next().flatten());
        let mut facts = facts
            .ok_or_else(AttemptResult::store_unavailable)?
            .into_iter();
        let facts = facts.find(|(entry, _)| *entry == place.entry);
        let gone = || AttemptResult::dropped("event_not_found", "The event is gone");
        let (_, facts) = facts.ok_or_else(gone)?;
        RenderedEvent::of(place, &facts).ok_or_else(|| {
            AttemptResult::dropped("event_unreadable", "The event cannot be rendered")
        })
    }

    /// The receiver of a claim's subscription, as it was at the claim or later.
    async fn receiver(&self, claim: &ClaimedDelivery) -> Result<Option<Arc<Receiver>>, StoreError> {
        let id = &claim.subscription;
        if let Some((mark, known)) = self.receivers.get(id)
            && mark == claim.mark
            && known.is_some()
        {
            return Ok(known);
        }
        let record = Box::pin(self.store.webhook_record(id)).await?;
        let receiver = self.webhooks.receiver(id, &record).map(Arc::new);
        self.receivers
            .insert(id.clone(), (claim.mark.clone(), receiver.clone()));
        Ok(receiver)
    }

    async fn attempt(
        &self,
        claim: &ClaimedDelivery,
        event: &RenderedEvent,
        when: (Option<&StartTicket>, Instant),
    ) -> AttemptResult {
        let Ok(receiver) = self.receiver(claim).await else {
            return AttemptResult::store_unavailable();
        };
        let result = attempt(
            (&self.webhooks, &self.policies, &self.host_rates),
            claim,
            receiver.as_deref(),
            event,
            when,
        );
        let cancelled = async {
            self.shutdown.begun().await;
            sleep(LAST_WAIT).await;
        };
        tokio::select! {
            result = result => result,
            () = cancelled => AttemptResult::new(Outcome::Back, "shutdown"),
        }
    }

    /// Records the result of an attempt, until Redis has accepted it or the claim is over. Returns the next delivery of the lane, and
    /// its ticket as of [`WorkerState::ticket_of`].
    async fn record(
        self: &Arc<Self>,
        claim: &ClaimedDelivery,
        event: Option<&RenderedEvent>,
        result: AttemptResult,
        permit: &Permit,
    ) -> Option<(ClaimedDelivery, Option<StartTicket>)> {
        let until = Instant::now() + Duration::from_millis(CLAIM_MS.unsigned_abs());
        let (partition, delay) = (claim.owner.partition(), result.outcome.delay());
        let failure = event.filter(|_| result.outcome == Outcome::Failed);
        let failure = failure.map(|event| {
            Box::new(FailureEvents::of(
                event,
                claim,
                &result,
                self.settings.source,
            ))
        });
        let (outcome, reason) = (result.outcome.word(), result.reason);
        let is_gone = !result.gone_url.is_empty();
        let end = Arc::new(AttemptEnd {
            delivery: claim.id.clone(),
            token: claim.token.clone(),
            subscription: claim.subscription.clone(),
            lane: claim.lane.clone(),
            outcome,
            delay_ms: i64::try_from(delay.as_millis()).unwrap_or(i64::MAX),
            next_of_subscription: match self.shutdown.has_begun() {
                true => 0,
                false => permit.next_of_subscription(),
            },
            fields: Counted(result.fields),
        });
        loop {
            let reply = match &failure {
                None => self.end(partition, &end).await,
                Some(failure) => Box::pin(self.end_failed(partition, &end, failure)).await,
            };
            match reply {
                Ok((EndResult::Recorded(recorded), ticket)) => {
                    let (outcome, reason) = match &*recorded.outcome {
                        same if same == outcome => (same, reason),
                        // Its record was deleted.
                        "gone" => ("dropped", "damaged"),
                        other => (other, "subscription_inactive"),
                    };
                    self.count(outcome, reason);
                    log_recorded(claim, event, (outcome, reason));
                    self.note_end(claim, &recorded, (delay, is_gone));
                    return Some((recorded.next?, ticket));
                }
                // The claim lapsed, and another dispatcher repeats the attempt.
                Ok((EndResult::Lost, _)) => {
                    self.count("lost", reason);
                    log_recorded(claim, event, ("lost", reason));
                    return None;
                }
                Ok((EndResult::Damaged(why), _)) => {
                    self.count("lost", reason);
                    log_unrecorded(claim, event, &why);
                    return None;
                }
                Err(failure) => {
                    let again = matches!(*failure, StoreError::Unavailable(_));
                    if !again || Instant::now() >= until {
                        self.count("lost", reason);
                        log_unrecorded(claim, event, &failure);
                        return None;
                    }
                    sleep(RECORD_RETRY).await;
                }
            }
        }
    }

    /// Counts an attempt by its recorded outcome.
    fn count(&self, outcome: &str, reason: &str) {
        let attempts = &self.metrics.attempts;
        attempts.with_label_values(&[outcome, reason]).inc();
    }

    fn note_end(
        &self,
        claim: &ClaimedDelivery,
        recorded: &RecordedEnd,
        (delay, is_gone): (Duration, bool),
    ) {
        if recorded.disabled {
            self.metrics.disabled.inc();
            let id = claim.subscription.as_str();
            let why = match is_gone {
                true => "its receiver is gone (410)",
                false => "too many deliveries failed in a row",
            };
            warn!(webhook.id = id, "webhook `{id}` is disabled: {why}");
        }
        if recorded.left || !delay.is_zero() {
            self.signal.after(claim.owner.partition(), delay);
            self.signal.wake();
        }
    }
}

/// Logs an attempt with its recorded outcome and the reason. `event`: where it could be read.
fn log_recorded(
    claim: &ClaimedDelivery,
    event: Option<&RenderedEvent>,
    (outcome, reason): (&str, &str),
) {
    let but = match outcome {
        "lost" => ", but its claim was lost, so this is not recorded",
        _ => "",
    };
    info!(
        delivery.id = claim.id.as_str(),
        webhook.id = claim.subscription.as_str(),
        event.id = event.map(|event| &*event.event_id),
        trace.id = event.map(|event| &*event.trace_id),
        request.id = event.and_then(|event| event.request_id.as_deref()),
        attempt = claim.attempts,
        outcome,
        reason,
        "attempt {} of delivery {}: {reason}{but}",
        claim.attempts,
        claim.id,
    );
}

fn log_unrecorded(claim: &ClaimedDelivery, event: Option<&RenderedEvent>, why: &dyn Display) {
    error!(
        delivery.id = claim.id.as_str(),
        webhook.id = claim.subscription.as_str(),
        event.id = event.map(|event| &*event.event_id),
        trace.id = event.map(|event| &*event.trace_id),
        attempt = claim.attempts,
        error = %why,
        "the outcome of attempt {} of delivery {} cannot be recorded; it is attempted again: {why}",
        claim.attempts,
        claim.id
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<A, B, C, D, F: Future>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_task_of_a_delivery_is_small_while_it_waits() {
        let bytes = bytes(deliver);
        assert!(bytes < 3_500, "{bytes}");
    }
}

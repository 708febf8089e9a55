//! One delivery in flight: reads what is sent and to whom, attempts it, and books how the attempt ended.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep};
use tracing::{error, info, warn};

use super::attempt::{Attempted, Letter, Outcome, Unread, attempt};
use super::booker::Failure;
use super::inner::{ATTEMPT, CLAIM_MS, Inner, LAST_WAIT, POLL};
use super::permits::Permit;
use super::starts::Start;
use crate::admin::webhooks::sending::Receiver;
use crate::domain::ids::Partition;
use crate::driver::script::Counted;
use crate::store::StoreError;
use crate::store::dispatcher::attempts::{Booked, EndedAttempt, Ending};
use crate::store::dispatcher::deliveries::{ClaimedDelivery, EventPlace};
use crate::store::dispatcher::outbox::Target;

/// The pause before an outcome is booked again that Redis did not take.
const BOOK_AGAIN: Duration = Duration::from_millis(200);

/// Attempts a delivery, and then the next of its lane, until there is none. `start`: where first attempts of a lane overlap.
pub(super) async fn deliver(
    inner: Arc<Inner>,
    mut claim: ClaimedDelivery,
    mut start: Option<Start>,
    mut permit: Permit,
) {
    inner.metrics.in_flight.inc();
    loop {
        let until = Instant::now() + ATTEMPT;
        let letter = inner.letter(claim.place.as_ref()).await;
        if let Some(delay) = letter.as_ref().ok().and_then(|letter| letter.delay(&claim)) {
            inner.metrics.delay.observe(delay.as_secs_f64());
        }
        let attempted = match &letter {
            Err(unread) => unread.attempted(),
            Ok(letter) => inner.attempt(&claim, letter, (start.as_ref(), until)).await,
        };
        let letter = letter.ok();
        if let (Some(start), Outcome::Later(delay)) = (&start, &attempted.outcome) {
            start.put_off(*delay);
        }
        let next = inner.book(&claim, letter.as_deref(), attempted, &permit);
        match next.await {
            Some((next, start_of_next)) => {
                permit.pass_on(&next.id);
                start = start_of_next;
                claim = next;
            }
            None => break,
        }
    }
    inner.metrics.in_flight.dec();
}

impl Inner {
    /// The start of an attempt behind those of its lane; `None` where none of a lane overlap, and for retries.
    pub fn start_of(&self, claim: &ClaimedDelivery) -> Option<Start> {
        let overlaps = self.lane_concurrency > 1 && claim.failures == 0;
        overlaps.then(|| self.starts.next(&claim.lane))
    }

    /// Held while a call claims deliveries of a partition, until their starts are known; `None` where none overlap.
    pub async fn claiming(&self, partition: Partition) -> Option<MutexGuard<'_, ()>> {
        match self.lane_concurrency > 1 {
            true => Some(self.starts.claiming(partition).await),
            false => None,
        }
    }

    /// The event of a delivery.
    ///
    /// # Errors
    /// Why there is none to be sent.
    async fn letter(&self, place: Option<&EventPlace>) -> Result<Arc<Letter>, Unread> {
        let place = place.ok_or(Unread::Misplaced)?;
        // In the heap, as all reads of Redis here: most find it remembered, and each waits for its receiver with what it takes.
        let read = async { Box::pin(self.read_letter(place)).await };
        self.letters.get(place, read).await
    }

    async fn read_letter(&self, place: &EventPlace) -> Result<Letter, Unread> {
        let target = Target {
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
        let mut facts = facts.ok_or(Unread::OutOfReach)?.into_iter();
        let facts = facts.find(|(entry, _)| *entry == place.entry);
        let (_, facts) = facts.ok_or(Unread::Gone)?;
        Letter::of(place, &facts).ok_or(Unread::Unrenderable)
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
        letter: &Letter,
        when: (Option<&Start>, Instant),
    ) -> Attempted {
        let Ok(receiver) = self.receiver(claim).await else {
            return Attempted::new(Outcome::Later(POLL), "store_unavailable");
        };
        let attempted = attempt(
            (&self.webhooks, &self.rules),
            claim,
            receiver.as_deref(),
            letter,
            when,
        );
        let broken_off = async {
            self.shutdown.begun().await;
            sleep(LAST_WAIT).await;
        };
        tokio::select! {
            attempted = attempted => attempted,
            () = broken_off => Attempted::new(Outcome::Back, "shutdown"),
        }
    }

    /// Books what an attempt came to, until Redis has taken it or the claim is over. Returns the next delivery of the lane, and its
    /// start as of [`Inner::start_of`].
    async fn book(
        self: &Arc<Self>,
        claim: &ClaimedDelivery,
        letter: Option<&Letter>,
        attempted: Attempted,
        permit: &Permit,
    ) -> Option<(ClaimedDelivery, Option<Start>)> {
        let until = Instant::now() + Duration::from_millis(CLAIM_MS.unsigned_abs());
        let (partition, delay) = (claim.owner.partition(), attempted.outcome.delay());
        let failure = self.failure(claim, letter, &attempted).map(Box::new);
        let (outcome, reason) = (attempted.outcome.word(), attempted.reason);
        let ending = Arc::new(Ending {
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
            fields: Counted(attempted.fields),
        });
        loop {
            let booked = match &failure {
                None => self.end(partition, &ending).await,
                Some(failure) => Box::pin(self.end_failed(partition, &ending, failure)).await,
            };
            match booked {
                Ok((Booked::Ended(ended), start)) => {
                    let (outcome, reason) = match &*ended.outcome {
                        same if same == outcome => (same, reason),
                        // Its record was deleted.
                        "gone" => ("dropped", "damaged"),
                        other => (other, "subscription_inactive"),
                    };
                    self.count(outcome, reason);
                    log_booked(claim, letter, (outcome, reason));
                    self.note_ended(claim, &ended, delay);
                    return Some((ended.next?, start));
                }
                // It lapsed, and another dispatcher repeats the attempt.
                Ok((Booked::Lost, _)) => {
                    self.count("lost", reason);
                    log_booked(claim, letter, ("lost", reason));
                    return None;
                }
                Ok((Booked::Damaged(why), _)) => {
                    self.count("lost", reason);
                    self.reply_is_lost(partition);
                    log_unbooked(claim, letter, &why);
                    return None;
                }
                Err(failure) => {
                    self.reply_is_lost(partition);
                    let again = matches!(*failure, StoreError::Unavailable(_));
                    if !again || Instant::now() >= until {
                        self.count("lost", reason);
                        log_unbooked(claim, letter, &failure);
                        return None;
                    }
                    sleep(BOOK_AGAIN).await;
                }
            }
        }
    }

    /// Counts an attempt by what was booked of it.
    fn count(&self, outcome: &str, reason: &str) {
        let attempts = &self.metrics.attempts;
        attempts.with_label_values(&[outcome, reason]).inc();
    }

    /// What is to be told of a failure for good.
    fn failure(
        &self,
        claim: &ClaimedDelivery,
        letter: Option<&Letter>,
        attempted: &Attempted,
    ) -> Option<Failure> {
        let letter = letter.filter(|_| attempted.outcome == Outcome::Failed)?;
        Some(Failure {
            owner: claim.owner.clone(),
            context: letter.context(self.source),
            details: letter.details(claim, attempted).unwrap_or_default(),
        })
    }

    fn note_ended(&self, claim: &ClaimedDelivery, ended: &EndedAttempt, delay: Duration) {
        if ended.disabled {
            self.metrics.disabled.inc();
            let id = claim.subscription.as_str();
            warn!(
                webhook.id = id,
                "webhook `{id}` is disabled: too many deliveries failed in a row"
            );
        }
        if ended.left || !delay.is_zero() {
            self.look_again(claim.owner.partition(), delay);
            self.changed.look();
        }
    }
}

/// Logs an attempt with the outcome that was booked, and why. `letter`: where the event could be read.
fn log_booked(claim: &ClaimedDelivery, letter: Option<&Letter>, (outcome, reason): (&str, &str)) {
    let but = match outcome {
        "lost" => ", but its claim was lost, and this is not booked",
        _ => "",
    };
    info!(
        delivery.id = claim.id.as_str(),
        webhook.id = claim.subscription.as_str(),
        event.id = letter.map(|letter| &*letter.event_id),
        trace.id = letter.map(|letter| &*letter.trace_id),
        request.id = letter.and_then(|letter| letter.request_id.as_deref()),
        attempt = claim.attempts,
        outcome,
        reason,
        "attempt {} of delivery {}: {reason}{but}",
        claim.attempts,
        claim.id,
    );
}

fn log_unbooked(claim: &ClaimedDelivery, letter: Option<&Letter>, why: &dyn Display) {
    error!(
        delivery.id = claim.id.as_str(),
        webhook.id = claim.subscription.as_str(),
        event.id = letter.map(|letter| &*letter.event_id),
        trace.id = letter.map(|letter| &*letter.trace_id),
        attempt = claim.attempts,
        error = %why,
        "the outcome of attempt {} of delivery {} cannot be booked; it is attempted again: {why}",
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

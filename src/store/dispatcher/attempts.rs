//! `end_attempts.lua`: records how attempts of deliveries ended.

use redis::Cmd;

use super::deliveries::ClaimedDelivery;
use crate::domain::ids::Partition;
use crate::domain::webhook::{DeliveryId, SubscriptionId};
use crate::driver::reply::{FromReply, Reply};
use crate::driver::script::{self, Counted, Form};
use crate::store::signature::signature;
use crate::store::{Pair, StoreError};

/// How an attempt ended.
#[derive(Debug, Clone)]
pub(crate) struct AttemptEnd {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Of the claim.
    pub token: String,
    /// Its subscription.
    pub subscription: SubscriptionId,
    /// Its lane.
    pub lane: String,
    /// A word of the script.
    pub outcome: &'static str,
    /// After how long the delivery is attempted again.
    pub delay_ms: i64,
    /// Deliveries of the subscription that may be in flight with the next one of the lane; 0 to claim none.
    pub next_of_subscription: i64,
    /// Names and values for the record.
    pub fields: Counted<Vec<Pair>>,
}

impl script::Argument for AttemptEnd {
    const FORM: Form = Form::Rest;

    fn places(&self) -> usize {
        7 + self.fields.places()
    }

    fn push(&self, command: &mut Cmd) {
        self.delivery.push(command);
        self.token.push(command);
        self.subscription.push(command);
        self.lane.push(command);
        self.outcome.push(command);
        self.delay_ms.push(command);
        self.next_of_subscription.push(command);
        self.fields.push(command);
    }
}

/// A recorded end of an attempt, and what followed.
#[derive(Debug)]
pub(crate) struct RecordedEnd {
    /// The recorded outcome: `dropped` where the subscription is not as it was any more, `gone` where the record is.
    pub outcome: String,
    /// Whether the subscription was disabled.
    pub disabled: bool,
    /// Whether others may be attempted that were not claimed.
    pub left: bool,
    /// The next delivery of the lane.
    pub next: Option<ClaimedDelivery>,
}

/// Result of one of several ends.
#[derive(Debug)]
pub(crate) enum EndResult {
    /// It was recorded.
    Recorded(Box<RecordedEnd>),
    /// Another has the claim.
    Lost,
    /// It could not be recorded, or what followed from it cannot be read: a key, and what is wrong with it.
    Damaged(String),
}

impl FromReply for EndResult {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let mut row = reply.next_array()?;
        // A damaged one does not fail the others.
        let result = Self::read(&mut row);
        Ok(result.unwrap_or_else(|error| Self::Damaged(error.to_string())))
    }
}

impl EndResult {
    fn read(row: &mut Reply) -> Result<Self, StoreError> {
        let word = row.read::<String>()?;
        Ok(match &*word {
            "ended" => Self::Recorded(Box::new(RecordedEnd {
                outcome: row.read::<String>()?,
                disabled: FromReply::from_reply(row)?,
                left: FromReply::from_reply(row)?,
                next: Vec::from_reply(row)?.into_iter().next(),
            })),
            "lost" => Self::Lost,
            "damaged" => Self::Damaged(row.read::<String>()?),
            _ => return Err(row.unknown(&word)),
        })
    }
}

signature! {
    /// Records how attempts ended, for those that have the claims, and claims the next delivery of each one's lane. A final failure
    /// counts against the subscription, and disables it where there were too many in a row for long enough, or the receiver is gone;
    /// it is alone in its call.
    ///
    /// outcome: success; retry, after delay_ms; failed finally; dropped, which does not count; later, after delay_ms, where
    /// nothing was sent; back, the same for an attempt that was cancelled. A delivery whose subscription has changed its
    /// epoch fails unless it succeeded, and does not count.
    ///
    /// ends: an array for each attempt, in their order. lost: another has the claim by now. damaged: the key of another type because of which it was
    /// not recorded, and why; the others are. ended: the recorded outcome, whether the subscription was disabled, whether others may be
    /// attempted that were not claimed, and the claim of the next delivery.
    END_ATTEMPTS: EndAttempts -> EndAttemptsReply = "dispatcher/end_attempts", flags "allow-oom";
    names { partition: Partition, system: &'a str, fails: bool }
    keys of partition {
        write lanes(), claims(), claimed_lanes(), open: open_deliveries(), failing(), counts() when fails, tenant_key: tenant(owner) when fails,
            webhooks(owner) when fails, webhooks_mark(owner) when fails, watch(owner) when fails, thresholds() when fails,
            event_log: events(owner, day) when fails, system_log: events(system, day) when fails, outbox() when fails,
            days() when fails;
    }
    builds { read tenant(), webhooks_mark(); write delivery(), lane(), window(), webhook() }
    args {
        day,
        /// Of the subscription, where an attempt failed finally.
        owner: &'a str,
        /// The request cause of the events about that failure, lines of name and value.
        context: &'a str,
        /// Of the event about that failure, as JSON; '' for no event.
        details: &'a str,
        /// Address of a receiver that is gone, which disables a subscription that still has it; else ''.
        gone_url: &'a str,
        dispatcher: &'a str,
        claim_ms: i64,
        lane_concurrency: u32,
        stale_before_ms: Option<i64>,
        /// In order: the delivery, the token of its claim, its subscription and lane, outcome, delay_ms, how many of the subscription may be in flight with the
        /// next one of the lane, or 0 to claim none; a number of places, and in these names and values for the record.
        attempts: &'a [&'a AttemptEnd],
    }
    replies { clock, ended: Ended { ends: Vec<EndResult> } }
    writes "On ended: deliveries, their claims, lanes and windows; the subscriptions; on a failure that counts events."
}

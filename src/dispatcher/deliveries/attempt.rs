//! One attempt of a delivery: what is sent, and how it ends.

use std::time::Duration;

use hyper::body::Bytes;
use serde_json::json;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::rules::Rules;
use super::starts::Start;
use crate::admin::webhooks::Webhooks;
use crate::admin::webhooks::sending::{Limits, Receiver, ReceiverResponse, SendError, Told};
use crate::domain::event::StoredEvent;
use crate::domain::event::types::{EventType, category_of, is_tenant_visible};
use crate::domain::record::Record;
use crate::domain::webhook::{DeliveryId, RetryPolicy};
use crate::spans::{AttemptSpan, SpanCause};
use crate::store::Pair;
use crate::store::dispatcher::deliveries::{ClaimedDelivery, EventPlace};

/// Time limits of an attempt.
const LIMITS: Limits = Limits {
    connect: Duration::from_secs(5),
    total: Duration::from_secs(30),
};

/// How long a delivery waits whose address cannot be judged, because the rules cannot be read.
const UNJUDGED: Duration = Duration::from_secs(30);

/// How long one waits whose subscription's secrets cannot be opened.
const UNOPENED: Duration = Duration::from_secs(60);

/// How long one waits whose event cannot be read, since a node does not answer.
const UNREACHED: Duration = Duration::from_secs(1);

/// How long one waits while too many names are looked up.
const LOOK_UPS_BUSY: Duration = Duration::from_secs(1);

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The receiver has the event.
    Success,
    /// It failed, and is repeated after this long.
    Retry(Duration),
    /// It failed for good, and counts against the subscription.
    Failed,
    /// It can only fail, through no fault of the receiver.
    Dropped,
    /// Nothing was sent; it is looked at again after this long.
    Later(Duration),
    /// It was broken off, and another dispatcher may repeat it at once.
    Back,
}

impl Outcome {
    /// Its word in the script.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Retry(_) => "retry",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
            Self::Later(_) => "later",
            Self::Back => "back",
        }
    }

    /// After how long it goes on.
    pub fn delay(&self) -> Duration {
        match self {
            Self::Retry(delay) | Self::Later(delay) => *delay,
            _ => Duration::ZERO,
        }
    }
}

/// An attempt that has ended, as it is booked.
#[derive(Debug)]
pub(super) struct Attempted {
    pub outcome: Outcome,
    /// Names and values for the record.
    pub fields: Vec<Pair>,
    /// Why it came to that; a word for metrics.
    pub reason: &'static str,
}

impl Attempted {
    pub fn new(outcome: Outcome, reason: &'static str) -> Self {
        Self {
            outcome,
            fields: Vec::new(),
            reason,
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(field, _)| *field == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Of the response, if one came.
    fn status(&self) -> Option<i64> {
        self.field("response_status")?.parse().ok()
    }

    fn error(mut self, message: &str) -> Self {
        let message: String = message.chars().take(512).collect();
        self.fields.push(("error_message", message));
        self
    }
}

/// An event, ready to be sent.
pub(super) struct Letter {
    body: Bytes,
    at_ms: i64,
    pub event_id: String,
    event_type: String,
    pub request_id: Option<String>,
    pub trace_id: String,
    trace_flags: Option<String>,
}

impl Letter {
    /// The event that a place leads to; `None` where it cannot be rendered.
    pub fn of(place: &EventPlace, facts: &Record) -> Option<Self> {
        let entry = place.entry.to_string();
        let event = StoredEvent {
            partition: place.partition,
            tenant: &place.tenant,
            entry: &entry,
            facts,
        };
        let text = |name: &str| facts.get(name).map(str::to_owned);
        Some(Self {
            body: event.envelope().ok()?.into(),
            at_ms: facts.integer("at_ms").ok()?,
            event_id: event.event_id(),
            event_type: text("type")?,
            request_id: text("request_id"),
            trace_id: text("trace_id")?,
            trace_flags: text("trace_flags"),
        })
    }

    /// How long after the event a delivery was claimed for its first attempt; `None` for replays, and for others than the first.
    pub fn delay(&self, claim: &ClaimedDelivery) -> Option<Duration> {
        let partition = claim.owner.partition();
        let live = DeliveryId::of(partition, &self.event_id, &claim.subscription, None);
        let delay = u64::try_from(claim.claimed_ms - self.at_ms).unwrap_or(0);
        (claim.attempts == 1 && live == claim.id).then(|| Duration::from_millis(delay))
    }

    /// Memory that it takes, about.
    pub fn bytes(&self) -> u64 {
        let texts = self.event_id.len() + self.event_type.len() + self.trace_id.len();
        (self.body.len() + texts + 512) as u64
    }

    /// The cause of what follows from its delivery, lines of name and value.
    pub fn context(&self, source: &str) -> String {
        let mut lines = format!("source {source}\nactor system\ntrace_id {}", self.trace_id);
        if let Some(request_id) = &self.request_id {
            lines += &format!("\nrequest_id {request_id}");
        }
        lines
    }

    /// The details of the event about the failure of its delivery; `None` where that emits none.
    pub fn details(&self, claim: &ClaimedDelivery, attempted: &Attempted) -> Option<String> {
        if self.event_type == EventType::SystemWebhookDeliveryFailed.as_str() {
            return None;
        }
        let mut details = json!({
            "subscription_id": claim.subscription, "tenant_id": claim.owner, "delivery_id": claim.id,
            "event_id": self.event_id, "event_type": self.event_type, "attempts": claim.attempts,
        });
        if let Some(status) = attempted.status() {
            details["last_response_status"] = status.into();
        }
        if let Some(error) = attempted.field("error_message") {
            details["error"] = error.into();
        }
        Some(details.to_string())
    }

    fn told(&self, span: Option<&AttemptSpan>) -> Told<'_> {
        Told {
            event_id: &self.event_id,
            event_type: &self.event_type,
            request_id: self.request_id.as_deref(),
            trace_id: &self.trace_id,
            trace_flags: self.trace_flags.as_deref(),
            span_id: span.map(AttemptSpan::id),
        }
    }

    /// Logs that an attempt starts, before the next one of its lane may.
    fn log_start(&self, claim: &ClaimedDelivery) {
        debug!(
            delivery.id = claim.id.as_str(),
            webhook.id = claim.subscription.as_str(),
            event.id = self.event_id,
            trace.id = self.trace_id,
            attempt = claim.attempts,
            "attempt {} of delivery {} starts",
            claim.attempts,
            claim.id
        );
    }

    fn span(&self, claim: &ClaimedDelivery) -> Option<AttemptSpan> {
        let cause = SpanCause {
            trace_id: &self.trace_id,
            request_id: self.request_id.as_deref(),
            trace_flags: self.trace_flags.as_deref(),
        };
        let (delivery, webhook) = (claim.id.as_str(), claim.subscription.as_str());
        AttemptSpan::begin(cause, delivery, webhook, claim.attempts)
    }
}

/// Why there is nothing to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// The node of its log does not answer.
    OutOfReach,
    /// The record of the delivery does not say where it is.
    Misplaced,
    /// It is not in its log any more.
    Gone,
    /// It is there, and cannot be rendered.
    Unrenderable,
}

impl Unread {
    /// What a delivery comes to whose event cannot be read.
    pub fn attempted(self) -> Attempted {
        let dropped = |reason, message| Attempted::new(Outcome::Dropped, reason).error(message);
        match self {
            Self::OutOfReach => Attempted::new(Outcome::Later(UNREACHED), "store_unavailable"),
            Self::Misplaced => dropped("damaged", "The delivery is damaged"),
            Self::Gone => dropped("event_not_found", "The event is gone"),
            Self::Unrenderable => dropped("event_unreadable", "The event cannot be rendered"),
        }
    }
}

/// Attempts a delivery once, until then at most. `start`: of one that begins behind others of its lane.
pub(super) async fn attempt(
    (webhooks, rules): (&Webhooks, &Rules),
    claim: &ClaimedDelivery,
    receiver: Option<&Receiver>,
    letter: &Letter,
    (start, until): (Option<&Start>, Instant),
) -> Attempted {
    let Some(receiver) = receiver else {
        let id = claim.subscription.as_str();
        warn!(
            webhook.id = id,
            "the record or the secrets of webhook `{id}` cannot be read: its deliveries wait"
        );
        return Attempted::new(Outcome::Later(UNOPENED), "missing_signing_secret");
    };
    let is_visible = is_tenant_visible(&letter.event_type, category_of(&letter.event_type));
    if claim.owner.tenant().is_some() && !is_visible {
        return Attempted::new(Outcome::Dropped, "boundary").error("Tenants may not see the event");
    }
    // In the heap, since most share what another reads.
    let read = async { Box::pin(webhooks.policy()).await };
    let Some(policy) = rules.now(read).await else {
        return Attempted::new(Outcome::Later(UNJUDGED), "security_unreadable");
    };
    let target = match webhooks.admit(receiver, &policy).await {
        Ok(target) => target,
        Err(error) => return failed(error, receiver, claim),
    };
    if let Some(start) = start
        && let Err(delay) = start.wait().await
    {
        return Attempted::new(Outcome::Later(delay), "behind_another");
    }
    letter.log_start(claim);
    if let Some(start) = start {
        start.begin();
    }
    let span = letter.span(claim);
    let (told, body) = (letter.told(span.as_ref()), letter.body.clone());
    let sent = webhooks.send(receiver, &target, (&told, body), LIMITS, until);
    let attempted = match sent.await {
        Ok(posted) if posted.is_success() => {
            response(Attempted::new(Outcome::Success, "success"), posted)
        }
        Ok(posted) => {
            let attempted = retry(receiver, claim, class_of(posted.status));
            response(attempted, posted).error(&format!("HTTP {}", posted.status))
        }
        Err(error) => failed(error, receiver, claim),
    };
    if let Some(span) = span {
        span.end(attempted.status(), attempted.reason);
    }
    attempted
}

/// An attempt that failed, and is repeated if its subscription has retries left.
fn retry(receiver: &Receiver, claim: &ClaimedDelivery, reason: &'static str) -> Attempted {
    let policy = &receiver.subscription.retry_policy;
    let next = delay_after(policy, claim.failures + 1);
    Attempted::new(next.map_or(Outcome::Failed, Outcome::Retry), reason)
}

/// An attempt to which no response came.
fn failed(error: SendError, receiver: &Receiver, claim: &ClaimedDelivery) -> Attempted {
    let transport = |message: &str| retry(receiver, claim, "transport_error").error(message);
    match error {
        SendError::Refused => Attempted::new(Outcome::Dropped, "ssrf_blocked")
            .error("Webhook URL rejected by current security policy"),
        SendError::Busy => Attempted::new(Outcome::Later(LOOK_UPS_BUSY), "look_ups_busy"),
        SendError::Unresolvable => transport("Connection failed"),
        SendError::Post(error) => transport(&error.to_string()),
    }
}

fn response(mut attempted: Attempted, posted: ReceiverResponse) -> Attempted {
    attempted.fields.extend([
        ("response_status", posted.status.to_string()),
        ("response_time_ms", posted.took.as_millis().to_string()),
    ]);
    attempted
}

fn class_of(status: u16) -> &'static str {
    match status {
        300..400 => "http_3xx",
        400..500 => "http_4xx",
        _ => "http_5xx",
    }
}

/// The delay after so many failed attempts; `None` where there is no further one.
fn delay_after(policy: &RetryPolicy, failures: u32) -> Option<Duration> {
    if i64::from(failures) > policy.max_retries {
        return None;
    }
    let exponent = i32::try_from(failures).unwrap_or(i32::MAX) - 1;
    let delay = policy.initial_delay_ms as f64 * policy.backoff_multiplier.powi(exponent);
    let clamped = delay.min(policy.max_delay_ms as f64);
    Some(Duration::from_millis(clamped as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_up_to_their_bound_and_end_with_the_retries() {
        let policy = RetryPolicy::default();
        let delays: Vec<_> = (1..=6).map(|n| delay_after(&policy, n)).collect();
        let seconds = |n| Some(Duration::from_secs(n));
        let expected = [1, 2, 4, 8, 16].map(seconds);
        assert_eq!(delays[..5], expected);
        assert_eq!(delays[5], None);
        let steep = RetryPolicy {
            max_retries: 10,
            initial_delay_ms: 60_000,
            backoff_multiplier: 10.0,
            max_delay_ms: 1_000,
        };
        assert_eq!(delay_after(&steep, 10), seconds(1));
    }
}

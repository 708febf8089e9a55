//! One attempt of a delivery: what is sent, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::warn;

use super::host_rates::HostRates;
use super::rendered_event::RenderedEvent;
use super::start_order::StartTicket;
use crate::admin::webhooks::Webhooks;
use crate::admin::webhooks::sending::{Limits, Receiver, ReceiverResponse, SendError};
use crate::domain::event::types::{category_of, is_tenant_visible};
use crate::domain::webhook::RetryPolicy;
use crate::egress::{AdmissionError, SecurityPolicy};
use crate::store::dispatcher::deliveries::ClaimedDelivery;
use crate::store::{Pair, StoreError};

/// Time limits of an attempt.
const LIMITS: Limits = Limits {
    connect: Duration::from_secs(5),
    total: Duration::from_secs(30),
};

/// How long a delivery waits while the rules for addresses cannot be read.
const RULES_UNREADABLE_DELAY: Duration = Duration::from_secs(30);

/// How long a delivery waits while the secrets of its subscription cannot be decrypted.
const SECRETS_UNREADABLE_DELAY: Duration = Duration::from_secs(60);

/// How long a delivery waits while the store does not answer, or too many names are looked up.
const BUSY_DELAY: Duration = Duration::from_secs(1);

/// The status by which a receiver says that it is gone for good.
const GONE: u16 = 410;

/// Outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The receiver has the event.
    Success,
    /// It failed, and is repeated after this long.
    Retry(Duration),
    /// It failed finally, and counts against the subscription.
    Failed,
    /// It can only fail, through no fault of the receiver.
    Dropped,
    /// Nothing was sent; the delivery is due again after this long.
    Later(Duration),
    /// It was cancelled, and another dispatcher may repeat it at once.
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

    /// After how long the delivery is due again.
    pub fn delay(&self) -> Duration {
        match self {
            Self::Retry(delay) | Self::Later(delay) => *delay,
            _ => Duration::ZERO,
        }
    }
}

/// Result of an attempt, as it is recorded.
#[derive(Debug)]
pub(super) struct AttemptResult {
    pub outcome: Outcome,
    /// Names and values for the record.
    pub fields: Vec<Pair>,
    /// Reason of the outcome; a word for metrics.
    pub reason: &'static str,
    /// The address whose receiver said that it is gone for good, else empty.
    pub gone_url: String,
}

impl AttemptResult {
    pub fn new(outcome: Outcome, reason: &'static str) -> Self {
        Self {
            outcome,
            fields: Vec::new(),
            reason,
            gone_url: String::new(),
        }
    }

    /// The delivery can only fail.
    pub fn dropped(reason: &'static str, message: &str) -> Self {
        Self::new(Outcome::Dropped, reason).error(message)
    }

    /// Event or subscription could not be read.
    pub fn store_unavailable() -> Self {
        Self::new(Outcome::Later(BUSY_DELAY), "store_unavailable")
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(field, _)| *field == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Of the response, if one came.
    pub fn status(&self) -> Option<i64> {
        self.field("response_status")?.parse().ok()
    }

    fn error(mut self, message: &str) -> Self {
        let message: String = message.chars().take(512).collect();
        self.fields.push(("error_message", message));
        self
    }
}

/// Attempts a delivery once, and gives up at `until`. `ticket`: its place among overlapping attempts of the lane.
pub(super) async fn attempt(
    (webhooks, policies, rates): (&Webhooks, &PolicyReader, &HostRates),
    claim: &ClaimedDelivery,
    receiver: Option<&Receiver>,
    event: &RenderedEvent,
    (ticket, until): (Option<&StartTicket>, Instant),
) -> AttemptResult {
    let Some(receiver) = receiver else {
        let id = claim.subscription.as_str();
        warn!(
            webhook.id = id,
            "the record or the secrets of webhook `{id}` cannot be read: its deliveries wait"
        );
        return AttemptResult::new(
            Outcome::Later(SECRETS_UNREADABLE_DELAY),
            "missing_signing_secret",
        );
    };
    let is_visible = is_tenant_visible(&event.event_type, category_of(&event.event_type));
    if claim.owner.tenant().is_some() && !is_visible {
        return AttemptResult::dropped("boundary", "Tenants may not see the event");
    }
    // On the heap, since most share what another reads.
    let read = async { Box::pin(webhooks.policy()).await };
    let Some(policy) = policies.now(read).await else {
        return AttemptResult::new(
            Outcome::Later(RULES_UNREADABLE_DELAY),
            "security_unreadable",
        );
    };
    let target = match webhooks.admit(receiver, &policy).await {
        Ok(target) => target,
        Err(error) => return failed(error, receiver, claim),
    };
    if let Some(ticket) = ticket
        && let Err(delay) = ticket.wait().await
    {
        return AttemptResult::new(Outcome::Later(delay), "behind_another");
    }
    let tenant = claim.place.as_ref().map_or("", |place| &place.tenant);
    if let Err(pause) = rates.take(tenant, &target) {
        return AttemptResult::new(Outcome::Later(pause), "host_rate");
    }
    event.log_start(claim);
    if let Some(ticket) = ticket {
        ticket.start();
    }
    let span = event.span(claim);
    let (facts, body) = (event.headers(span.as_ref()), event.body.clone());
    let sent = webhooks.send(receiver, &target, (&facts, body), LIMITS, until);
    let result = match sent.await {
        Ok(posted) if posted.is_success() => {
            response(AttemptResult::new(Outcome::Success, "success"), posted)
        }
        Ok(posted) => {
            let class = class_of(posted.status);
            let result = match posted.status {
                GONE => AttemptResult {
                    gone_url: receiver.subscription.url.clone(),
                    ..AttemptResult::new(Outcome::Failed, class)
                },
                status => {
                    let requested = posted.retry_after.filter(|_| matches!(status, 429 | 503));
                    let now_ms = webhooks.store().clock().now_ms();
                    let requested = requested.map(|requested| requested.pause(now_ms));
                    retry(receiver, claim, class, requested.unwrap_or_default())
                }
            };
            response(result, posted).error(&format!("HTTP {}", posted.status))
        }
        Err(error) => failed(error, receiver, claim),
    };
    if let Some(span) = span {
        span.end(result.status(), result.reason);
    }
    result
}

/// An attempt that failed, and is repeated if its subscription has retries left. `requested`: for how long the receiver asks to wait.
fn retry(
    receiver: &Receiver,
    claim: &ClaimedDelivery,
    reason: &'static str,
    requested: Duration,
) -> AttemptResult {
    let policy = &receiver.subscription.retry_policy;
    let longest = Duration::from_millis(policy.max_delay_ms.unsigned_abs());
    let next =
        delay_after(policy, claim.failures + 1).map(|delay| delay.max(requested.min(longest)));
    AttemptResult::new(next.map_or(Outcome::Failed, Outcome::Retry), reason)
}

/// An attempt to which no response came.
fn failed(error: SendError, receiver: &Receiver, claim: &ClaimedDelivery) -> AttemptResult {
    use AdmissionError::{BlockedHost, Busy, Unresolvable, Violation};
    let reason = "transport_error";
    let transport = |message: &str| retry(receiver, claim, reason, Duration::ZERO).error(message);
    match error {
        SendError::NotAdmitted(Violation(_) | BlockedHost) => AttemptResult::dropped(
            "ssrf_blocked",
            "Webhook URL rejected by current security policy",
        ),
        SendError::NotAdmitted(Busy) => {
            AttemptResult::new(Outcome::Later(BUSY_DELAY), "look_ups_busy")
        }
        SendError::NotAdmitted(Unresolvable) => transport("Connection failed"),
        SendError::Post(error) => transport(&error.to_string()),
    }
}

fn response(mut result: AttemptResult, posted: ReceiverResponse) -> AttemptResult {
    result.fields.extend([
        ("response_status", posted.status.to_string()),
        ("response_time_ms", posted.took.as_millis().to_string()),
    ]);
    result
}

fn class_of(status: u16) -> &'static str {
    match status {
        300..400 => "http_3xx",
        400..500 => "http_4xx",
        _ => "http_5xx",
    }
}

/// The delay after a number of failed attempts; `None` where there is no further one.
fn delay_after(policy: &RetryPolicy, failures: u32) -> Option<Duration> {
    if i64::from(failures) > policy.max_retries {
        return None;
    }
    let exponent = i32::try_from(failures).unwrap_or(i32::MAX) - 1;
    let delay = policy.initial_delay_ms as f64 * policy.backoff_multiplier.powi(exponent);
    let clamped = delay.min(policy.max_delay_ms as f64);
    Some(Duration::from_millis(clamped as u64))
}

/// Reads the rules. Nothing is cached: each reading is for those who asked before it started.
#[derive(Default)]
pub(super) struct PolicyReader {
    last: Mutex<Option<Reading>>,
}

struct Reading {
    started: Instant,
    /// `None` where they could not be read.
    policy: Option<Arc<SecurityPolicy>>,
}

impl PolicyReader {
    /// The rules as they are now or in a moment; `None` where they cannot be read.
    pub async fn now(
        &self,
        read: impl Future<Output = Result<SecurityPolicy, StoreError>>,
    ) -> Option<Arc<SecurityPolicy>> {
        let called = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.started > called) {
            return last.policy.clone();
        }
        let started = Instant::now();
        let policy = match read.await {
            Ok(policy) => Some(Arc::new(policy)),
            Err(failure) => {
                // The first of a series.
                if last.as_ref().is_none_or(|last| last.policy.is_some()) {
                    warn!(error = %failure, "deliveries wait, because the rules for addresses cannot be read: {failure}");
                }
                None
            }
        };
        let reading = Reading { started, policy };
        last.insert(reading).policy.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::task::Poll;

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

    fn rules(allow_http: bool) -> SecurityPolicy {
        SecurityPolicy {
            blocked: Vec::new(),
            patterns: Vec::new(),
            allow_http,
        }
    }

    #[tokio::test]
    async fn a_call_during_a_read_waits_for_the_next_read() {
        let (reader, stored, reads) = (
            PolicyReader::default(),
            AtomicBool::new(false),
            AtomicU64::new(0),
        );
        let ask = || {
            reader.now(async {
                reads.fetch_add(1, Ordering::Relaxed);
                let found = rules(stored.load(Ordering::Relaxed));
                tokio::task::yield_now().await;
                Ok(found)
            })
        };
        let mut first = Box::pin(ask());
        assert!(
            std::future::poll_fn(|context| Poll::Ready(first.as_mut().poll(context)))
                .await
                .is_pending()
        );
        // It was read already.
        stored.store(true, Ordering::Relaxed);
        let later = async { tokio::join!(ask(), ask(), ask(), ask()) };
        let (first, later) = tokio::join!(first, later);
        assert!(!first.expect("rules").allow_http);
        for policy in [later.0, later.1, later.2, later.3] {
            assert!(policy.expect("rules").allow_http);
        }
        // The first of them reads at once, and the others share the reading behind it.
        assert_eq!(reads.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_cancelled_or_failed_read_does_not_stop_the_next() {
        let reader = PolicyReader::default();
        let mut given_up = Box::pin(reader.now(std::future::pending()));
        assert!(
            std::future::poll_fn(|context| Poll::Ready(given_up.as_mut().poll(context)))
                .await
                .is_pending()
        );
        drop(given_up);
        let failed = reader.now(async { Err(StoreError::Corrupt("rules".to_owned())) });
        assert!(failed.await.is_none());
        assert!(reader.now(async { Ok(rules(true)) }).await.is_some());
    }
}

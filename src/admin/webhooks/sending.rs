//! Sends one signed event to the receiver of a subscription: for tests and for deliveries.

use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret;
use tokio::time::Instant;

use super::{Secrets, Webhooks};
use crate::domain::record::Record;
use crate::domain::webhook::sign;
use crate::domain::webhook::{DEFAULT_FLAGS, Subscription, SubscriptionId};
use crate::egress::{AdmissionError, AdmittedUrl, OutgoingRequest, PostError, SecurityPolicy};
pub(crate) use crate::egress::{Limits, ReceiverResponse};

/// What the headers say about an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventHeaders<'a> {
    pub event_id: &'a str,
    pub event_type: &'a str,
    pub request_id: Option<&'a str>,
    pub trace_id: &'a str,
    /// Of the request that caused it, where these were valid.
    pub trace_flags: Option<&'a str>,
    /// The sender's span; a random one if `None`.
    pub span_id: Option<u64>,
}

/// A subscription with its decrypted secrets.
pub(crate) struct Receiver {
    pub subscription: Subscription,
    pub(super) secrets: Secrets,
}

/// Why nothing was sent, or no response came.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The address is not admitted.
    NotAdmitted(AdmissionError),
    /// There was no response.
    Post(PostError),
}

impl Webhooks {
    /// The receiver of a subscription whose record was read. `None` where its secrets cannot be opened.
    pub(crate) fn receiver(&self, id: &SubscriptionId, record: &Record) -> Option<Receiver> {
        Some(Receiver {
            subscription: Subscription::from_record(record).ok()?,
            secrets: self.open_secrets(id.as_str(), record).ok()?,
        })
    }

    /// The address of a receiver, checked by the rules as they are now. It is for one exchange, at once.
    ///
    /// # Errors
    /// [`SendError`], but never [`SendError::Post`].
    pub(crate) async fn admit(
        &self,
        receiver: &Receiver,
        policy: &SecurityPolicy,
    ) -> Result<AdmittedUrl, SendError> {
        let subscription = &receiver.subscription;
        let owner = subscription.owner.as_str();
        let admitted = self.egress.admit(&subscription.url, policy, owner).await;
        admitted.map_err(SendError::NotAdmitted)
    }

    /// Sends an event to an address that was checked, and to no other. The exchange ends at `until` at the latest, whatever the
    /// look-up of the name has taken.
    ///
    /// # Errors
    /// [`SendError::Post`]; or [`AdmissionError::Busy`] where the look-up has left no time.
    pub(crate) async fn send(
        &self,
        receiver: &Receiver,
        url: &AdmittedUrl,
        (facts, body): (&EventHeaders<'_>, Bytes),
        limits: Limits,
        until: Instant,
    ) -> Result<ReceiverResponse, SendError> {
        let headers = self.headers(&receiver.secrets, facts, &body);
        let outgoing = OutgoingRequest { headers, body };
        let id = receiver.subscription.subscription_id.as_str();
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(SendError::NotAdmitted(AdmissionError::Busy));
        }
        let limits = Limits {
            total: limits.total.min(left),
            ..limits
        };
        let response = self.egress.post(Some(id), url, outgoing, limits).await;
        response.map_err(SendError::Post)
    }

    /// The headers of a delivery. A custom one never takes the place of one of the service's.
    pub(super) fn headers(
        &self,
        secrets: &Secrets,
        facts: &EventHeaders<'_>,
        body: &[u8],
    ) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut insert = |name: &str, value: &str| {
            let name = HeaderName::try_from(name);
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
                headers.insert(name, value);
            }
        };
        let words = &self.words;
        let agent = format!("{}/{}", words.delivery_agent, env!("CARGO_PKG_VERSION"));
        let signature = sign(secrets.signing_secret.expose_secret(), body);
        let drawn = || 1 + rand::random::<u64>() % (u64::MAX - 1);
        let span = facts.span_id.unwrap_or_else(drawn);
        let flags = facts.trace_flags.unwrap_or(DEFAULT_FLAGS);
        let traceparent = format!("00-{}-{span:016x}-{flags}", facts.trace_id);
        insert("content-type", "application/json");
        insert("user-agent", &agent);
        insert(words.event_id_header, facts.event_id);
        insert(words.event_type_header, facts.event_type);
        insert(words.signature_header, &signature);
        insert(words.trace_header, facts.trace_id);
        insert("traceparent", &traceparent);
        if let Some(request_id) = facts.request_id {
            insert("x-request-id", request_id);
        }
        for (name, value) in &secrets.headers {
            let value = HeaderValue::from_str(value.expose_secret());
            let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name.as_str()), value) else {
                continue;
            };
            value.set_sensitive(true);
            headers.entry(name).or_insert(value);
        }
        headers
    }
}

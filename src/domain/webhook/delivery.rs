//! Deliveries as they are recorded, and their signature.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::{ReplayId, SubscriptionId};
use crate::domain::event::types::EventTypeName;
use crate::domain::event::{EventId, tenant_digest};
use crate::domain::fields::object;
use crate::domain::ids::{Partition, TRACE_ID_PATTERN, hex, hmac_sha256, text_id};
use crate::domain::log_entry::EntryId;
use crate::domain::moment::Moment;
use crate::domain::record::{Record, RecordError};
use crate::domain::words::words;

words! {
    /// Status of a delivery.
    DeliveryStatus: "SCREAMING_SNAKE_CASE" {
        /// Its first attempt is to come.
        Pending,
        /// The receiver has taken it.
        Success,
        /// It was given up.
        Failed,
        /// Another attempt is to come.
        Retrying,
    }
}

text_id! {
    /// Names a delivery: `dlv_05f_` and 22 characters of base64url, which follow from event, subscription and replay. So the same
    /// delivery cannot be queued twice.
    DeliveryId
}

impl DeliveryId {
    /// The id of the delivery of an event to a subscription whose owner lies in `partition`.
    pub fn of(
        partition: Partition,
        event_id: &str,
        subscription: &SubscriptionId,
        replay: Option<&ReplayId>,
    ) -> Self {
        let replay = replay.map_or("", ReplayId::as_str);
        let named = Sha256::digest(format!("{event_id}\n{subscription}\n{replay}"));
        let digest = BASE64_URL_SAFE_NO_PAD.encode(&named[..16]);
        Self(format!("dlv_{partition}_{digest}").into())
    }

    /// As it was stored.
    pub fn from_stored(text: String) -> Self {
        Self(text.into())
    }
}

object! {
    /// The delivery of one event to one subscription.
    #[derive(Debug, Clone)]
    pub struct Delivery as "WebhookDelivery": Serialize {
        /// Id of the delivery.
        pub delivery_id: String,
        /// Subscription that the event is delivered to.
        pub subscription_id: String,
        /// Event that is delivered.
        pub event_id: String,
        /// Type of the event.
        pub event_type: Option<EventTypeName>,
        /// Status.
        pub status: DeliveryStatus,
        /// When it was queued.
        pub attempted_at: Moment,
        /// When it ended.
        pub completed_at: Option<Moment>,
        /// Attempts begun.
        pub attempts: Option<i64>,
        /// Status of the last response.
        pub response_status: Option<i64>,
        /// How long the last attempt took, in milliseconds.
        pub response_time_ms: Option<i64>,
        /// Last error.
        pub error_message: Option<String>,
        /// When the next attempt is due.
        pub next_retry_at: Option<Moment>,
        /// Trace of the event.
        pub trace_id: Option<String> { keyword: TRACE_ID_PATTERN },
        /// Trace flags of the request that caused the event.
        pub trace_flags: Option<String> { keyword: ("pattern", || "^[0-9a-f]{2}$".into()) },
        /// Whether that request had a valid `traceparent`.
        pub traceparent_inbound_valid: Option<bool>,
    }
}

impl Delivery {
    /// Reads a record.
    ///
    /// # Errors
    /// [`RecordError`] names the field that is missing or unreadable.
    pub fn from_stored(id: &str, record: &Record) -> Result<Self, RecordError> {
        let event = event_of(record.text("place")?).ok_or_else(|| RecordError::of("place"))?;
        let mut trace = record.text("trace")?.splitn(2, ' ');
        let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        let (trace_id, flags) = (text(trace.next()), text(trace.next()));
        Ok(Self {
            delivery_id: id.to_owned(),
            subscription_id: record.text("subscription")?.to_owned(),
            event_id: event.to_string(),
            event_type: record.optional("type")?,
            status: record
                .optional("status")?
                .unwrap_or(DeliveryStatus::Pending),
            attempted_at: record.read("at_ms")?,
            completed_at: record.optional("completed_at_ms")?,
            attempts: Some(record.optional("attempts")?.unwrap_or(0)),
            response_status: record.optional("response_status")?,
            response_time_ms: record.optional("response_time_ms")?,
            error_message: record.optional("error_message")?,
            next_retry_at: record.optional("next_retry_at_ms")?,
            traceparent_inbound_valid: Some(flags.is_some()),
            trace_flags: Some(flags.unwrap_or_else(|| DEFAULT_FLAGS.to_owned())),
            trace_id,
        })
    }
}

/// The trace of a delivery's event: the trace id, and behind a blank the flags, where the request had valid ones.
///
/// # Errors
/// [`RecordError`] where the facts have no trace.
pub fn trace_of(facts: &Record) -> Result<String, RecordError> {
    let trace_id = facts.text("trace_id")?;
    let flags = facts.get("trace_flags");
    Ok(flags.map_or_else(
        || trace_id.to_owned(),
        |flags| format!("{trace_id} {flags}"),
    ))
}

/// The flags that are sent where the request that caused the event had none.
pub const DEFAULT_FLAGS: &str = "01";

/// The event at a place: partition, tenant, day and entry.
fn event_of(place: &str) -> Option<EventId> {
    let mut words = place.split(' ');
    let partition = Partition::parse(words.next()?)?;
    let digest = tenant_digest(words.next()?);
    let entry = EntryId::parse(words.nth(1)?)?;
    Some(EventId {
        partition,
        digest,
        entry,
    })
}

/// `sha256=` and the HMAC-SHA256 of the exact bytes of a body, in lower-case hexadecimal. The key is the secret's text as
/// it was shown, its `whsec_` included.
pub fn sign(secret: &str, body: &[u8]) -> String {
    let digest = hmac_sha256(secret.as_bytes(), &[body]);
    format!("sha256={}", hex(&digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_the_published_ones() {
        let expected = "sha256=975bc3b147f8f1205d172ebd3f2af8abce71bf0af896df250cf240411d7476b1";
        assert_eq!(sign("s3cret", r#"{"note":"café"}"#.as_bytes()), expected);
        let body = concat!(
            r#"{"event_id":"evt_0a1b2c3d4e5f6071","event_type":"budget.exhausted","category":"budget","#,
            r#""timestamp":"2026-04-09T14:05:06.789Z","tenant_id":"acme","scope":"tenant:acme/app:chat","#,
            r#""source":"service-server","actor":{"type":"api_key","key_id":"key_01","source_ip":"203.0.113.7"},"#,
            r#""data":{"scope":"tenant:acme/app:chat","unit":"TOKENS","threshold":1.0,"utilization":1.0,"#,
            r#""allocated":1500,"remaining":0,"spent":0,"reserved":1500,"direction":"rising"},"#,
            r#""correlation_id":"runtime:215bc7ed42878647e783e0ae95b4c77b","request_id":"req-01","#,
            r#""trace_id":"5b8efff798038103d269b633813fc60c"}"#
        );
        assert_eq!(body.len(), 569);
        let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        let expected = "sha256=84372e1029d15e801da83d43e886c441369d03c99c0765d81a3f8e42f6d1af7e";
        assert_eq!(sign(secret, body.as_bytes()), expected);
    }
}

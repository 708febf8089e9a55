//! Deliveries as they are recorded.

use crate::domain::moment::Moment;
use crate::domain::record::{Record, RecordError};
use crate::domain::words::words;

words! {
    /// What has become of a delivery.
    DeliveryStatus {
        /// Its first attempt is to come.
        Pending = "PENDING",
        /// The receiver has taken it.
        Success = "SUCCESS",
        /// It was given up.
        Failed = "FAILED",
        /// Another attempt is to come.
        Retrying = "RETRYING",
    }
}

/// The delivery of one event to one subscription.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Names it.
    pub delivery_id: String,
    /// To whom.
    pub subscription_id: String,
    /// Of what.
    pub event_id: String,
    /// The event's type.
    pub event_type: Option<String>,
    /// What has become of it.
    pub status: DeliveryStatus,
    /// When it was queued.
    pub attempted_at: Moment,
    /// When it came to its end.
    pub completed_at: Option<Moment>,
    /// Attempts begun.
    pub attempts: Option<i64>,
    /// Status of the last answer.
    pub response_status: Option<i64>,
    /// How long the last attempt took.
    pub response_time_ms: Option<i64>,
    /// What went wrong last.
    pub error_message: Option<String>,
    /// When it is tried again.
    pub next_retry_at: Option<Moment>,
    /// The event's trace.
    pub trace_id: Option<String>,
    /// The flags of the request that caused the event.
    pub trace_flags: Option<String>,
    /// Whether that request had a valid `traceparent`.
    pub traceparent_inbound_valid: Option<bool>,
}

impl Delivery {
    /// Reads the stored fields.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn from_record(delivery_id: &str, record: &Record) -> Result<Self, RecordError> {
        let text = |name: &str| record.get(name).map(str::to_owned);
        Ok(Self {
            delivery_id: delivery_id.to_owned(),
            subscription_id: record.text("subscription_id")?.to_owned(),
            event_id: record.text("event_id")?.to_owned(),
            event_type: text("event_type"),
            status: record.word("status", DeliveryStatus::parse)?,
            attempted_at: record.moment("attempted_at_ms")?,
            completed_at: record.optional_moment("completed_at_ms")?,
            attempts: record.optional_integer("attempts")?,
            response_status: record.optional_integer("response_status")?,
            response_time_ms: record.optional_integer("response_time_ms")?,
            error_message: text("error_message"),
            next_retry_at: record.optional_moment("next_retry_at_ms")?,
            trace_id: text("trace_id"),
            trace_flags: text("trace_flags"),
            traceparent_inbound_valid: record
                .get("traceparent_inbound_valid")
                .map(|flag| flag == "1"),
        })
    }
}

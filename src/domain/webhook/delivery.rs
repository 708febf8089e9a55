//! Deliveries as they are recorded.

use crate::domain::event::types::EventTypeName;
use crate::domain::fields::object;
use crate::domain::ids::TRACE_ID_PATTERN;
use crate::domain::moment::Moment;
use crate::domain::words::words;

words! {
    /// Status of a delivery.
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

object! {
    /// The delivery of one event to one subscription.
    #[derive(Debug, Clone)]
    pub struct Delivery as "WebhookDelivery": Serialize + Recorded {
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
        pub attempted_at: Moment { field: "attempted_at_ms" },
        /// When it ended.
        pub completed_at: Option<Moment> { field: "completed_at_ms" },
        /// Attempts begun.
        pub attempts: Option<i64>,
        /// Status of the last response.
        pub response_status: Option<i64>,
        /// How long the last attempt took, in milliseconds.
        pub response_time_ms: Option<i64>,
        /// Last error.
        pub error_message: Option<String>,
        /// When the next attempt is due.
        pub next_retry_at: Option<Moment> { field: "next_retry_at_ms" },
        /// Trace of the event.
        pub trace_id: Option<String> { keyword: TRACE_ID_PATTERN },
        /// Trace flags of the request that caused the event.
        pub trace_flags: Option<String> { keyword: ("pattern", || "^[0-9a-f]{2}$".into()) },
        /// Whether that request had a valid `traceparent`.
        pub traceparent_inbound_valid: Option<bool>,
    }
}

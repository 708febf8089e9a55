//! Refusals of operations on webhook subscriptions.

/// Why a subscription is not created, shown, changed or used. The id is as sent; it may be malformed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookRefusal {
    /// There is no such subscription.
    NotFound(String),
    /// Its address is not admitted, for this reason.
    UrlNotAdmitted(String),
    /// It would select nothing.
    NothingSelected,
    /// A tenant's subscription would select this, which tenants may not see.
    HiddenSelector(String),
    /// The mask stands for the value of this header, which has none to keep.
    MaskedHeader(String),
    /// It is disabled, so it cannot be paused, only activated.
    PauseOfDisabled(String),
    /// A replay of it is being queued.
    ReplayInProgress(String),
    /// More events match than the request allows, or more must be examined than one replay may.
    TooManyToReplay {
        /// The bound that was exceeded.
        bound: usize,
        /// Whether it is the `max_events` of the request.
        is_max_events: bool,
    },
    /// It was tested too often in this minute.
    TestedTooOften {
        /// How long until it may be tested again, in milliseconds.
        retry_in_ms: i64,
        /// From when on, on the store's clock, in milliseconds.
        until_ms: i64,
    },
    /// Others changed it each time that it was about to be changed.
    Contended(String),
}

//! The request that delivers events again.

use crate::domain::event::types::EventTypeName;
use crate::domain::fields::object;
use crate::domain::moment::Moment;

object! {
    /// Delivers events again.
    #[derive(Debug)]
    pub struct WebhookReplay: Read + Open {
        /// Start of the time from which events are taken.
        pub from: Option<Moment>,
        /// End of the time from which events are taken.
        pub to: Option<Moment>,
        /// Event types besides those that the subscription selects.
        pub event_types: Option<Vec<EventTypeName>> { unpublished_items: ..=100 },
        /// Most events; where more match, none is delivered.
        pub max_events: i64 { range: 1..=1_000, default: 100 },
    }
}

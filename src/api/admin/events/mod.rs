//! The HTTP operations on events.

pub mod get;
pub mod list;
pub mod list_own;

use crate::api::list::list_response;
use crate::domain::event::Event;
use crate::domain::fields::Rendered;
use crate::listing::{Page, readable};

list_response! {
    /// A page of events.
    EventListResponse: Open {
        /// The events, in order.
        events: Rendered<Event>,
        has_more {}
    }
}

/// The page with the JSON of its events.
fn rendered<K>(page: Page<String, K>) -> Page<Rendered<Event>, K> {
    page.filter_map(|json| readable("event", "of a page", Rendered::new(json)))
}

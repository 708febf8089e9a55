//! Events.

pub mod get;
pub mod list;
pub mod list_own;
pub mod queries;

use crate::api::errors::ApiError;
use crate::api::list::list_response;
use crate::domain::event::Event;
use crate::domain::fields::Rendered;

list_response! {
    /// A page of events.
    EventListResponse: Open {
        /// The events, in order.
        events: Rendered<Event>,
        has_more {}
    }
}

fn response(
    events: Vec<String>,
    next_cursor: Option<String>,
) -> Result<EventListResponse, ApiError> {
    let events: Result<_, _> = events.into_iter().map(Rendered::new).collect();
    let events = events.map_err(ApiError::internal)?;
    Ok(EventListResponse::new(events, next_cursor))
}

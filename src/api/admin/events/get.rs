//! Gets an event.

use axum::extract::State;

use crate::api::admin::extract::PathId;
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::event::Event;
use crate::domain::fields::Rendered;

pub(in crate::api) const DECLARATION: Declaration = declare!(get_event, "Gets an event")
    .returns::<Event>(200, "The event.")
    .refuses(&[404]);

async fn get_event(State(state): State<AppState>, PathId(id): PathId) -> Returns<Rendered<Event>> {
    let event = state.events.get(&id).await?;
    let event = Rendered::new(event).map_err(ApiError::internal)?;
    Ok(CheckedJson::ok(event))
}

//! Shows an event.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;

use crate::api::admin::extract::PathId;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, json, parameters};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::event::Event;
use crate::domain::fields::Rendered;

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Shows an event",
    parameters: || {
        vec![parameters::path(
            "event_id",
            "Names the event.",
            parameters::text(),
        )]
    },
    request: None,
    responses: &[json::<Event>(200, "The event.")],
    errors: &[404],
    handler: |method| on(method, get_event),
};

async fn get_event(State(state): State<AppState>, PathId(id): PathId) -> Returns<Rendered<Event>> {
    let context = ErrorContext {
        event: &id,
        ..ErrorContext::default()
    };
    let event = state.events.get(&id).await;
    let event = event.map_err(|error| error_of(error, &context))?;
    let event = Rendered::new(event).map_err(ApiError::internal)?;
    Ok(CheckedJson(StatusCode::OK, event))
}

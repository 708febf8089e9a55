//! Shows a webhook subscription.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;

use super::{error_of, subscription_id};
use crate::api::admin::extract::PathId;
use crate::api::operation::{Declaration, json};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::webhook::Subscription;

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Shows a webhook subscription",
    parameters: || vec![subscription_id()],
    request: None,
    responses: &[json::<Subscription>(200, "The subscription.")],
    errors: &[404],
    handler: |method| on(method, get_webhook),
};

async fn get_webhook(
    State(state): State<AppState>,
    caller: Caller,
    PathId(id): PathId,
) -> Returns<Subscription> {
    let found = state.webhooks.get(&caller, &id).await;
    let found = found.map_err(|error| error_of(error, "", &id))?;
    Ok(CheckedJson(StatusCode::OK, found))
}

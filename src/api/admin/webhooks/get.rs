//! Gets a webhook subscription.

use axum::extract::State;

use crate::api::admin::extract::PathId;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::webhook::Subscription;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(get_webhook, "Gets a webhook subscription")
        .returns::<Subscription>(200, "The subscription.")
        .refuses(&[404]);

async fn get_webhook(
    State(state): State<AppState>,
    caller: Caller,
    PathId(id): PathId,
) -> Returns<Subscription> {
    let found = state.webhooks.get(&caller, &id).await?;
    Ok(CheckedJson::ok(found))
}

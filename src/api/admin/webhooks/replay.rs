//! Queues past events to be delivered again.

use axum::extract::State;
use axum::http::StatusCode;

use crate::admin::webhooks::ReplayResponse;
use crate::api::admin::extract::{AdminJson, PathId};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::webhook::WebhookReplay;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    replay_events,
    "Queues past events to be delivered again; delivery is not built yet"
)
.takes::<WebhookReplay>()
.returns::<ReplayResponse>(202, "What was queued.")
.refuses(&[404, 409]);

async fn replay_events(
    State(state): State<AppState>,
    caller: Caller,
    cause: Cause,
    PathId(id): PathId,
    AdminJson(replay): AdminJson<WebhookReplay>,
) -> Returns<ReplayResponse> {
    let queued = state.webhooks.replay(&caller, &id, &replay, &cause);
    Ok(CheckedJson(StatusCode::ACCEPTED, queued.await?))
}

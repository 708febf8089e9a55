//! Queues past events to be delivered again.

use axum::extract::State;
use axum::http::StatusCode;

use super::ReplayResponse;
use super::requests::WebhookReplay;
use crate::admin::webhooks::Replay;
use crate::api::admin::extract::{AdminJson, PathId};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::moment::Window;

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
    AdminJson(sent): AdminJson<WebhookReplay>,
) -> Returns<ReplayResponse> {
    let replay = Replay {
        window: Window {
            from_ms: sent.from.map(|from| from.as_ms()),
            to_ms: sent.to.map(|to| to.as_ms()),
        },
        event_types: sent.event_types,
        max_events: usize::try_from(sent.max_events).unwrap_or(1),
    };
    let queued = state.webhooks.replay(&caller, &id, &replay, &cause).await?;
    let events = i64::try_from(queued.events_queued).unwrap_or(i64::MAX);
    let response = ReplayResponse {
        replay_id: queued.replay_id.to_string(),
        events_queued: events,
        estimated_completion_seconds: if events == 0 { 0 } else { (events / 10).max(1) },
    };
    Ok(CheckedJson(StatusCode::ACCEPTED, response))
}

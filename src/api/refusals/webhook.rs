//! Refusals of operations on webhook subscriptions.

use axum::http::StatusCode;
use serde_json::json;

use crate::api::errors::{ApiError, Code};
use crate::domain::printable::printable;
use crate::domain::refusal::WebhookRefusal;

impl From<WebhookRefusal> for ApiError {
    fn from(refusal: WebhookRefusal) -> Self {
        use WebhookRefusal as R;
        match refusal {
            R::NotFound(id) => Self::new(
                StatusCode::NOT_FOUND,
                Code::WebhookNotFound,
                format!("There is no webhook {}", printable(&id)),
            ),
            R::UrlNotAdmitted(why) => Self::new(
                StatusCode::BAD_REQUEST,
                Code::WebhookUrlInvalid,
                format!("Validation failed: url: {why}"),
            )
            .with_details(json!({"field": "url"})),
            R::NothingSelected => Self::invalid(
                "Validation failed: event_types: the webhook must retain at least one event type or event category",
            ),
            R::HiddenSelector(hidden) => Self::invalid(format!(
                "Validation failed: event_types: {} is for webhooks of the operator; a tenant's may have the types and \
                 categories of budget, reservation and tenant",
                printable(&hidden)
            )),
            R::MaskedHeader(name) => Self::invalid(format!(
                "Validation failed: headers.{}: the mask keeps a value, and there is none to be kept",
                printable(&name)
            )),
            R::PauseOfDisabled(_) => Self::invalid(
                "Validation failed: status: a disabled webhook can be set ACTIVE, not PAUSED",
            ),
            R::ReplayInProgress(id) => Self::conflict(
                Code::ReplayInProgress,
                format!("A replay of the webhook {} is in progress", printable(&id)),
            ),
            R::TooManyToReplay {
                bound,
                is_max_events: true,
            } => Self::invalid(format!(
                "Validation failed: max_events: more than {bound} events match; none was queued; \
                 narrow from, to or event_types"
            )),
            R::TooManyToReplay {
                bound,
                is_max_events: false,
            } => Self::invalid(format!(
                "Validation failed: from: the window holds more than {bound} events; none was queued; narrow from and to"
            )),
            R::TestedTooOften {
                retry_in_ms,
                until_ms,
            } => {
                let message = "The webhook was tested too often in this minute";
                Self::limited_until(message, retry_in_ms, until_ms)
            }
            R::Contended(id) => Self::conflict(
                Code::InvalidRequest,
                format!(
                    "The webhook {} was changed by others at the same time; try again",
                    printable(&id)
                ),
            ),
        }
    }
}

//! Replaces the rules for addresses of webhooks.

use axum::extract::State;
use axum::http::StatusCode;

use crate::admin::Request;
use crate::admin::webhooks::WebhookSecurityConfig;
use crate::api::admin::extract::AdminJson;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::cause::Cause;
use crate::domain::payload_hash::PayloadHash;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    update_security,
    "Replaces the rules for addresses of webhooks; what is left out has its default"
)
.takes::<WebhookSecurityConfig>()
.returns::<WebhookSecurityConfig>(200, "The rules.");

async fn update_security(
    State(state): State<AppState>,
    cause: Cause,
    body: AdminJson<WebhookSecurityConfig>,
) -> Returns<WebhookSecurityConfig> {
    let settings = body.request;
    let request = Request {
        cause: &cause,
        idempotency_key: None,
        payload_hash: &PayloadHash::of_body(&body.sent),
    };
    let stored = state.webhooks.put_security(&settings, &request).await;
    stored.map_err(|error| error_of(error, &ErrorContext::default()))?;
    Ok(CheckedJson(StatusCode::OK, settings))
}

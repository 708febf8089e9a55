//! Shows the rules for addresses of webhooks.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;

use crate::admin::webhooks::WebhookSecurityConfig;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::operation::{Declaration, json};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Shows the rules for addresses of webhooks",
    parameters: Vec::new,
    request: None,
    responses: &[json::<WebhookSecurityConfig>(200, "The rules.")],
    errors: &[],
    handler: |method| on(method, get_security),
};

async fn get_security(State(state): State<AppState>) -> Returns<WebhookSecurityConfig> {
    let settings = state.webhooks.security().await;
    let settings = settings.map_err(|error| error_of(error, &ErrorContext::default()))?;
    Ok(CheckedJson(StatusCode::OK, settings))
}

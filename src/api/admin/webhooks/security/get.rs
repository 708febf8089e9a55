//! Gets the rules for addresses of webhooks.

use axum::extract::State;

use crate::admin::webhooks::WebhookSecurityConfig;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(get_security, "Gets the rules for addresses of webhooks")
        .returns::<WebhookSecurityConfig>(200, "The rules.");

async fn get_security(State(state): State<AppState>) -> Returns<WebhookSecurityConfig> {
    Ok(CheckedJson::ok(state.webhooks.security().await?))
}

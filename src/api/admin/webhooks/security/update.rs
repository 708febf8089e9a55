//! Replaces the rules for addresses of webhooks.

use axum::extract::State;

use crate::admin::webhooks::WebhookSecurityConfig;
use crate::api::admin::extract::AdminJson;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::cause::Cause;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    update_security,
    "Replaces the rules for addresses of webhooks; absent members get their defaults"
)
.takes::<WebhookSecurityConfig>()
.returns::<WebhookSecurityConfig>(200, "The rules.");

async fn update_security(
    State(state): State<AppState>,
    cause: Cause,
    AdminJson(settings): AdminJson<WebhookSecurityConfig>,
) -> Returns<WebhookSecurityConfig> {
    state.webhooks.put_security(&settings, &cause).await?;
    Ok(CheckedJson::ok(settings))
}

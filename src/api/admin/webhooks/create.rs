//! Creates a webhook subscription: for the operator or any tenant, or for the API key's tenant.

use crate::admin::webhooks::WebhookCreateResponse;
use crate::api::admin::extract::{Change, ChangeBody};
use crate::api::operation::{Declaration, declare, parameters};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::webhook::{Owner, WebhookCreateRequest};

pub(in crate::api) const DECLARATION: Declaration = declare!(
    create_webhook,
    "Creates a webhook subscription; the response is the only one that shows its signing secret"
)
.query(|| {
    let owner = "Owner. Absent: the operator, for events of all tenants.";
    vec![parameters::query("tenant_id", owner, parameters::text())]
})
.takes_change::<WebhookCreateRequest>()
.returns::<WebhookCreateResponse>(201, "The new subscription.")
.refuses(&[404, 409]);

/// For the API key's tenant.
pub mod own {
    use super::{
        Declaration, WebhookCreateRequest, WebhookCreateResponse, create_webhook, declare,
    };

    pub(in crate::api) const DECLARATION: Declaration = declare!(create_webhook, "Creates a webhook subscription of the API key's tenant; the response is the only one that shows its secret").takes_change::<WebhookCreateRequest>().returns::<WebhookCreateResponse>(201, "The new subscription.").refuses(&[409]);
}

impl ChangeBody for WebhookCreateRequest {}

async fn create_webhook(
    change: Change<WebhookCreateRequest, Owner>,
) -> Returns<WebhookCreateResponse> {
    let (owner, webhooks) = (&change.target, &change.state.webhooks);
    let (operation, request) = (change.operation.name, change.request());
    let created = webhooks.create(&change.caller, owner, &change.body, operation, &request);
    Ok(CheckedJson::created(created.await?))
}

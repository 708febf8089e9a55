//! Changes a webhook subscription.

use crate::api::admin::extract::{Change, ChangeBody, PathId};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::webhook::{Subscription, WebhookUpdateRequest};

pub(in crate::api) const DECLARATION: Declaration =
    declare!(update_webhook, "Changes a webhook subscription")
        .takes_change::<WebhookUpdateRequest>()
        .returns::<Subscription>(200, "The subscription after the change.")
        .refuses(&[404, 409]);

impl ChangeBody for WebhookUpdateRequest {}

async fn update_webhook(change: Change<WebhookUpdateRequest, PathId>) -> Returns<Subscription> {
    let (PathId(id), request) = (&change.target, change.request());
    let (webhooks, operation) = (&change.state.webhooks, change.operation.name);
    let updated = webhooks.update(&change.caller, id, &change.body, operation, &request);
    Ok(CheckedJson::ok(updated.await?))
}

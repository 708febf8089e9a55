//! Deletes a webhook subscription.

use crate::api::admin::extract::{Change, NoBody, PathId};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::response::CheckedNoContent;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    delete_webhook,
    "Deletes a webhook subscription with its secrets"
)
.idempotent()
.returns_nothing("The subscription is deleted.")
.refuses(&[404, 409]);

async fn delete_webhook(change: Change<NoBody, PathId>) -> Result<CheckedNoContent, ApiError> {
    let (PathId(id), request) = (&change.target, change.request());
    let (webhooks, operation) = (&change.state.webhooks, change.operation.name);
    let deleted = webhooks.delete(&change.caller, id, operation, &request);
    deleted.await?;
    Ok(CheckedNoContent)
}

//! Deletes a webhook subscription.

use super::error_of;
use crate::api::admin::extract::{Change, NoBody, PathId};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::response::CheckedNoContent;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    delete_webhook,
    "Deletes a webhook subscription with its secrets"
)
.idempotent()
.returns_nothing("It is gone.")
.refuses(&[404, 409]);

async fn delete_webhook(change: Change<NoBody, PathId>) -> Result<CheckedNoContent, ApiError> {
    let (PathId(id), request) = (&change.target, change.request());
    let operation = change.operation.name;
    let deleted = change
        .state
        .webhooks
        .delete(&change.caller, id, operation, &request)
        .await;
    deleted.map_err(|error| error_of(error, "", id))?;
    Ok(CheckedNoContent)
}

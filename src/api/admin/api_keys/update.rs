//! Changes an API key.

use crate::api::admin::extract::{Change, ChangeBody, PathId};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::api_key::{ApiKey, ApiKeyUpdateRequest};

pub(in crate::api) const DECLARATION: Declaration = declare!(
    update_api_key,
    "Changes an API key; the change applies from its next use on"
)
.takes_change::<ApiKeyUpdateRequest>()
.returns::<ApiKey>(200, "The key as it is now.")
.refuses(&[404, 409]);

impl ChangeBody for ApiKeyUpdateRequest {}

async fn update_api_key(change: Change<ApiKeyUpdateRequest, PathId>) -> Returns<ApiKey> {
    let PathId(key_id) = &change.target;
    let (admin, request) = (&change.state.admin, change.request());
    let updated = admin.update_api_key(key_id, &change.body, &request);
    Ok(CheckedJson::ok(updated.await?))
}

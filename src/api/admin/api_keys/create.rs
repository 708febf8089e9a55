//! Creates an API key.

use super::ApiKeyCreateResponse;
use crate::api::admin::extract::{Change, ChangeBody};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::api_key::ApiKeyCreateRequest;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    create_api_key,
    "Creates an API key; only this response contains the key"
)
.takes_change::<ApiKeyCreateRequest>()
.returns::<ApiKeyCreateResponse>(201, "The new key.")
.refuses(&[409]);

impl ChangeBody for ApiKeyCreateRequest {}

async fn create_api_key(change: Change<ApiKeyCreateRequest>) -> Returns<ApiKeyCreateResponse> {
    let (admin, request) = (&change.state.admin, change.request());
    let created = admin.create_api_key(&change.body, &request).await?;
    Ok(CheckedJson::created(created.into()))
}

//! Changes, suspends or closes a tenant.

use axum::Extension;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::named_tenant;
use crate::admin::tenants::closing::CloseProgress;
use crate::api::admin::extract::{Change, ChangeBody, PathId};
use crate::api::admin::in_progress;
use crate::api::auth::audit::AlreadyAudited;
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::response::CheckedJson;
use crate::domain::tenant::record::{Tenant, TenantUpdateRequest};

pub(in crate::api) const DECLARATION: Declaration =
    declare!(update_tenant, "Changes, suspends or closes a tenant")
        .takes_change::<TenantUpdateRequest>()
        .returns::<Tenant>(200, "The tenant as it is now.")
        .refuses(&[404, 409]);

impl ChangeBody for TenantUpdateRequest {}

async fn update_tenant(change: Change<TenantUpdateRequest, PathId>) -> Result<Response, ApiError> {
    let tenant = named_tenant(&change.target.0)?;
    let (admin, request) = (&change.state.admin, change.request());
    let updated = admin.update_tenant(&tenant, &change.body, &request).await?;
    let response = CheckedJson::ok(updated.tenant);
    match updated.close {
        None | Some(CloseProgress::Closed) => Ok(response.into_response()),
        Some(CloseProgress::Paused | CloseProgress::Fenced) => {
            Ok((in_progress(&change.state), response).into_response())
        }
        Some(CloseProgress::Incomplete { failed, .. }) => {
            let error = ApiError::internal(format!(
                "the tenant is closed, but not: {}",
                failed.join(", ")
            ));
            let error = error.with_details(json!({"failed_resources": failed}));
            Ok((Extension(AlreadyAudited), error.about(Some(tenant))).into_response())
        }
    }
}

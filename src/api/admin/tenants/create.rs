//! Creates a tenant.

use axum::http::StatusCode;

use crate::api::admin::extract::{Change, ChangeBody};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::tenant::record::{Tenant, TenantCreateRequest};

pub(in crate::api) const DECLARATION: Declaration = declare!(create_tenant, "Creates a tenant")
    .takes_change::<TenantCreateRequest>()
    .returns::<Tenant>(200, "The tenant, if one of this id and name existed.")
    .returns::<Tenant>(201, "The new tenant.")
    .refuses(&[409]);

impl ChangeBody for TenantCreateRequest {}

async fn create_tenant(change: Change<TenantCreateRequest>) -> Returns<Tenant> {
    let (admin, request) = (&change.state.admin, change.request());
    let (is_new, tenant) = admin.create_tenant(&change.body, &request).await?;
    let status = match is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok(CheckedJson(status, tenant))
}

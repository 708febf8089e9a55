//! Shows a tenant.

use axum::extract::State;

use crate::api::admin::extract::PathId;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::ids::TenantId;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::tenant::record::Tenant;

pub(in crate::api) const DECLARATION: Declaration = declare!(get_tenant, "Shows a tenant")
    .returns::<Tenant>(200, "The tenant.")
    .refuses(&[404]);

async fn get_tenant(State(state): State<AppState>, PathId(id): PathId) -> Returns<Tenant> {
    let context = ErrorContext {
        tenant: &id,
        ..ErrorContext::default()
    };
    let tenant = TenantId::parse(&id);
    let found = match &tenant {
        Some(tenant) => state.admin.get_tenant(tenant).await,
        None => Err(AdminRefusal::TenantNotFound.into()),
    };
    let found = found.map_err(|error| error_of(error, &context).about(tenant))?;
    Ok(CheckedJson::ok(found))
}

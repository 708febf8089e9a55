//! Gets a tenant.

use axum::extract::State;

use super::named_tenant;
use crate::api::admin::extract::PathId;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::tenant::record::Tenant;

pub(in crate::api) const DECLARATION: Declaration = declare!(get_tenant, "Gets a tenant")
    .returns::<Tenant>(200, "The tenant.")
    .refuses(&[404]);

async fn get_tenant(State(state): State<AppState>, PathId(id): PathId) -> Returns<Tenant> {
    let tenant = state.admin.get_tenant(&named_tenant(&id)?).await?;
    Ok(CheckedJson::ok(tenant))
}

//! Tenants as requests and responses show them.

pub mod create;
pub mod get;
pub mod list;
pub mod update;

pub use list::{TenantListResponse, Tenants};

use crate::api::operation::parameters::{self, Parameter, text};

fn tenant_id() -> Parameter {
    parameters::path("tenant_id", "Names the tenant.", text())
}

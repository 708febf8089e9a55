//! The HTTP operations on tenants.

pub mod create;
pub mod get;
pub mod list;
pub mod update;

use crate::api::errors::ApiError;
use crate::domain::ids::TenantId;
use crate::domain::refusal::TenantRefusal;
use crate::store::OperationError;

/// The tenant that a request names. What is no id names none.
pub(super) fn named_tenant(id: &str) -> Result<TenantId, ApiError> {
    let not_found = || OperationError::from(TenantRefusal::NotFound(id.to_owned()));
    Ok(TenantId::parse(id).ok_or_else(not_found)?)
}

//! Refusals because of the tenant.

use axum::http::StatusCode;

use crate::api::errors::{ApiError, Code};
use crate::domain::ids::TenantId;
use crate::domain::printable::printable;
use crate::domain::refusal::TenantRefusal;

impl From<TenantRefusal> for ApiError {
    fn from(refusal: TenantRefusal) -> Self {
        use TenantRefusal as R;
        match refusal {
            R::Closed(tenant) => Self::conflict(
                Code::TenantClosed,
                format!("The tenant {tenant} is closed; what it owns is read-only"),
            ),
            R::Suspended(tenant) => {
                Self::forbidden(format!("The tenant {tenant} is suspended; no new spending"))
            }
            R::KeysSuspended(tenant) => Self::forbidden(format!(
                "The tenant {tenant} is suspended; its keys change nothing"
            )),
            R::NotActive(tenant) => Self::invalid(format!(
                "The tenant {tenant} is suspended; nothing can be created for it"
            )),
            R::NotFound(tenant) => Self::no_tenant(StatusCode::NOT_FOUND, &tenant),
            R::OwnerNotFound(tenant) => Self::no_tenant(StatusCode::BAD_REQUEST, &tenant),
            R::Duplicate(tenant) => Self::conflict(
                Code::DuplicateResource,
                format!("The tenant {tenant} exists under another name"),
            ),
            R::StaysClosed(tenant) => Self::invalid(format!(
                "Invalid status: the tenant {tenant} is closed, and a closed tenant stays closed"
            )),
            R::Outside {
                member,
                value,
                tenant,
            } => Self::invalid(format!(
                "Validation failed: {member}: {value} does not lie in the tenant {}",
                printable(&tenant)
            ))
            .about(TenantId::parse(&tenant)),
            R::IdMissing => {
                Self::invalid("Validation failed: tenant_id: is required with the admin key")
            }
            R::IdPresent => Self::invalid(
                "Validation failed: tenant_id: must be absent with an API key, which names its tenant itself",
            ),
        }
    }
}

impl ApiError {
    fn no_tenant(status: StatusCode, tenant: &str) -> Self {
        let message = format!("There is no tenant {}", printable(tenant));
        Self::new(status, Code::TenantNotFound, message)
    }
}

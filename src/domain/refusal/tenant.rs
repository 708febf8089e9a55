//! Refusals because of the tenant: of its status, or of how a request names it.

use crate::domain::ids::TenantId;
use crate::domain::printable::printable;

/// Why the tenant rules a request out. The id is as sent; it may be malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TenantRefusal {
    /// The tenant is closed: nothing that it owns can be changed.
    #[error("The tenant {0} is closed; what it owns is read-only")]
    Closed(TenantId),
    /// On the runtime plane: the tenant is suspended, so nothing new can be reserved or charged.
    #[error("The tenant {0} is suspended; no new spending")]
    Suspended(TenantId),
    /// On the admin plane: the tenant is suspended, so its keys may change nothing.
    #[error("The tenant {0} is suspended; its keys change nothing")]
    KeysSuspended(TenantId),
    /// The tenant is suspended, so nothing can be created for it.
    #[error("The tenant {0} is suspended; nothing can be created for it")]
    NotActive(TenantId),
    /// There is no such tenant.
    #[error("There is no tenant {}", printable(.0))]
    NotFound(String),
    /// There is no such tenant that could own the new record.
    #[error("There is no tenant {}", printable(.0))]
    OwnerNotFound(String),
    /// A tenant of another name has this id.
    #[error("The tenant {0} exists under another name")]
    Duplicate(TenantId),
    /// A closed tenant stays closed.
    #[error("Invalid status: the tenant {0} is closed, and a closed tenant stays closed")]
    StaysClosed(TenantId),
    /// What is to be created lies in another tenant than the one that the request names.
    #[error("Validation failed: {member}: {value} does not lie in the tenant {}", printable(.tenant))]
    Outside {
        /// The member that says where it lies.
        member: &'static str,
        /// Its value.
        value: String,
        /// The tenant, as it was sent.
        tenant: String,
    },
    /// The admin key names no tenant.
    #[error("Validation failed: tenant_id: is required with the admin key")]
    IdMissing,
    /// An API key names a tenant.
    #[error(
        "Validation failed: tenant_id: must be absent with an API key, which names its tenant itself"
    )]
    IdPresent,
}

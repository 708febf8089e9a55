//! Refusals because of the tenant: of its status, or of how a request names it.

use crate::domain::ids::TenantId;

/// Why the tenant rules a request out. The id is as sent; it may be malformed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantRefusal {
    /// The tenant is closed: nothing that it owns can be changed.
    Closed(TenantId),
    /// On the runtime plane: the tenant is suspended, so nothing new can be reserved or charged.
    Suspended(TenantId),
    /// On the admin plane: the tenant is suspended, so its keys may change nothing.
    KeysSuspended(TenantId),
    /// The tenant is suspended, so nothing can be created for it.
    NotActive(TenantId),
    /// There is no such tenant.
    NotFound(String),
    /// There is no such tenant that could own the new record.
    OwnerNotFound(String),
    /// A tenant of another name has this id.
    Duplicate(TenantId),
    /// A closed tenant stays closed.
    StaysClosed(TenantId),
    /// What is to be created lies in another tenant than the one that the request names.
    Outside {
        /// The member that says where it lies.
        member: &'static str,
        /// Its value.
        value: String,
        /// The tenant, as it was sent.
        tenant: String,
    },
    /// The admin key names no tenant.
    IdMissing,
    /// An API key names a tenant.
    IdPresent,
}

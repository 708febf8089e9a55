//! Refusals because of the tenant's status.

use crate::domain::ids::TenantId;

/// Why a tenant's status forbids a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantRefusal {
    /// The tenant is closed: nothing that it owns can be changed.
    Closed(TenantId),
    /// On the runtime plane: the tenant is suspended, so nothing new can be reserved or charged.
    Suspended(TenantId),
}

//! Refusals of operations on policies.

use crate::domain::ids::TenantId;
use crate::domain::printable::printable;

/// Why a policy is not created or changed. The id is as sent; it may be malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyRefusal {
    /// There is no such policy.
    #[error("There is no policy {}", printable(.0))]
    NotFound(String),
    /// It belongs to another tenant than the caller's.
    #[error("The policy {} belongs to another tenant", printable(.0))]
    OfOtherTenant(String),
    /// A policy of the tenant has this name already.
    #[error("The tenant {tenant} has a policy of the name {} already", printable(.name))]
    Duplicate {
        /// The tenant.
        tenant: TenantId,
        /// The name.
        name: String,
    },
}

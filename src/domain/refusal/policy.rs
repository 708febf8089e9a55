//! Refusals of operations on policies.

use crate::domain::ids::TenantId;

/// Why a policy is not created or changed. The id is as sent; it may be malformed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyRefusal {
    /// There is no such policy.
    NotFound(String),
    /// It belongs to another tenant than the caller's.
    OfOtherTenant(String),
    /// A policy of the tenant has this name already.
    Duplicate {
        /// The tenant.
        tenant: TenantId,
        /// The name.
        name: String,
    },
}

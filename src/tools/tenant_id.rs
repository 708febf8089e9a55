//! Reads a tenant id on the command line.

use crate::domain::ids::TenantId;

/// Reads a tenant id.
///
/// # Errors
/// The rule that it breaks.
pub(super) fn tenant_id(text: &str) -> Result<TenantId, String> {
    TenantId::parse(text).ok_or_else(|| "a tenant id has 3 to 64 of a-z, 0-9 and -".to_owned())
}

//! Tenants: their record, and the words of its settings.

pub mod record;

use super::words::words;

/// In a tenant's place: events of what belongs to no tenant. No tenant can be called so.
pub const SYSTEM: &str = "__system__";
/// In a tenant's place: audit entries of requests that act on no tenant, or on one that does not exist.
pub const NO_TENANT: &str = "__admin__";
/// In a tenant's place: audit entries of requests whose caller is unknown.
pub const UNKNOWN_CALLER: &str = "__unauth__";

/// Lifetime of a reservation where neither request, policy nor tenant says, in milliseconds.
pub const RESERVATION_TTL_MS_DEFAULT: i64 = 60_000;

words! {
    /// Whether a tenant may act.
    TenantStatus {
        /// It may.
        Active = "ACTIVE",
        /// It may commit, release and read, and begin nothing new.
        Suspended = "SUSPENDED",
        /// It may read. There is no way back.
        Closed = "CLOSED",
    }
}

words! {
    /// What happens to expired reservations. Stored, without effect: every hold returns to its budgets.
    ReservationExpiryPolicy {
        /// The hold is returned.
        AutoRelease = "AUTO_RELEASE",
        /// An operator returns it.
        ManualCleanup = "MANUAL_CLEANUP",
        /// The hold is returned after its grace.
        GraceOnly = "GRACE_ONLY",
    }
}

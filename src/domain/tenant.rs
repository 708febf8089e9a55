//! What a tenant's record says in words.

use super::words::words;

words! {
    /// Whether a tenant may act.
    TenantStatus {
        /// It may.
        Active = "ACTIVE",
        /// It may settle what it holds and read, and begin nothing new.
        Suspended = "SUSPENDED",
        /// It may read. There is no way back.
        Closed = "CLOSED",
    }
}

words! {
    /// What is to happen with reservations whose time is over. Stored; every one is returned to its budgets.
    ReservationExpiryPolicy {
        /// The hold is returned.
        AutoRelease = "AUTO_RELEASE",
        /// An operator returns it.
        ManualCleanup = "MANUAL_CLEANUP",
        /// The hold is returned after its grace.
        GraceOnly = "GRACE_ONLY",
    }
}

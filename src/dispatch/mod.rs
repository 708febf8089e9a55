//! The dispatcher.
mod denials;
mod leases;
mod metrics;
mod share;
pub use denials::{DenialSums, Flush};
pub use leases::{LEASE, LeaseKeeper, Leases, RENEWAL, Renewal};
pub use metrics::LeaseMetrics;

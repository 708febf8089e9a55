//! The dispatcher.
mod leases;
mod metrics;
mod share;
pub use leases::{LEASE, LeaseKeeper, Leases, RENEWAL, Renewal};
pub use metrics::LeaseMetrics;

//! The Redis driver: connections to one server, Sentinel or a Cluster; deadlines, retries, scripts and Redis's clock. No
//! script and no key is named here.

pub mod assemble;
pub mod batch;
pub mod call;
pub mod clock;
pub mod clock_monitor;
pub(crate) mod cluster;
pub(crate) mod connection;
pub mod error;
pub(crate) mod identity;
pub(crate) mod link;
pub mod memory;
pub mod metrics;
pub(crate) mod node;
pub(crate) mod open;
pub(crate) mod pipelines;
pub(crate) mod pool;
pub(crate) mod replicated;
pub mod reply;
pub(crate) mod retry;
pub mod script;
pub(crate) mod sentinel;
pub(crate) mod tls_mismatch;
pub(crate) mod url;

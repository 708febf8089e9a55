//! Redis under faults and in every topology: slow, silent, restarted, a Cluster, under Sentinel.

mod chaos;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod deployment;
pub(crate) mod durability;
pub(crate) mod full_node;
mod hostile_tenants;
pub(crate) mod lanes;
pub(crate) mod memory;
pub(crate) mod midnight;
mod moving_commits;
pub(crate) mod node_down;
pub(crate) mod outage;
pub(crate) mod scripts;
pub(crate) mod sentinel;
pub(crate) mod slots;
pub(crate) mod start;
mod stocks;
pub(crate) mod topologies;
mod torn_files;
pub(crate) mod waiting;
mod wrong_types;

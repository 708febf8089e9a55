//! Signed evidence: who signs when, what is attested, and what anybody may read.

mod accepted;
mod backlog;
mod boundaries;
mod bounds;
mod caching;
mod corpus;
mod emission;
pub(crate) mod fixture;
mod formats;
mod gauge;
mod histories;
mod kills;
mod node_down;
mod off;
mod public_reads;
mod python_verifier;
mod registry;
mod registry_lost;
mod repeats;
mod rotation;
mod settings;
mod signer;
mod sizes;
mod stale_registry;
mod terms;
mod topologies;
mod units;

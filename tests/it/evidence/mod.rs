//! Signed evidence: who signs when, what is attested, and what anybody may read.

mod boundaries;
mod bounds;
mod corpus;
mod emission;
mod formats;
mod histories;
pub(crate) mod issued;
mod kills;
mod public_reads;
mod registry;
mod rotation;
mod settings;
mod signer;
mod strangers;
mod topologies;

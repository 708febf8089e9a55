//! Signed evidence: who signs when, what is attested, and what anybody may read.

mod emission;
mod issued;
mod public_reads;
mod registry;
mod settings;
mod signer;
mod topologies;

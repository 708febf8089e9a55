//! Signed evidence: who signs when, and what anybody may read.

mod public_reads;
mod registry;
mod settings;

//! The dispatcher's work.

mod bad_luck;
pub(crate) mod burn_rates;
mod catch_up;
pub(crate) mod clocks;
pub(crate) mod deliveries;
mod delivery_failovers;
mod delivery_kills;
mod delivery_rules;
pub(crate) mod denial_rollups;
pub(crate) mod fan_out;
mod histories;
mod idempotency;
pub(crate) mod lease;
mod lost_entries;
mod noisy_tenants;
pub(crate) mod process;
mod replay_kill;
mod replay_steps;
pub(crate) mod replays;
pub(crate) mod retention;
pub(crate) mod retention_walks;
pub(crate) mod spike_history;
pub(crate) mod spike_limits;
pub(crate) mod spikes;
pub(crate) mod store_watch;
pub(crate) mod view_damage;
pub(crate) mod views;

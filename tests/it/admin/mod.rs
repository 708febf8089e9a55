//! The admin plane, by resource.

pub mod api_keys;
pub mod audit;
pub(crate) mod auth;
pub mod budgets;
pub mod bulk_actions;
pub mod closing;
pub(crate) mod corruption;
pub(crate) mod edges;
pub mod events;
pub(crate) mod http;
pub(crate) mod key_guessing;
pub(crate) mod limits;
pub(crate) mod listen;
pub mod overview;
pub mod policies;
pub(crate) mod round_trips;
pub(crate) mod secret_replays;
pub(crate) mod states;
pub mod tenants;
pub mod webhooks;

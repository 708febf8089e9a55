//! Webhook subscriptions.

pub(crate) mod access;
mod addresses;
pub(crate) mod changes;
pub(crate) mod damage;
pub(crate) mod guard;
pub(crate) mod marks;
pub(crate) mod replay;
mod replay_choice;
pub(crate) mod scope_filters;
pub(crate) mod secrets;
pub(crate) mod subscriptions;
pub(crate) mod test_deliveries;
pub(crate) mod thresholds;

//! Budgets.

pub(crate) mod access;
pub(crate) mod create;
pub(crate) mod funding;
pub(crate) mod funding_rules;
pub(crate) mod list;
pub(crate) mod period_bounds;
pub(crate) mod sort_bounds;
pub(crate) mod states;

//! Bulk actions.

pub(crate) mod actions;
pub(crate) mod budgets;
pub(crate) mod funding;
pub(crate) mod kill;
pub(crate) mod resume;
pub(crate) mod tenants;
pub(crate) mod webhooks;

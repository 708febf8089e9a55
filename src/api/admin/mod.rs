//! The admin plane: what operators and dashboards call.

pub mod api_keys;
pub mod budgets;
pub mod tenants;

//! Hard budget limits for autonomous agents.

pub mod dev;
pub mod store;

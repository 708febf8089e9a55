//! Hard budget limits for autonomous agents.

pub mod config;
pub mod dev;
pub mod store;

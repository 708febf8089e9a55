//! Hard budget limits for autonomous agents.

pub mod api;
pub mod bench;
pub mod config;
pub mod dev;
pub mod serve;
pub mod shutdown;
pub mod store;
pub mod telemetry;

//! Hard budget limits for autonomous agents.

pub mod domain;

pub mod store;

pub mod dev;

//! Hard budget limits for autonomous agents.

pub mod domain;

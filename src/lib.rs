//! Hard budget limits for autonomous agents.

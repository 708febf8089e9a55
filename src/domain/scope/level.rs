//! The levels of the hierarchy, and what may be their value.

use crate::domain::words::words;

words! {
    /// A level of the hierarchy. The order is fixed; a scope may skip levels but never swap them.
    Level {
        /// The customer.
        Tenant = "tenant",
        /// A part of the tenant, such as an environment.
        Workspace = "workspace",
        /// An application.
        App = "app",
        /// A workflow inside an application.
        Workflow = "workflow",
        /// An agent.
        Agent = "agent",
        /// A set of tools that agents use.
        Toolset = "toolset",
    }
}

/// Whether a text may be the value of a scope segment: 1 to 128 of `A-Za-z0-9_.-`, so that it never holds a separator.
pub fn is_segment_value(text: &str) -> bool {
    let charset = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(charset)
}

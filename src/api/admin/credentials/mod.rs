//! The HTTP operations that check a key.

pub mod introspect;
pub mod validate;

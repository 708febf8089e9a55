//! Questions about credentials.

pub mod introspect;
pub mod validate;

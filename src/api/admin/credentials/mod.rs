//! Questions about credentials: `POST /v1/auth/validate`, `GET /v1/auth/introspect`.

pub mod introspect;
pub mod validate;

//! HTTP. [`operations`] is the index of operations, [`runtime`] and [`admin`] hold their handlers; the other modules are shared
//! by all.

pub mod admin;
pub mod auth;
pub mod body;
pub mod body_memory;
pub mod context;
pub mod dialect;
pub mod errors;
pub mod evidence;
pub mod extract;
pub mod list;
pub mod openapi;
pub mod operation;
pub mod operations;
pub mod probes;
pub mod query;
pub mod refusals;
pub mod response;
mod routes;
pub mod runtime;
pub mod state;
pub mod trace;

pub use routes::{Planes, measured, planes};

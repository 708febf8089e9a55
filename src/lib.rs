//! Hard budget limits for autonomous agents. Each module is a layer; `ARCHITECTURE.md` shows which may use which.

pub mod domain;
mod metrics;
pub mod spans;

pub mod driver;
pub mod store;

pub mod egress;

pub mod evidence;

pub mod listing;

pub mod admin;
pub mod ledger;

pub mod api;
pub mod console;

pub mod dispatcher;

pub mod tools;

pub mod config;
pub mod serve;
pub mod shutdown;
pub mod telemetry;

/// Under the name that tests outside of the library use.
#[cfg(test)]
extern crate self as budget_authority;
#[cfg(test)]
#[path = "../tests/it/harness/signatures.rs"]
mod signatures;

//! Hard budget limits for autonomous agents.

/// A request makes some hundred small allocations; the system's allocator takes a fifth of its processor time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub mod domain;

pub mod store;

pub mod egress;

pub mod admin;
pub mod bulk;
pub mod closing;
pub mod ledger;

pub mod access;

pub mod api;

pub mod retention;
pub mod sweep;

pub mod dispatch;

pub mod bench;
pub mod verify;

pub mod config;
pub mod dev;
pub mod locate;
pub mod operator;
pub mod serve;
pub mod shutdown;
pub mod telemetry;
pub mod workers;

//! The integration tests, in one binary. `runtime` and `admin` have a file per operation or resource, `dispatcher` one per
//! worker; `egress` posts to receivers; `evidence` tests who signs, and what anybody may read; `http` tests the wire, `redis` failures and topologies, `tools` the command line, `project` the code and documents
//! themselves. `harness` holds the fixtures; each test starts or shares a Redis of its own.

// The futures of a test nest more deeply than the default allows.
#![recursion_limit = "256"]
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test may panic, and sends signals to the processes that it starts"
)]

mod admin;
mod console;
mod dispatcher;
mod egress;
mod evidence;
mod harness;
mod http;
mod project;
mod redis;
mod runtime;
mod tools;

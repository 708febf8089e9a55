//! Everything that needs a running Redis, in one binary: a folder per plane, a file per resource or operation.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test may panic, and sends signals to the processes that it starts"
)]

mod admin;
mod dispatcher;
mod harness;
mod http;
mod project;
mod redis;
mod runtime;
mod tools;

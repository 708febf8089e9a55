//! Everything that needs a running Redis, in one binary.

mod harness;
mod redis_cluster;
mod redis_connection;
mod redis_sentinel;
mod serving;
mod settings;

//! Everything that needs a running Redis, in one binary.

mod auth;
mod balances;
mod dev_stack;
mod expire;
mod harness;
mod headers;
mod hostile;
mod lease;
mod lifecycle;
mod lists;
mod logs;
mod lua_scripts;
mod model;
mod redis_cluster;
mod redis_connection;
mod redis_sentinel;
mod serving;
mod settings;

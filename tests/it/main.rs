//! Everything that needs a running Redis, in one binary.

mod decide;
mod dev_stack;
mod dry_run;
mod expire;
mod harness;
mod lease;
mod lifecycle;
mod lua_scripts;
mod model;
mod redis_cluster;
mod redis_connection;
mod redis_sentinel;
mod reserve;
mod serving;
mod settings;

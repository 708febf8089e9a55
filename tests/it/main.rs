//! Everything that needs a running Redis, in one binary.

mod closed_tenant;
mod commit;
mod decide;
mod dev_stack;
mod dry_run;
mod expire;
mod expiry;
mod extend;
mod harness;
mod idempotency;
mod lease;
mod lifecycle;
mod lua_scripts;
mod model;
mod overage;
mod post_event;
mod redis_cluster;
mod redis_connection;
mod redis_sentinel;
mod release;
mod reserve;
mod serving;
mod settings;

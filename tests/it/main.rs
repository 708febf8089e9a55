//! Everything that needs a running Redis, in one binary.

mod admin_api_keys;
mod admin_audit;
mod admin_budgets;
mod admin_funding;
mod admin_tenants;
mod denial_sums;
mod dev_stack;
mod dispatcher;
mod expire;
mod harness;
mod lease;
mod lifecycle;
mod lua_scripts;
mod model;
mod openapi;
mod openapi_requests;
mod redis_cluster;
mod redis_connection;
mod redis_sentinel;
mod retention;
mod serving;
mod settings;
mod tidy;
mod verify;

//! Everything that needs a running Redis, in one binary.

mod admin_api_keys;
mod admin_audit;
mod admin_budgets;
mod admin_funding;
mod admin_funding_rules;
mod admin_http;
mod admin_http_audit;
mod admin_tenants;
mod dev_stack;
mod events;
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
mod serving;
mod settings;
mod tidy;

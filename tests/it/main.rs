//! Everything that needs a running Redis, in one binary.

mod admin_api_keys;
mod admin_audit;
mod admin_budgets;
mod admin_funding;
mod admin_tenants;
mod dev_stack;
mod expire;
mod harness;
mod kill;
mod lease;
mod lifecycle;
mod lua_scripts;
mod model;
mod openapi;
mod openapi_requests;
mod outage;
mod races;
mod redis_cluster;
mod redis_connection;
mod redis_sentinel;
mod redis_slots;
mod round_trips;
mod serving;
mod settings;
mod tidy;
mod topologies;

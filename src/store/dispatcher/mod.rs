//! Calls about background work, most of them made by dispatchers: leases, outboxes, views, retention, rollups and audit chains.

pub mod attempts;
pub mod audit_chain;
pub mod auth_failed;
pub mod catch_up;
pub mod deliveries;
pub mod drop_oldest;
pub mod due_events;
pub mod emit;
pub mod fan_out;
pub mod index_rows;
pub mod lease;
pub mod outbox;
pub mod poll;
pub mod retention;
pub mod traffic;
pub mod view_rows;
pub mod views;

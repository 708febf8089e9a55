//! Calls about background work, most of them made by dispatchers: leases, outboxes, views, retention, rollups and audit chains.

pub mod adopt_webhooks;
pub mod attempts;
pub mod audit_chain;
pub mod audit_log;
pub mod auth_failed;
pub mod burn;
pub mod catch_up;
pub mod deliveries;
pub mod drop_idempotency;
pub mod due_events;
pub mod emit;
pub mod fan_out;
pub(crate) mod hasten_lanes;
pub mod index_rows;
pub mod lease;
pub mod outbox;
pub mod poll;
pub mod purge;
pub mod replays;
pub mod retire;
pub mod store_reports;
pub mod traffic;
pub mod view_rows;
pub mod views;

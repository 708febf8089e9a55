//! Deliveries of events to webhook subscriptions: [`FanOut`] queues them, each exactly once. [`Backfill`] later queues those that
//! found no room, and those of replays. A [`DeliveryWorker`] attempts each at least once.

mod attempt;
mod backfill;
mod catch_up;
mod deliver;
mod delivery_worker;
mod end_queue;
mod events;
mod fan_out;
mod fan_out_plan;
mod host_rates;
mod outcome_writer;
mod partition_failures;
mod permits;
mod poll_schedule;
mod rendered_event;
mod replays;
mod start_order;
mod state;
mod subscriptions;

pub use backfill::{Backfill, BackfillPass};
pub use delivery_worker::{CONNECTIONS_MAX, DeliveryWorker, IN_FLIGHT_MAX};
pub use fan_out::{FanOut, FanOutPass};
pub use state::{DeliverySettings, DeliverySignal};

//! Deliveries of events to the subscriptions of webhooks: [`FanOut`] queues them, exactly once, [`Backfill`] later those that find no
//! room, and those of replays; a [`DeliveryWorker`] makes them, at least once each.

mod attempt;
mod backfill;
mod catch_up;
mod deliver;
mod delivery_worker;
mod end_queue;
mod events;
mod fan_out;
mod fan_out_plan;
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

//! Deliveries of events to the subscriptions of webhooks: [`FanOut`] queues them, exactly once, [`CatchUp`] later those that find no
//! room, and [`Replays`] those of replays; a [`DeliveryWorker`] makes them, at least once each.

mod attempt;
mod backlog;
mod catch_up;
mod deliver;
mod delivery_worker;
mod events;
mod fan_out;
mod fan_out_plan;
mod outcome_writer;
mod partition_failures;
mod permits;
mod policy_reader;
mod poll_schedule;
mod rendered_event;
mod replays;
mod signal;
mod start_order;
mod state;
mod subscriptions;

pub use backlog::CatchUpPass;
pub use catch_up::CatchUp;
pub use delivery_worker::{CONNECTIONS_MAX, DeliverySettings, DeliveryWorker, IN_FLIGHT_MAX};
pub use fan_out::{FanOut, FanOutPass};
pub use replays::{ReplayPass, Replays};
pub use signal::DeliverySignal;

//! Deliveries of events to the subscriptions of webhooks: [`FanOut`] queues them, exactly once; a [`Courier`] makes them, at
//! least once each.

mod attempt;
mod courier;
mod deliver;
mod events;
mod fan_out;
mod inner;
mod subscriptions;
mod wake;

pub use courier::{Courier, CourierSettings};
pub use fan_out::{FanOut, FanOutPass};
pub use wake::Wake;

//! Deliveries of events to the subscriptions of webhooks: [`FanOut`] queues them, exactly once, [`CatchUp`] later what finds no
//! room, and [`Replays`] what is to be delivered again; a [`Courier`] makes them, at least once each.

mod attempt;
mod booker;
mod bookings;
mod catch_up;
mod courier;
mod deliver;
mod events;
mod failures;
mod fan_out;
mod following;
mod inner;
mod letters;
mod missed;
mod permits;
mod replays;
mod restoring;
mod rounds;
mod rules;
mod starts;
mod subscriptions;
mod wake;

pub use catch_up::CatchUp;
pub use courier::{CONNECTIONS_MAX, Courier, CourierSettings, IN_FLIGHT_MAX};
pub use fan_out::{FanOut, FanOutPass};
pub use missed::CatchUpPass;
pub use replays::{ReplayPass, Replays};
pub use wake::Wake;

//! Periods of budgets and windows of limits: pure calendar arithmetic.
//!
//! A [`Schedule`] divides time into periods without gaps. Period k starts at anchor + k·every, always calculated from the anchor,
//! so that months which begin on the 31st return to it after a shorter one. Minutes and hours are absolute. Days and longer
//! follow the calendar of a [`Zone`]: a local time that does not exist moves forward, and of one that occurs twice the earlier counts.

mod duration;
mod every;
mod schedule;
mod zone;

#[cfg(test)]
mod tests;

pub use duration::Duration;
pub use every::{Every, Purpose};
pub use schedule::{Bounds, Schedule};
pub use zone::Zone;

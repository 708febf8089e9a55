//! Requests that go together, as one batch: each gets the response, and has the effects, that it has alone.

mod calls;
pub(crate) mod captured;
mod damage;
mod faults;
mod fixture;
mod histories;
mod isolation;
mod limits;
mod outages;
mod together;
mod waiting;

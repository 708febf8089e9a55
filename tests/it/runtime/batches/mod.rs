//! Requests that go together, as one batch: each gets the response, and has the effects, that it has alone.

mod calls;
mod captured;
mod damage;
mod faults;
mod histories;
mod isolation;
mod limits;
mod outages;
mod scenes;
mod together;
mod waiting;

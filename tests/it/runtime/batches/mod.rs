//! Requests that go together, as one batch: each gets the response, and has the effects, that it has alone.

mod histories;
mod together;

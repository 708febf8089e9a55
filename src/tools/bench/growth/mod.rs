//! `bench --compare-stored`, `--compare-listed` and `--compare-policies`: the same few operations, measured with ever more
//! stored.

mod cost;
mod report;
mod scenarios;

pub(super) use scenarios::{with_budgets, with_policies, with_reservations};

//! What deliveries cost Redis: the time of its scripts, one by one, and the memory of those that are pending.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::store::{CommandStatistics, StoreError};
use crate::tools::bench::memory::{keys, memory};
use crate::tools::bench::stack::Stack;

/// The time of some scripts.
#[derive(Debug, Serialize)]
pub(super) struct Part {
    pub what: &'static str,
    pub calls_per_delivery: f64,
    pub us_per_call: f64,
    pub us_per_delivery: f64,
}

/// Which scripts are told apart; the last takes the rest.
const PARTS: [(&str, &[&str]); 7] = [
    ("event", &["admin/budgets/fund"]),
    (
        "view of events and audit entries",
        &["dispatcher/index_view", "dispatcher/set_watermarks"],
    ),
    ("fan-out", &["dispatcher/fan_out"]),
    ("claim", &["dispatcher/take_deliveries"]),
    ("ends of attempts", &["dispatcher/end_attempts"]),
    ("audit seals", &["dispatcher/seal"]),
    ("rest, most of it at the start", &[]),
];

/// How the time of the scripts divides among so many deliveries.
pub(super) fn parts(
    mut scripts: BTreeMap<&'static str, CommandStatistics>,
    deliveries: usize,
) -> Vec<Part> {
    let deliveries = deliveries.max(1) as f64;
    let part = |(what, paths): (&'static str, &[&str])| {
        let mut of_part = CommandStatistics::default();
        scripts.retain(|path, script| {
            let is_of_part = paths.is_empty() || paths.contains(path);
            if is_of_part {
                of_part.calls += script.calls;
                of_part.us += script.us;
            }
            !is_of_part
        });
        Part {
            what,
            calls_per_delivery: of_part.calls as f64 / deliveries,
            us_per_call: of_part.us as f64 / of_part.calls.max(1) as f64,
            us_per_delivery: of_part.us as f64 / deliveries,
        }
    };
    PARTS.into_iter().map(part).collect()
}

/// How many records of deliveries there are, and the memory of these and of their lanes, lists and windows, in bytes.
pub(super) async fn stored(stack: &Stack) -> Result<(usize, u64), StoreError> {
    let store = &stack.store;
    let records = keys(store, "delivery:*").await?;
    let mut bytes = memory(store, &records).await?;
    for pattern in ["lane:*", "deliveries:*", "window:*"] {
        bytes += memory(store, &keys(store, pattern).await?).await?;
    }
    Ok((records.len(), bytes))
}

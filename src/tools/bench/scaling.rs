//! What single operations cost with ever more stored: time over HTTP, time in Redis, round trips.

use std::fmt;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::Value;

use super::error::BenchError;
use super::provision::Caller;
use super::recorder::{Summary, histogram, record, summary};
use super::report::time;
use super::stack::Stack;
use super::table::Table;
use crate::store::Store;

/// Reads of each kind, unless the time is over before.
pub(super) const READS: usize = 1_000;

/// Reads of each kind whose commands are counted, after those that are timed.
const COUNTED: usize = 20;

/// Rows of a page.
pub(super) const PAGE: usize = 50;

/// What operations cost with so much stored.
#[derive(Debug, Serialize)]
pub(super) struct Stage {
    pub stored: u64,
    pub costs: Vec<Cost>,
}

/// What one operation of one client cost.
#[derive(Debug, Serialize)]
pub(super) struct Cost {
    #[serde(flatten)]
    pub calls: Summary,
    /// Time that it takes of Redis's one thread.
    pub redis_us: f64,
    /// Commands that the service sends for it.
    pub round_trips: f64,
}

/// Time of Redis that each of so many requests took since the last reset: of its scripts, or, where it needs none, of all
/// commands.
pub(super) async fn redis_us(store: &Store, requests: u64) -> Result<f64, BenchError> {
    let statistics = store.statistics().await?;
    let spent = match statistics.command("evalsha").us {
        0 => statistics.commands.values().map(|command| command.us).sum(),
        scripts => scripts,
    };
    Ok(spent as f64 / requests.max(1) as f64)
}

/// Reads as one client.
pub(super) struct Reader<'a> {
    pub stack: &'a Stack,
    pub store: &'a Store,
    pub caller: Caller,
    /// How long one kind of read may take in all.
    pub limit: Duration,
}

impl Reader<'_> {
    /// Reads `paths` in turn, or follows cursors from the first one.
    pub async fn cost(
        &mut self,
        name: &'static str,
        paths: &[String],
        follow: bool,
    ) -> Result<Cost, BenchError> {
        let reads = if paths.len() > 1 { paths.len() } else { READS };
        self.store.reset_statistics().await?;
        let begun = Instant::now();
        let times = self.read(paths, follow, reads, begun + self.limit).await?;
        let calls = summary(name, &times, begun.elapsed());
        let redis_us = redis_us(self.store, times.len()).await?;
        let monitor = self.stack.watch().await?;
        let far = Instant::now() + self.limit.max(Duration::from_secs(1));
        let counted = self.read(paths, follow, COUNTED, far).await?.len();
        Ok(Cost {
            calls,
            redis_us,
            round_trips: monitor.end().await? as f64 / counted.max(1) as f64,
        })
    }

    /// Times of at most `reads` reads until `until`.
    async fn read(
        &mut self,
        paths: &[String],
        follow: bool,
        reads: usize,
        until: Instant,
    ) -> Result<Histogram<u32>, BenchError> {
        let (mut times, mut cursor) = (histogram(), None);
        for path in paths.iter().cycle().take(reads) {
            let begun = Instant::now();
            if begun >= until {
                break;
            }
            let path = match &cursor {
                Some(cursor) => format!("{path}&cursor={cursor}"),
                None => path.clone(),
            };
            let page: Value = self.caller.get("reading", &path).await?;
            record(&mut times, begun.elapsed());
            if follow {
                cursor = page["next_cursor"].as_str().map(str::to_owned);
            }
        }
        Ok(times)
    }
}

/// One table for each operation, a row for each stage.
pub(super) fn write_stages(f: &mut fmt::Formatter<'_>, stages: &[Stage], how: &str) -> fmt::Result {
    let first = stages.first().map_or(&[][..], |first| &first.costs);
    for (at, cost) in first.iter().enumerate() {
        let mut table = Table::new(
            &format!("{}, {how}", cost.calls.operation),
            &["p50", "p99", "in Redis", "trips"],
        );
        for Stage { stored, costs } in stages {
            let Cost {
                calls,
                redis_us,
                round_trips,
            } = &costs[at];
            table.row(
                &format!("  {stored} stored"),
                [
                    time(calls.p50_us),
                    time(calls.p99_us),
                    time(*redis_us),
                    format!("{round_trips:.2}"),
                ],
            );
        }
        writeln!(f, "{table}")?;
    }
    Ok(())
}

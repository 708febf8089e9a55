//! Measures what one operation costs: its time, Redis's time and round trips to Redis.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::store::Store;
use crate::tools::bench::args::{BenchArgs, LoadArgs, Workload};
use crate::tools::bench::error::BenchError;
use crate::tools::bench::ledger::Totals;
use crate::tools::bench::load;
use crate::tools::bench::recorder::{Summary, histogram, record, summary};
use crate::tools::bench::service::{Caller, Tenant};
use crate::tools::bench::stack::Stack;

/// Reads of each kind, unless the time is over before.
pub(super) const READS: usize = 1_000;

/// Reads of each kind whose commands are counted, after the timed ones.
const COUNTED: usize = 20;

/// What one operation of one client cost.
#[derive(Debug, Serialize)]
pub(in crate::tools::bench) struct Cost {
    #[serde(flatten)]
    pub calls: Summary,
    /// Time of Redis's one thread.
    pub redis_us: f64,
    /// Commands that the service sends to Redis.
    pub round_trips: f64,
}

/// What the reserves of one stage did.
pub(super) struct Reserves {
    pub cost: Cost,
    pub totals: Totals,
    pub made: u64,
    pub requests: u64,
    pub failed: u64,
    pub unresolved: u64,
}

/// Measures reserves over HTTP with one client, with their failures.
pub(super) async fn reserves(
    args: &BenchArgs,
    stack: &Stack,
    store: &Store,
    tenant: &Tenant,
) -> Result<Reserves, BenchError> {
    let load = LoadArgs {
        clients: 1,
        workload: Workload::Reserve,
        ..args.load.clone()
    };
    let short = LoadArgs {
        duration: Duration::from_millis(100),
        warmup: Duration::ZERO,
        ..load.clone()
    };
    store.reset_statistics().await?;
    let timed = load::run(&stack.service, tenant, &load, args.progress).await?;
    let redis_us = redis_us(store, timed.results.recorder.attempts).await?;
    let monitor = stack.monitor().await?;
    let counted = load::run(&stack.service, tenant, &short, false).await?;
    let commands = monitor.end().await?;
    let requests = counted.results.recorder.attempts.max(1);
    let mut summaries = timed.results.recorder.summaries(timed.elapsed);
    let mut reserves = Reserves {
        cost: Cost {
            calls: summaries.swap_remove(0),
            redis_us,
            round_trips: commands as f64 / requests as f64,
        },
        totals: Totals::default(),
        made: 0,
        requests: 0,
        failed: 0,
        unresolved: 0,
    };
    for run in [timed.results, counted.results] {
        reserves.totals.add(&run.totals);
        reserves.made += run.recorder.finished;
        reserves.requests += run.recorder.attempts;
        reserves.failed += run.recorder.failed;
        reserves.unresolved += run.recorder.unresolved + run.recorder.wrong;
    }
    Ok(reserves)
}

/// Redis's time per request since the last reset: of the scripts, or of all commands when no script ran.
async fn redis_us(store: &Store, requests: u64) -> Result<f64, BenchError> {
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
    /// How long the reads of one kind may take in all.
    pub limit: Duration,
}

impl Reader<'_> {
    /// Reads `paths` in turn, or follows the cursors of the first one.
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
        let monitor = self.stack.monitor().await?;
        let until = Instant::now() + self.limit.max(Duration::from_secs(1));
        let counted = self.read(paths, follow, COUNTED, until).await?.len();
        Ok(Cost {
            calls,
            redis_us,
            round_trips: monitor.end().await? as f64 / counted.max(1) as f64,
        })
    }

    /// The times of at most `reads` reads until `until`.
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
            let page = self.caller.get("reading", &path).await?;
            record(&mut times, begun.elapsed());
            if follow {
                cursor = page["next_cursor"].as_str().map(str::to_owned);
            }
        }
        Ok(times)
    }
}

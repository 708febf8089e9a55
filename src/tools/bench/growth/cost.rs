//! Measures what one operation costs: its time, Redis's time and round trips to Redis.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::tools::bench::args::{LoadArgs, Workload};
use crate::tools::bench::error::BenchError;
use crate::tools::bench::load;
use crate::tools::bench::recorder::{Recorder, Summary, histogram, record, summary};
use crate::tools::bench::service::Tenant;
use crate::tools::bench::stack::Stack;
use crate::tools::call::Call;
use crate::tools::client::Client;

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

/// Measures reserves over HTTP with one client. Returns also what the timed and the counted ones did.
pub(super) async fn reserves(
    stack: &Stack,
    tenant: &Tenant,
    load: &LoadArgs,
    progress: bool,
) -> Result<(Cost, [Recorder; 2]), BenchError> {
    let load = LoadArgs {
        clients: 1,
        workload: Workload::Reserve,
        ..load.clone()
    };
    let short = LoadArgs {
        duration: Duration::from_millis(100),
        warmup: Duration::ZERO,
        ..load.clone()
    };
    stack.store.reset_statistics().await?;
    let timed = load::run(&stack.service, tenant, &load, progress).await?;
    let redis_us = redis_us(stack, timed.recorder.attempts).await?;
    let mut counted = Recorder::default();
    let run = async || {
        let measured = load::run(&stack.service, tenant, &short, false).await?;
        counted = measured.recorder;
        Ok(counted.attempts)
    };
    let cost = Cost {
        round_trips: stack.commands_per_request(run).await?,
        calls: timed.recorder.summaries(timed.elapsed).swap_remove(0),
        redis_us,
    };
    Ok((cost, [timed.recorder, counted]))
}

/// Redis's time per request since the last reset: of the scripts, or of all commands when no script ran.
async fn redis_us(stack: &Stack, requests: u64) -> Result<f64, BenchError> {
    let statistics = stack.store.statistics().await?;
    let spent = match statistics.command("evalsha").us {
        0 => statistics.commands.values().map(|command| command.us).sum(),
        scripts => scripts,
    };
    Ok(spent as f64 / requests.max(1) as f64)
}

/// Reads as one client.
pub(super) struct Reader<'a> {
    pub stack: &'a Stack,
    pub client: Client,
    /// How long the reads of one kind may take in all.
    pub limit: Duration,
    pub costs: Vec<Cost>,
}

impl Reader<'_> {
    /// Reads the first page of a list again and again, then page by page, and from its first page again after the last.
    pub async fn list(&mut self, name: &str, list: Call) -> Result<(), BenchError> {
        let list = [list];
        self.measure(format!("{name}, first page"), &list, READS, false)
            .await?;
        self.measure(format!("{name}, page by page"), &list, READS, true)
            .await
    }

    /// Measures so many reads, one call after the other. `follow`: with the cursor of the page before.
    pub async fn measure(
        &mut self,
        name: impl Into<String>,
        calls: &[Call],
        reads: usize,
        follow: bool,
    ) -> Result<(), BenchError> {
        let (stack, limit) = (self.stack, self.limit);
        stack.store.reset_statistics().await?;
        let begun = Instant::now();
        let times = self.read(calls, follow, reads, begun + limit).await?;
        let summary = summary(name, &times, begun.elapsed());
        let redis_us = redis_us(stack, times.len()).await?;
        let counted = async || {
            let until = Instant::now() + limit.max(Duration::from_secs(1));
            let times = self.read(calls, follow, COUNTED, until).await?;
            Ok(times.len())
        };
        let round_trips = stack.commands_per_request(counted).await?;
        self.costs.push(Cost {
            calls: summary,
            redis_us,
            round_trips,
        });
        Ok(())
    }

    /// The times of at most `reads` reads until `until`.
    async fn read(
        &self,
        calls: &[Call],
        follow: bool,
        reads: usize,
        until: Instant,
    ) -> Result<Histogram<u32>, BenchError> {
        let (mut times, mut cursor) = (histogram(), None);
        for call in calls.iter().cycle().take(reads) {
            let call = call.clone().with("cursor", cursor.take());
            let begun = Instant::now();
            if begun >= until {
                break;
            }
            let page = self.client.read(&call).await?;
            record(&mut times, begun.elapsed());
            if follow {
                cursor = page["next_cursor"].as_str().map(str::to_owned);
            }
        }
        Ok(times)
    }
}

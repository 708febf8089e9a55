//! Whether an operation costs more when more is stored: the same few measured with ever more reservations of one tenant.

use std::fmt;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::Value;

use super::args::{BenchArgs, LoadArgs, Workload};
use super::error::BenchError;
use super::ledger::{Difference, Sums};
use super::load;
use super::provision::{Caller, Tenant};
use super::recorder::{Summary, histogram, record, summary};
use super::report::{time, write_differences};
use super::script::{Held, Script};
use super::stack::Stack;
use super::table::Table;
use crate::store::Store;

const CLIENTS: u16 = 50;

/// Reads of each kind, unless the time is over before.
const READS: usize = 1_000;

/// Reads of each kind whose commands are counted, after those that are timed.
const COUNTED: usize = 20;

/// Rows of a page.
const PAGE: usize = 50;

/// The same operations, with more and more stored.
#[derive(Debug, Serialize)]
pub(super) struct Scaling {
    pub scopes: u8,
    pub stages: Vec<Stage>,
    /// Share of the reserves over HTTP that failed; reads must not fail.
    pub error_rate: f64,
    /// Ledgers that do not show what was answered.
    pub differences: Vec<Difference>,
    /// Reserves without a known outcome, or with one that contradicts the request.
    pub unsettled: u64,
}

impl Scaling {
    /// Whether every ledger agreed, and no more requests failed than allowed.
    pub fn is_well(&self, max_error_rate: f64) -> bool {
        let agrees = self.differences.is_empty() && self.unsettled == 0;
        agrees && self.error_rate <= max_error_rate
    }
}

/// What operations cost with so many reservations stored.
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

/// Starts a Redis and a service, and measures them at each of `args.compare_stored`.
pub(super) async fn run(args: &BenchArgs) -> Result<Scaling, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let tenant = stack.service.provision(args.load.scopes).await?;
    let bare = stack.bare(&tenant);
    let store = bare.store()?;
    let mut sizes = args.compare_stored.clone();
    sizes.sort_unstable();
    let (mut stored, mut stages) = (0, Vec::new());
    let mut known: Vec<Held> = Vec::new();
    let mut books = Books::default();
    for size in sizes {
        let missing = size.saturating_sub(stored);
        eprintln!("{size} reservations: making {missing}");
        if missing > 0 {
            let filled = bare.run(CLIENTS, Script::Fill(missing)).await?;
            books.sums.add(&filled.sums);
            stored += filled.held.len() as u64;
            known.extend(filled.held.into_iter().take(READS));
        }
        // Reads first: a reserve stores.
        let reader = Reader {
            stack: &stack,
            store: &store,
            caller: stack.service.caller(&tenant)?,
            limit: args.load.duration,
        };
        let mut costs = reader.all(&tenant, &known).await?;
        let (reserve, made) = reserve(args, &stack, &tenant, &store, &mut books).await?;
        costs.push(reserve);
        stages.push(Stage { stored, costs });
        stored += made;
    }
    Ok(Scaling {
        scopes: args.load.scopes,
        stages,
        error_rate: books.failed as f64 / books.attempts.max(1) as f64,
        differences: stack.service.check(&tenant, &books.sums).await?,
        unsettled: books.unsettled,
    })
}

/// What all reserves came to.
#[derive(Default)]
struct Books {
    sums: Sums,
    attempts: u64,
    failed: u64,
    unsettled: u64,
}

/// Reserves over HTTP with one client; also how many.
async fn reserve(
    args: &BenchArgs,
    stack: &Stack,
    tenant: &Tenant,
    store: &Store,
    books: &mut Books,
) -> Result<(Cost, u64), BenchError> {
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
    let redis_us = redis_us(store, timed.books.recorder.attempts).await?;
    let monitor = stack.watch().await?;
    let counted = load::run(&stack.service, tenant, &short, false).await?;
    let commands = monitor.end().await?;
    let requests = counted.books.recorder.attempts.max(1);
    let calls = timed.books.recorder.summaries(timed.elapsed).swap_remove(0);
    let mut made = 0;
    for run in [timed, counted] {
        let recorder = run.books.recorder;
        books.sums.add(&run.books.sums);
        books.attempts += recorder.attempts;
        books.failed += recorder.failed;
        books.unsettled += recorder.unresolved + recorder.wrong;
        made += recorder.finished;
    }
    let round_trips = commands as f64 / requests as f64;
    let cost = Cost {
        calls,
        redis_us,
        round_trips,
    };
    Ok((cost, made))
}

/// Time of Redis that each of so many requests took since the last reset.
async fn redis_us(store: &Store, requests: u64) -> Result<f64, BenchError> {
    let spent = store.statistics().await?.command("evalsha").us;
    Ok(spent as f64 / requests.max(1) as f64)
}

struct Reader<'a> {
    stack: &'a Stack,
    store: &'a Store,
    caller: Caller,
    /// How long one kind of read may take in all.
    limit: Duration,
}

impl Reader<'_> {
    async fn all(mut self, tenant: &Tenant, known: &[Held]) -> Result<Vec<Cost>, BenchError> {
        let path = |(id, _): &Held| format!("/v1/reservations/{}", id.as_str());
        let gets: Vec<String> = known.iter().rev().take(READS).map(path).collect();
        let balances = [format!("/v1/balances?tenant={}&limit={PAGE}", tenant.id)];
        let list = [format!("/v1/reservations?limit={PAGE}")];
        Ok(vec![
            self.cost("get", &gets, false).await?,
            self.cost("balances page", &balances, false).await?,
            self.cost("list, first page", &list, false).await?,
            self.cost("list, page by page", &list, true).await?,
        ])
    }

    /// Reads `paths` in turn, or follows cursors from the first one.
    async fn cost(
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

impl fmt::Display for Scaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scopes = self.scopes;
        let first = self.stages.first().map_or(&[][..], |first| &first.costs);
        for (at, cost) in first.iter().enumerate() {
            let mut table = Table::new(
                &format!("{}, one client, {scopes} scopes", cost.calls.operation),
                &["p50", "p99", "in Redis", "trips"],
            );
            for Stage { stored, costs } in &self.stages {
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
        if self.error_rate > 0.0 || self.unsettled > 0 {
            let share = self.error_rate * 100.0;
            writeln!(
                f,
                "reserves: {share:.3} % failed, {} unsettled",
                self.unsettled
            )?;
        }
        if !self.differences.is_empty() {
            writeln!(f, "ledger: does NOT agree with the answers")?;
        }
        write_differences(f, &self.differences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_differences_are_not_well() {
        let scaling = |error_rate, unsettled, differences| Scaling {
            scopes: 1,
            stages: Vec::new(),
            error_rate,
            differences,
            unsettled,
        };
        let missing = Difference {
            scope: "tenant:t".to_owned(),
            source: "x",
            expected: Sums::default().expected(1),
            found: None,
        };
        assert!(scaling(0.0, 0, vec![]).is_well(0.0));
        assert!(scaling(0.1, 0, vec![]).is_well(0.1));
        assert!(!scaling(0.1, 0, vec![]).is_well(0.0));
        assert!(!scaling(0.0, 1, vec![]).is_well(1.0));
        let wrong = scaling(0.0, 0, vec![missing]);
        assert!(!wrong.is_well(1.0));
        assert!(wrong.to_string().contains("does NOT agree"));
    }
}

//! Whether an operation costs more when more is stored: the same few measured with ever more reservations of one tenant.

use std::fmt;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::Value;

use super::args::{BenchArgs, LoadArgs, Workload};
use super::error::BenchError;
use super::load;
use super::provision::{Caller, Tenant};
use super::recorder::{Summary, histogram, record, summary};
use super::report::time;
use super::script::{Held, Script, round_trips};
use super::stack::Stack;
use super::table::Table;
use crate::store::Store;

const CLIENTS: u16 = 50;

/// Reads of each kind, unless the time is over before.
const READS: usize = 1_000;

/// Rows of a page.
const PAGE: usize = 50;

/// The same operations, with more and more stored.
#[derive(Debug, Serialize)]
pub(super) struct Scaling {
    pub scopes: u8,
    pub stages: Vec<Stage>,
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
    for size in sizes {
        let missing = size.saturating_sub(stored);
        eprintln!("{size} reservations: making {missing}");
        if missing > 0 {
            let filled = bare.run(CLIENTS, Script::Fill(missing)).await?;
            stored += filled.held.len() as u64;
            known.extend(filled.held.into_iter().take(READS));
        }
        // Reads first: a reserve stores.
        let reader = Reader {
            store: &store,
            caller: stack.service.caller(&tenant)?,
            limit: args.load.duration,
        };
        let mut costs = reader.all(&tenant, &known).await?;
        let (reserve, made) = reserve(args, &stack, &tenant, &store).await?;
        costs.push(reserve);
        stages.push(Stage { stored, costs });
        stored += made;
    }
    Ok(Scaling {
        scopes: args.load.scopes,
        stages,
    })
}

/// Reserves over HTTP with one client; also how many.
async fn reserve(
    args: &BenchArgs,
    stack: &Stack,
    tenant: &Tenant,
    store: &Store,
) -> Result<(Cost, u64), BenchError> {
    let load = LoadArgs {
        clients: 1,
        workload: Workload::Reserve,
        ..args.load.clone()
    };
    store.reset_statistics().await?;
    let measured = load::run(&stack.service, tenant, &load, args.progress).await?;
    let recorder = measured.books.recorder;
    let calls = recorder.summaries(measured.elapsed).swap_remove(0);
    let cost = cost(store, calls, recorder.attempts).await?;
    Ok((cost, recorder.finished))
}

/// Redis's part of so many requests since the last reset.
async fn cost(store: &Store, calls: Summary, requests: u64) -> Result<Cost, BenchError> {
    let statistics = store.statistics().await?;
    let requests = requests.max(1) as f64;
    Ok(Cost {
        calls,
        redis_us: statistics.command("evalsha").us as f64 / requests,
        round_trips: round_trips(&statistics) as f64 / requests,
    })
}

struct Reader<'a> {
    store: &'a Store,
    caller: Caller,
    /// How long one kind of read may take in all.
    limit: Duration,
}

impl Reader<'_> {
    async fn all(mut self, tenant: &Tenant, known: &[Held]) -> Result<Vec<Cost>, BenchError> {
        let path = |(id, _): &Held| format!("/v1/reservations/{}", id.as_str());
        let gets: Vec<String> = known.iter().rev().take(READS).map(path).collect();
        let balances = format!("/v1/balances?tenant={}&limit={PAGE}", tenant.id);
        let list = format!("/v1/reservations?limit={PAGE}");
        Ok(vec![
            self.paths("get", gets.into_iter()).await?,
            self.paths("balances page", std::iter::repeat_n(balances, READS))
                .await?,
            self.paths("list, first page", std::iter::repeat_n(list.clone(), READS))
                .await?,
            self.pages("list, page by page", &list).await?,
        ])
    }

    async fn paths(
        &mut self,
        name: &'static str,
        paths: impl Iterator<Item = String>,
    ) -> Result<Cost, BenchError> {
        let mut times = Times::start(self.store).await?;
        for path in paths {
            if times.begun.elapsed() >= self.limit {
                break;
            }
            times.read(&mut self.caller, &path).await?;
        }
        times.cost(name, self.store).await
    }

    /// Follows cursors from the first page.
    async fn pages(&mut self, name: &'static str, list: &str) -> Result<Cost, BenchError> {
        let mut times = Times::start(self.store).await?;
        let mut path = list.to_owned();
        for _ in 0..READS {
            if times.begun.elapsed() >= self.limit {
                break;
            }
            let page = times.read(&mut self.caller, &path).await?;
            path = match page["next_cursor"].as_str() {
                Some(cursor) => format!("{list}&cursor={cursor}"),
                None => list.to_owned(),
            };
        }
        times.cost(name, self.store).await
    }
}

/// Times of one kind of read.
struct Times {
    histogram: Histogram<u32>,
    begun: Instant,
}

impl Times {
    async fn start(store: &Store) -> Result<Self, BenchError> {
        store.reset_statistics().await?;
        Ok(Self {
            histogram: histogram(),
            begun: Instant::now(),
        })
    }

    async fn read(&mut self, caller: &mut Caller, path: &str) -> Result<Value, BenchError> {
        let begun = Instant::now();
        let read = caller.get("reading", path).await?;
        record(&mut self.histogram, begun.elapsed());
        Ok(read)
    }

    async fn cost(self, name: &'static str, store: &Store) -> Result<Cost, BenchError> {
        let elapsed: Duration = self.begun.elapsed();
        let calls = summary(name, &self.histogram, elapsed);
        cost(store, calls, self.histogram.len()).await
    }
}

impl fmt::Display for Scaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.stages.first() else {
            return Ok(());
        };
        let scopes = self.scopes;
        for (at, cost) in first.costs.iter().enumerate() {
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
        Ok(())
    }
}

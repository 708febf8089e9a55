//! Whether an operation costs more when more is stored: the same few measured with ever more reservations of one tenant.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::args::{BenchArgs, LoadArgs, Workload};
use super::error::BenchError;
use super::ledger::{Difference, Sums};
use super::load;
use super::provision::Tenant;
use super::report::write_differences;
use super::scaling::{Cost, PAGE, READS, Reader, Stage, redis_us, write_stages};
use super::script::{Held, Script};
use super::stack::Stack;
use crate::store::Store;

const CLIENTS: u16 = 50;

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
    /// Nothing measured yet.
    pub fn empty(scopes: u8) -> Self {
        Self {
            scopes,
            stages: Vec::new(),
            error_rate: 0.0,
            differences: Vec::new(),
            unsettled: 0,
        }
    }

    /// Takes over what failed.
    pub fn count(&mut self, books: &Books) {
        self.error_rate = books.failed as f64 / books.attempts.max(1) as f64;
        self.unsettled = books.unsettled;
    }

    /// Whether every ledger agreed, and no more requests failed than allowed.
    pub fn is_well(&self, max_error_rate: f64) -> bool {
        let agrees = self.differences.is_empty() && self.unsettled == 0;
        agrees && self.error_rate <= max_error_rate
    }
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
        let mut costs = reads(reader, &tenant, &known).await?;
        let (reserve, made) = reserve(args, &stack, &tenant, &store, &mut books).await?;
        costs.push(reserve);
        stages.push(Stage { stored, costs });
        stored += made;
    }
    let mut scaling = Scaling {
        stages,
        differences: stack.service.check(&tenant, &books.sums).await?,
        ..Scaling::empty(args.load.scopes)
    };
    scaling.count(&books);
    Ok(scaling)
}

/// Reads of a few kinds.
async fn reads(
    mut reader: Reader<'_>,
    tenant: &Tenant,
    known: &[Held],
) -> Result<Vec<Cost>, BenchError> {
    let path = |(id, _): &Held| format!("/v1/reservations/{}", id.as_str());
    let gets: Vec<String> = known.iter().rev().take(READS).map(path).collect();
    let balances = [format!("/v1/balances?tenant={}&limit={PAGE}", tenant.id)];
    let list = [format!("/v1/reservations?limit={PAGE}")];
    Ok(vec![
        reader.cost("get", &gets, false).await?,
        reader.cost("balances page", &balances, false).await?,
        reader.cost("list, first page", &list, false).await?,
        reader.cost("list, page by page", &list, true).await?,
    ])
}

/// What all reserves came to.
#[derive(Default)]
pub(super) struct Books {
    pub sums: Sums,
    attempts: u64,
    failed: u64,
    unsettled: u64,
}

impl Books {
    /// Adds what failed under another tenant.
    pub fn add_failures(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.failed += other.failed;
        self.unsettled += other.unsettled;
    }
}

/// Reserves over HTTP with one client; also how many.
pub(super) async fn reserve(
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

impl fmt::Display for Scaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = format!("one client, {} scopes", self.scopes);
        write_stages(f, &self.stages, &how)?;
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

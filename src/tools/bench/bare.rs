//! `bench --bare`: the scripts alone, on a Redis of the caller.

use std::fmt;

use serde::Serialize;

use super::args::BenchArgs;
use super::error::BenchError;
use super::ledger::Difference;
use super::report::{DISAGREES, Outcome, write_differences};
use super::script::{COLUMNS, Script, ScriptRun};
use super::session::Deployment;
use super::stack::Stack;
use super::table::Table;

/// Figures of the two scripts.
#[derive(Debug, Serialize)]
pub(super) struct BareReport {
    pub scopes: u8,
    /// `reserve`, then `commit`.
    pub scripts: Vec<ScriptRun>,
    /// Memory of Redis for a committed reservation, in bytes.
    pub bytes_per_reservation: f64,
    /// Ledgers whose figures are not the totals of the replies.
    pub differences: Vec<Difference>,
}

/// Reserves for as long as `args` say, then commits everything. A random key prefix is removed at the end.
pub(super) async fn run(args: &BenchArgs) -> Result<BareReport, BenchError> {
    let random = || format!("bench-{:012x}", rand::random::<u64>() >> 16);
    let deployment = Deployment {
        redis_url: args.redis_url.clone().ok_or(BenchError::NoRedisUrl)?,
        key_prefix: args.key_prefix.clone().unwrap_or_else(random),
        dialect: args.dialect,
    };
    let stack = Stack::start_service(deployment).await?;
    let measured = measure(args, &stack).await;
    if args.key_prefix.is_none() {
        stack.deployment.store()?.erase().await?;
    }
    measured
}

async fn measure(args: &BenchArgs, stack: &Stack) -> Result<BareReport, BenchError> {
    let (load, store) = (&args.load, stack.deployment.store()?);
    let tenant = stack.service.provision(load.scopes).await?;
    let scripts = stack.scripts(&tenant);
    let before = store.statistics().await?.used_memory;
    let reserve = Script::reserve_for(load.duration);
    let mut reserve = scripts.run(load.clients, reserve).await?;
    let commit = Script::Commit(std::mem::take(&mut reserve.held));
    let commit = scripts.run(load.clients, commit).await?;
    let after = store.statistics().await?.used_memory;
    let mut totals = reserve.totals;
    totals.add(&commit.totals);
    Ok(BareReport {
        scopes: load.scopes,
        bytes_per_reservation: (after as f64 - before as f64) / commit.held.len() as f64,
        scripts: vec![reserve, commit],
        differences: stack.service.check(&tenant, &totals).await?,
    })
}

impl Outcome for BareReport {
    fn is_well(&self, _: f64) -> bool {
        self.differences.is_empty()
    }
}

impl fmt::Display for BareReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&format!("scripts alone, {} scopes", self.scopes), &COLUMNS);
        for run in &self.scripts {
            table.row(&run.name(), run.cells());
        }
        writeln!(f, "{table}")?;
        let bytes = self.bytes_per_reservation;
        writeln!(
            f,
            "memory of Redis per committed reservation: {bytes:.0} bytes"
        )?;
        if !self.differences.is_empty() {
            writeln!(f, "ledger: {DISAGREES}")?;
        }
        write_differences(f, &self.differences)
    }
}

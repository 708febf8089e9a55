//! `bench --bare`: the scripts alone, on a Redis of the caller.

use secrecy::ExposeSecret;
use serde::Serialize;

use super::args::BenchArgs;
use super::error::BenchError;
use super::ledger::{Difference, disagreement};
use super::report::BenchReport;
use super::script::{ScriptRun, table, totals};
use super::stack::Stack;
use crate::config::StoreConfig;
use crate::store::{Keys, RedisOptions};

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
    let random = || {
        let prefix = format!("bench-{:012x}", rand::random::<u64>() >> 16);
        Keys::new(&prefix).expect("hexadecimal digits make a prefix")
    };
    let redis_url = args.redis_url.as_ref().ok_or(BenchError::NoRedisUrl)?;
    let deployment = StoreConfig {
        redis: RedisOptions::new(redis_url.expose_secret()),
        keys: args.key_prefix.clone().unwrap_or_else(random),
        dialect: args.dialect,
    };
    let stack = Stack::start_service(deployment).await?;
    let measured = measure(args, &stack).await;
    if args.key_prefix.is_none() {
        stack.erase().await?;
    }
    measured
}

async fn measure(args: &BenchArgs, stack: &Stack) -> Result<BareReport, BenchError> {
    let load = &args.load;
    let tenant = stack.service.provision(load.scopes).await?;
    let (scripts, bytes_per_reservation) = stack
        .reserve_and_commit(&tenant, &[load.clients], load.duration)
        .await?;
    Ok(BareReport {
        scopes: load.scopes,
        bytes_per_reservation,
        differences: stack.service.check(&tenant, &totals(&scripts)).await?,
        scripts,
    })
}

impl BenchReport for BareReport {
    fn is_well(&self, _: f64) -> bool {
        self.differences.is_empty()
    }

    fn text(&self) -> String {
        let (table, bytes) = (
            table(&self.scripts, self.scopes),
            self.bytes_per_reservation,
        );
        let text =
            format!("{table}\nmemory of Redis per committed reservation: {bytes:.0} bytes\n");
        text + &disagreement("ledger", &self.differences)
    }
}

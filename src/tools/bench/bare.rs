//! The scripts alone, on a Redis of the caller's choice.

use std::fmt;
use std::sync::Arc;

use clap::Parser;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use tokio::net::TcpListener;

use super::args::BenchArgs;
use super::error::BenchError;
use super::ledger::Difference;
use super::provision::{Service, Tenant};
use super::report::{clients, time, write_differences};
use super::script::{Script, ScriptRun};
use super::session::Bare;
use super::table::Table;
use super::target::Target;
use crate::api;
use crate::config::ServeArgs;

/// Figures of the two scripts.
#[derive(Debug, Serialize)]
pub(super) struct BareReport {
    pub scopes: u8,
    /// `reserve`, then `commit`.
    pub scripts: Vec<ScriptRun>,
    /// Memory of Redis for a reservation that was committed, in bytes.
    pub bytes_per_reservation: f64,
    /// Ledgers that do not show what the scripts answered.
    pub differences: Vec<Difference>,
}

impl BareReport {
    /// Whether every ledger shows what the scripts answered.
    pub fn is_well(&self) -> bool {
        self.differences.is_empty()
    }
}

/// Reads the settings of a service, which makes the tenant.
#[derive(Parser)]
struct Settings {
    #[command(flatten)]
    serve: ServeArgs,
}

/// Reserves for as long as `args` say, then commits all of it.
pub(super) async fn run(args: &BenchArgs) -> Result<BareReport, BenchError> {
    let redis_url = args.redis_url.clone().ok_or(BenchError::NoRedisUrl)?;
    let random = || format!("bench-{:012x}", rand::random::<u64>() >> 16);
    let key_prefix = args.key_prefix.clone().unwrap_or_else(random);
    let service = serve(args, &redis_url, &key_prefix).await?;
    let tenant = service.provision(args.load.scopes).await?;
    let bare = Bare::of(&tenant, redis_url, &key_prefix, args.dialect);
    let measured = measure(args, &bare, &service, &tenant).await;
    if args.key_prefix.is_none() {
        bare.store()?.erase().await?;
    }
    measured
}

async fn measure(
    args: &BenchArgs,
    bare: &Bare,
    service: &Service,
    tenant: &Tenant,
) -> Result<BareReport, BenchError> {
    let (store, clients) = (bare.store()?, args.load.clients);
    let before = store.statistics().await?.used_memory;
    let reserve = Script::Reserve(args.load.duration);
    let mut reserve = bare.run(clients, reserve).await?;
    let held = std::mem::take(&mut reserve.held);
    let reservations = held.len() as f64;
    let commit = bare.run(clients, Script::Commit(held)).await?;
    let after = store.statistics().await?.used_memory;
    let mut sums = reserve.sums;
    sums.add(&commit.sums);
    Ok(BareReport {
        scopes: args.load.scopes,
        scripts: vec![reserve, commit],
        bytes_per_reservation: (after as f64 - before as f64) / reservations,
        differences: service.check(tenant, &sums).await?,
    })
}

/// Serves this Redis, for as long as the process lives: a tenant is made and its ledgers are read as by anybody else.
async fn serve(
    args: &BenchArgs,
    redis_url: &SecretString,
    key_prefix: &str,
) -> Result<Service, BenchError> {
    let admin_key = format!("{:032x}", rand::random::<u128>());
    let words = [
        "serve",
        "--redis-url",
        redis_url.expose_secret(),
        "--key-prefix",
        key_prefix,
        "--dialect",
        args.dialect.as_str(),
        "--admin-keys",
        &admin_key,
        "--allow-plaintext-secrets",
    ];
    let settings = Settings::try_parse_from(words)?;
    let config = settings.serve.into_config()?;
    let store = config.store.open(&prometheus::Registry::new())?;
    let planes = api::planes(&config, &store);
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.map_err(BenchError::Stack)?;
    let address = listener.local_addr().map_err(BenchError::Stack)?;
    tokio::spawn(async move { axum::serve(listener, planes.api).await });
    let target: Arc<Target> = Arc::new(format!("http://{address}").parse()?);
    Ok(Service {
        runtime: Arc::clone(&target),
        admin: target,
        admin_key: admin_key.into(),
        dialect: args.dialect,
    })
}

/// The columns of [`ScriptRun::cells`].
pub(super) const COLUMNS: [&str; 5] = ["per s", "p50", "p99", "in Redis", "busy"];

impl ScriptRun {
    pub fn name(&self) -> String {
        clients(self.calls.operation, self.clients)
    }

    pub fn cells(&self) -> [String; 5] {
        [
            format!("{:.0}", self.calls.per_second),
            time(self.calls.p50_us),
            time(self.calls.p99_us),
            time(self.redis_us_per_call),
            format!("{:.0} %", self.redis_busy * 100.0),
        ]
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
        if !self.is_well() {
            writeln!(f, "ledger: does NOT agree with the answers")?;
        }
        write_differences(f, &self.differences)
    }
}

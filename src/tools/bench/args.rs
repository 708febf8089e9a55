//! The settings of a benchmark.

use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::fmt::friendly::SpanParser;
use secrecy::SecretString;
use url::Url;

use super::recorder::Operation;
use crate::domain::dialect::Dialect;
use crate::tools::call::CallError;
use crate::tools::client::base_url;
use crate::tools::connection::DEFAULT_URL;

/// Settings of `budget-authority bench`.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// URL of the API, plain HTTP
    #[arg(long, env = "BUDGET_URL", default_value = DEFAULT_URL, value_parser = plain_url)]
    pub(super) url: Url,
    /// URL of the admin plane, if it has its own address
    #[arg(long, env = "BUDGET_ADMIN_URL", value_name = "URL", value_parser = plain_url)]
    pub(super) admin_url: Option<Url>,
    /// Admin key, because the benchmark creates a tenant of its own
    #[arg(
        long,
        env = "BUDGET_ADMIN_KEY",
        value_name = "KEY",
        hide_env_values = true
    )]
    pub(super) admin_key: Option<SecretString>,
    /// Vendor names that the service was started with
    #[arg(long, env = "BUDGET_DIALECT", default_value = "service")]
    pub(super) dialect: Dialect,
    /// Clients, each with a connection and one request in flight
    #[arg(long, value_name = "N", default_value = "50",
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(super) clients: u16,
    /// How long to measure: 10s, 500ms, 2m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(super) duration: Duration,
    /// How long to warm up before that
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub(super) warmup: Duration,
    /// Budgets on the path of each request, tenant included
    #[arg(long, value_name = "N", default_value = "3",
          value_parser = clap::value_parser!(u8).range(1..=6))]
    pub(super) scopes: u8,
    /// Operations that each client repeats
    #[arg(long, value_name = "KIND", default_value = "mixed")]
    pub(super) workload: Workload,
    /// Share of requests, 0 to 1, that may fail before the exit code is 1
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub(super) max_error_rate: f64,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print a line per second, also without a terminal
    #[arg(long)]
    pub(super) progress: bool,
    /// Start a private Redis and a service, and measure the scripts alone beside the service
    #[arg(long)]
    pub(super) compare: bool,
    /// Start both, dispatchers and receivers, and measure deliveries of webhooks
    #[arg(long, conflicts_with = "compare")]
    pub(super) deliver: bool,
}

impl BenchArgs {
    /// Refuses a run that would outlive its own holds: the ledgers would lack them, as if the service had lost them.
    pub(super) fn refuse_too_long(&self) -> Result<(), CallError> {
        let (what, minutes) = match self.workload {
            // A later run commits the holds, and takes about as long as the ones before it.
            _ if self.compare => ("a run that commits what it has reserved", 15),
            Workload::Reserve if !self.deliver => ("--workload reserve", 55),
            _ => return Ok(()),
        };
        if self.warmup + self.duration <= Duration::from_secs(minutes * 60) {
            return Ok(());
        }
        Err(CallError::Usage(format!(
            "holds live an hour: {what} may take {minutes} minutes at most, warm-up included"
        )))
    }

    pub(super) fn name(&self) -> String {
        clients(self.workload.into(), self.clients)
    }
}

/// The name of a run.
pub(super) fn clients(what: &str, clients: u16) -> String {
    let plural = if clients == 1 { "" } else { "s" };
    format!("{what}, {clients} client{plural}")
}

/// What each client repeats. Every operation is measured separately.
#[derive(Debug, Clone, Copy, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Workload {
    /// Only reserves; the holds stay
    Reserve,
    /// Reserves, then commits
    Commit,
    /// Reserves, then releases
    Release,
    /// Of ten requests four reserve, three commit, one releases, one decides, one creates a usage event
    Mixed,
    /// Only decides
    Decide,
    /// Only creates usage events, which charge without a hold
    Event,
}

impl Workload {
    /// The operations that a client repeats. A commit or release ends the reservation of the step before it, so clients may
    /// start at any even step.
    pub fn steps(self) -> &'static [Operation] {
        use Operation::{Commit, Decide, Event, Release, Reserve};
        match self {
            Self::Reserve => &[Reserve],
            Self::Commit => &[Reserve, Commit],
            Self::Release => &[Reserve, Release],
            Self::Mixed => &[
                Reserve, Commit, Reserve, Commit, Reserve, Commit, Reserve, Release, Decide, Event,
            ],
            Self::Decide => &[Decide],
            Self::Event => &[Event],
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let time = SpanParser::new().parse_unsigned_duration(text).ok();
    time.filter(|time| *time <= Duration::from_secs(86_400))
        .ok_or_else(|| "write a time with its unit, at most a day: 10s, 500ms, 2m".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a number from 0 to 1".to_owned()),
    }
}

/// Reads the address of a service: plain HTTP, without query, fragment or credentials.
fn plain_url(text: &str) -> Result<Url, String> {
    let url = base_url(text)?;
    let plain = url.username().is_empty() && url.password().is_none();
    match url.scheme() {
        "http" if plain && url.query().is_none() && url.fragment().is_none() => Ok(url),
        "http" => Err("a service's URL has no query, fragment or credentials".to_owned()),
        _ => Err("only plain http:// can be measured, without TLS before the service".to_owned()),
    }
}

//! The settings of a benchmark.

use std::fmt;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::SignedDuration;
use secrecy::SecretString;
use url::Url;

use super::connection::plain_url;
use super::error::BenchError;
use crate::domain::dialect::Dialect;
use crate::domain::words::words;
use crate::store::Keys;

/// Settings of `budget-authority bench`.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// URL of the API, plain HTTP
    #[arg(
        long,
        env = "BUDGET_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:7878",
        value_parser = plain_url
    )]
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
    #[command(flatten)]
    pub(super) load: LoadArgs,
    /// Share of requests, 0 to 1, that may fail before the exit code is 1
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub(super) max_error_rate: f64,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print a line per second, also without a terminal
    #[arg(long)]
    pub(super) progress: bool,
    /// Run the scripts against Redis without HTTP
    #[arg(long, requires = "redis_url", group = "mode")]
    pub(super) bare: bool,
    /// Redis for --bare
    #[arg(
        long,
        env = "BUDGET_REDIS_URL",
        value_name = "URL",
        hide_env_values = true
    )]
    pub(super) redis_url: Option<SecretString>,
    /// Prefix of every key of --bare; by default a random one, whose keys are removed at the end
    #[arg(long, value_name = "PREFIX", value_parser = Keys::new)]
    pub(super) key_prefix: Option<Keys>,
    /// Start a private Redis and a service, and measure the scripts alone beside the service
    #[arg(long, group = "mode")]
    pub(super) compare: bool,
    /// Start both, and measure with these numbers of stored reservations: 1000,1000000
    #[arg(long, value_name = "N,…", value_delimiter = ',', group = "mode")]
    pub(super) compare_stored: Vec<u64>,
    /// Start both and a dispatcher, and measure pages of the admin plane with these numbers of budgets, events and audit entries
    #[arg(long, value_name = "N,…", value_delimiter = ',', group = "mode")]
    pub(super) compare_listed: Vec<u64>,
    /// Start both, and measure a reserve under a tenant with these numbers of policies: 0,100
    #[arg(long, value_name = "N,…", value_delimiter = ',', group = "mode")]
    pub(super) compare_policies: Vec<u64>,
    /// Start both and a dispatcher, and measure what a tenant that goes to every limit costs another one
    #[arg(long, group = "mode")]
    pub(super) limits: bool,
    /// Start both, dispatchers and receivers, and measure deliveries of webhooks
    #[arg(long, group = "mode")]
    pub(super) deliver: bool,
    /// Start both, once with evidence and once without, and a dispatcher, and measure what signed evidence costs
    #[arg(long, group = "mode")]
    pub(super) evidence: bool,
}

impl BenchArgs {
    /// Refuses a run that would outlive its own holds: the ledgers would lack them, as if the service had lost them.
    ///
    /// # Errors
    /// [`BenchError::TooLong`].
    pub(super) fn refuse_too_long(&self) -> Result<(), BenchError> {
        let (what, minutes) = if self.bare || self.compare {
            // A later run commits the holds, and takes about as long as the ones before it.
            ("a run that commits what it has reserved", 15)
        } else if self.load.workload == Workload::Reserve && self.compare_stored.is_empty() {
            ("--workload reserve", 55)
        } else {
            return Ok(());
        };
        match self.load.warmup + self.load.duration <= Duration::from_secs(minutes * 60) {
            true => Ok(()),
            false => Err(BenchError::TooLong { what, minutes }),
        }
    }
}

/// The shape of the load.
#[derive(Debug, Clone, Args)]
pub(super) struct LoadArgs {
    /// Clients, each with a connection and one request in flight
    #[arg(long, value_name = "N", default_value = "50",
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub clients: u16,
    /// How long to measure: 10s, 500ms, 2m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub duration: Duration,
    /// How long to warm up before that
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub warmup: Duration,
    /// Budgets on the path of each request, tenant included
    #[arg(long, value_name = "N", default_value = "3",
          value_parser = clap::value_parser!(u8).range(1..=6))]
    pub scopes: u8,
    /// Operations that each client repeats
    #[arg(long, value_name = "KIND", default_value = "mixed")]
    pub workload: Workload,
}

/// What each client repeats. Every operation is measured separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
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

words! {
    /// One request of the runtime plane.
    Operation {
        /// Holds an estimate.
        Reserve = "reserve",
        /// Ends a hold with a charge.
        Commit = "commit",
        /// Ends a hold without a charge.
        Release = "release",
        /// Asks whether a hold could be made.
        Decide = "decide",
        /// Charges without a hold.
        Event = "event",
    }
}

impl Workload {
    /// The operations that a client repeats. A commit or release finishes the reservation of the step before it, so clients
    /// may start at any even step.
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

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("every workload has a name");
        f.write_str(value.get_name())
    }
}

/// Reads a time with its unit.
fn duration(text: &str) -> Result<Duration, String> {
    let time = text.parse::<SignedDuration>().ok();
    let time = time.and_then(|time| Duration::try_from(time).ok());
    time.filter(|time| *time <= Duration::from_secs(86_400))
        .ok_or_else(|| "write a time with its unit, at most a day: 10s, 500ms, 2m".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a number from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("0ms"), Ok(Duration::ZERO));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        for wrong in ["", "10", "s", "25h", "-1s", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_run_outlives_its_holds() {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            bench: BenchArgs,
        }
        let refused = |words: &[&str]| {
            let words = ["bench"].iter().chain(words);
            let cli = <Cli as clap::Parser>::try_parse_from(words);
            cli.expect("known flags").bench.refuse_too_long().is_err()
        };
        assert!(refused(&["--workload", "reserve", "--duration", "55m"]));
        assert!(!refused(&["--workload", "reserve", "--duration", "54m"]));
        assert!(!refused(&["--workload", "mixed", "--duration", "600m"]));
        assert!(refused(&["--compare", "--duration", "16m"]));
        let both = ["bench", "--compare", "--compare-stored", "1,2"];
        assert!(<Cli as clap::Parser>::try_parse_from(both).is_err());
    }

    #[test]
    fn a_commit_or_release_follows_a_reserve_wherever_a_client_starts() {
        use Workload::{Commit, Decide, Event, Mixed, Release, Reserve};
        for workload in [Reserve, Commit, Release, Mixed, Decide, Event] {
            let steps = workload.steps();
            for (at, step) in steps.iter().enumerate() {
                if matches!(step, Operation::Commit | Operation::Release) {
                    assert_eq!(at % 2, 1);
                    assert_eq!(steps[at - 1], Operation::Reserve);
                }
            }
        }
    }
}

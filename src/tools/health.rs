//! `budget-authority health`: asks processes for their health, as a container's health check or once a release is installed.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::Url;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::client::{base_url, deepest_cause, http_builder, printable};
use crate::config::{LISTEN, METRICS_LISTEN, address_or_off};

/// Pause before an address is probed again.
const PAUSE: Duration = Duration::from_millis(500);

/// Arguments of `health`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Prints one line per address. Exit code: 0 all are healthy, 1 one is not healthy or nobody listens there, 2 wrong usage.

Examples:
  budget-authority health                               the API, on the address of BUDGET_LISTEN
  budget-authority health --metrics                     a dispatcher, or any process, on the address of BUDGET_METRICS_LISTEN
  budget-authority health --live                        whether the process runs, whatever the state of Redis
  budget-authority health --url http://127.0.0.1:7880   another address
  budget-authority health --wait-s 60 --url http://api:7878 --url http://dispatcher:7879
                                                        two addresses, each for up to a minute until it is healthy")]
pub struct HealthArgs {
    /// Address of the process, in place of that in the settings: http://host:port. A path that it names replaces /ready. May be given several times
    #[arg(long = "url", value_name = "URL", conflicts_with = "metrics", value_parser = plain_url)]
    urls: Vec<Url>,
    /// Use the address of /metrics, which has the probes too: the only address of a dispatcher
    #[arg(long)]
    metrics: bool,
    /// Ask whether the process runs (/live), not whether it can serve requests (/ready)
    #[arg(long)]
    live: bool,
    /// Ask each address again until it is healthy, for at most this many seconds; then start no further request
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    wait_s: Option<u64>,
    /// How long to wait for a response, in milliseconds
    #[arg(long, value_name = "MS", default_value = "2000", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    timeout_ms: u64,
    /// Address of the API; an unspecified one such as 0.0.0.0 means 127.0.0.1
    #[arg(
        long,
        env = "BUDGET_LISTEN",
        value_name = "ADDR:PORT",
        default_value = LISTEN
    )]
    listen: SocketAddr,
    /// Address of /metrics, used with --metrics
    #[arg(
        long,
        env = "BUDGET_METRICS_LISTEN",
        value_name = "ADDR:PORT",
        default_value = METRICS_LISTEN,
        value_parser = address_or_off
    )]
    // Written as a path, so that clap reads it as a value of its own and not as a flag that may be absent.
    metrics_listen: std::option::Option<SocketAddr>,
}

fn plain_url(text: &str) -> Result<Url, String> {
    match base_url(text)? {
        url if url.scheme() == "http" => Ok(url),
        _ => Err("probes are asked over plain HTTP; write http://host:port".to_owned()),
    }
}

/// Probes the processes at the same time, and prints one line for each.
pub async fn run(args: HealthArgs) -> ExitCode {
    let urls = match args.probes() {
        Ok(urls) => urls,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::from(2);
        }
    };
    let timeout = Duration::from_millis(args.timeout_ms);
    let wait = Duration::from_secs(args.wait_s.unwrap_or(0));
    let probing: Vec<_> = urls
        .into_iter()
        .map(|url| tokio::spawn(line(url, timeout, wait)))
        .collect();
    let mut code = ExitCode::SUCCESS;
    for probed in probing {
        match probed.await.expect("a probe does not panic") {
            Ok(line) => println!("healthy: {line}"),
            Err(line) => {
                println!("not healthy: {line}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

impl HealthArgs {
    /// The URLs of the probes, or why these arguments name none.
    fn probes(&self) -> Result<Vec<Url>, String> {
        let mut urls = self.urls.clone();
        if urls.is_empty() {
            let mut address = match self.metrics {
                false => self.listen,
                true => self.metrics_listen.ok_or(
                    "BUDGET_METRICS_LISTEN is off: the process has no probes on an address of its metrics",
                )?,
            };
            // `::` takes IPv4, too; a container may have no `::1`.
            if address.ip().is_unspecified() {
                address.set_ip(Ipv4Addr::LOCALHOST.into());
            }
            urls.push(plain_url(&format!("http://{address}"))?);
        }
        urls.into_iter().map(|url| self.probe(url)).collect()
    }

    /// The URL with the path of the probe, unless it names one.
    fn probe(&self, mut url: Url) -> Result<Url, String> {
        if url.path() == "/" {
            url.set_path(if self.live { "/live" } else { "/ready" });
        } else if self.live {
            let url = printable(&url);
            return Err(format!("{url} names a path: leave that out, or --live"));
        }
        Ok(url)
    }
}

/// The line about an address: `Ok` if it is healthy within `wait`.
async fn line(url: Url, timeout: Duration, wait: Duration) -> Result<String, String> {
    let until = Instant::now() + wait;
    let name = printable(&url);
    loop {
        match probe(&url, timeout).await {
            Ok(None) => return Ok(format!("{name} returned 200")),
            Ok(Some(warning)) => return Ok(format!("{name} returned 200; warning: {warning}")),
            Err(_) if Instant::now() + PAUSE < until => sleep(PAUSE).await,
            Err(reason) => return Err(format!("{name} {reason}")),
        }
    }
}

/// Sends the request. Returns the warning of a healthy process, or why it is not healthy.
async fn probe(url: &Url, timeout: Duration) -> Result<Option<String>, String> {
    // A proxy of the environment does not reach this machine's own addresses.
    let client = http_builder(timeout)
        .no_proxy()
        .tls_certs_only([])
        .build()
        .map_err(|error| deepest_cause(&error))?;
    let failed = |error: reqwest::Error| match error.is_timeout() {
        true => format!("did not respond within {} ms", timeout.as_millis()),
        false => format!("cannot be reached: {}", deepest_cause(&error)),
    };
    let response = client.get(url.clone()).send().await.map_err(failed)?;
    let status = response.status().as_u16();
    if status != 200 {
        return Err(format!("returned {status}"));
    }
    let body = response.text().await.map_err(failed)?;
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    Ok(body["warning"].as_str().map(str::to_owned))
}

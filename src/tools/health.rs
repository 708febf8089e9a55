//! `budget-authority health`: asks a process of this machine for its health, as a container's health check.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::Url;
use serde_json::Value;

use super::client::{base_url, deepest_cause, printable};
use crate::config::{LISTEN, METRICS_LISTEN, address_or_off};

/// Arguments of `health`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Prints one line. Exit code: 0 healthy, 1 not healthy or nobody listens, 2 wrong usage.

Examples:
  budget-authority health                               the API, on the address of BUDGET_LISTEN
  budget-authority health --metrics                     a dispatcher, or any process, on the address of BUDGET_METRICS_LISTEN
  budget-authority health --live                        whether the process runs, whatever the state of Redis
  budget-authority health --url http://127.0.0.1:7880   another address")]
pub struct HealthArgs {
    /// Address of the process, in place of that in the settings: http://host:port. A path that it names replaces /ready
    #[arg(long, value_name = "URL", conflicts_with = "metrics", value_parser = plain_url)]
    url: Option<Url>,
    /// Use the address of /metrics, which has the probes too: the only address of a dispatcher
    #[arg(long)]
    metrics: bool,
    /// Ask whether the process runs (/live), not whether it can serve requests (/ready)
    #[arg(long)]
    live: bool,
    /// How long to wait for the response, in milliseconds
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

/// Probes the process and prints one line.
pub async fn run(args: HealthArgs) -> ExitCode {
    let Some(url) = args.probe() else {
        eprintln!(
            "BUDGET_METRICS_LISTEN is off: the process has no probes on an address of its metrics"
        );
        return ExitCode::from(2);
    };
    let outcome = probe(&url, Duration::from_millis(args.timeout_ms)).await;
    let url = printable(&url);
    match outcome {
        Ok(warning) => {
            let warning = warning.map_or_else(String::new, |text| format!("; warning: {text}"));
            println!("healthy: {url} returned 200{warning}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            println!("not healthy: {url} {reason}");
            ExitCode::FAILURE
        }
    }
}

impl HealthArgs {
    /// The URL of the probe; `None` where the metrics have no address.
    fn probe(&self) -> Option<Url> {
        let mut url = match (&self.url, self.metrics) {
            (Some(url), _) => url.clone(),
            (None, false) => url_of(self.listen),
            (None, true) => url_of(self.metrics_listen?),
        };
        if url.path() == "/" {
            url.set_path(if self.live { "/live" } else { "/ready" });
        }
        Some(url)
    }
}

/// Where a process that listens on this address is found from the same machine.
fn url_of(mut address: SocketAddr) -> Url {
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    Url::parse(&format!("http://{address}")).expect("an address makes a URL")
}

/// Sends the request; the warning of a healthy process, or why it is not healthy.
async fn probe(url: &Url, timeout: Duration) -> Result<Option<String>, String> {
    // An error only says that the process has a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A proxy of the environment does not reach this machine's own addresses.
    let client = reqwest::Client::builder()
        .timeout(timeout)
        .redirect(reqwest::redirect::Policy::none())
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

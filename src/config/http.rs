//! Settings of HTTP: both planes of the API, and requests to webhook receivers.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use clap::builder::TypedValueParser as _;

use super::limits::LIMITS_HEADING;
use super::values::{OnOrOff as _, Setting, boolish, ms};
use crate::domain::cidr::Cidr;
use crate::domain::dialect::Dialect;
use crate::egress::{Egress, Resolver, TrustedRoots};

/// Default of `BUDGET_LISTEN`.
pub(crate) const LISTEN: &str = "0.0.0.0:7878";

/// Settings of the API.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "HTTP")]
pub struct HttpConfig {
    /// Address of the API.
    ///
    /// Change it when the port is taken, or only one network may reach the API
    #[arg(
        long,
        env = "BUDGET_LISTEN",
        value_name = "ADDR:PORT",
        default_value = LISTEN
    )]
    pub listen: SocketAddr,
    /// Address of the admin plane, to keep it off the network of agents; by default it shares the address of the API.
    ///
    /// Set it when agents must not be able to reach the admin plane
    #[arg(long, env = "BUDGET_ADMIN_LISTEN", value_name = "ADDR:PORT")]
    pub admin_listen: Option<SocketAddr>,
    /// Largest request body, in bytes.
    ///
    /// Raise it when clients get 413 for requests that they need
    #[arg(long, help_heading = LIMITS_HEADING, env = "BUDGET_BODY_LIMIT_BYTES", value_name = "BYTES", default_value = "1048576",
          value_parser = clap::value_parser!(u32).range(1_024..=16_777_216).map(|bytes| bytes as usize))]
    pub body_limit_bytes: usize,
    /// Origins whose pages may call the API from a browser, comma-separated, or `*`.
    ///
    /// Set it when a page of another origin calls the API
    #[arg(
        long,
        env = "BUDGET_CORS_ORIGINS",
        value_name = "ORIGIN,…",
        default_value = "",
        hide_default_value = true,
        value_parser = Setting(CorsOrigins::parse)
    )]
    pub cors_origins: CorsOrigins,
    /// Networks of load balancers whose X-Forwarded-For is trusted, comma-separated.
    ///
    /// Set it when a load balancer stands in front; otherwise all clients share its address, and the limits of one
    #[arg(
        long,
        env = "BUDGET_TRUSTED_PROXIES",
        value_name = "CIDR,…",
        value_delimiter = ','
    )]
    pub trusted_proxies: Vec<Cidr>,
    /// Let GET /v1/admin/budgets without a tenant list the budgets of all tenants, as some dashboards expect; `true` by
    /// default in the dialect that has them.
    ///
    /// Set it when a dashboard lists budgets without naming a tenant
    #[arg(
        long,
        env = "BUDGET_ALLOW_CROSS_TENANT_LIST",
        value_parser = boolish(),
        on_or_off(),
        default_value_if("dialect", Dialect::LISTS_ALL_TENANTS.as_str(), "true")
    )]
    pub allow_cross_tenant_list: bool,
    /// Serve the console, pages for operators and tenants, below /console on the address of the admin plane.
    ///
    /// Change it when nobody should use a browser here
    #[arg(
        long,
        env = "BUDGET_CONSOLE",
        value_parser = boolish(),
        on_or_off(),
        default_value = "true"
    )]
    pub console: bool,
    /// Time after SIGTERM in which requests are still served while /ready responds 503, so that load balancers notice,
    /// in milliseconds. Ctrl-C (SIGINT) skips it.
    ///
    /// Raise it when a load balancer sends requests to a replica that is no longer ready
    #[arg(long = "shutdown-delay-ms", env = "BUDGET_SHUTDOWN_DELAY_MS", value_name = "MS", default_value = "5000",
          value_parser = ms(0..=600_000))]
    pub shutdown_delay: Duration,
}

impl HttpConfig {
    /// Drops an address of the admin plane that is the API's own.
    pub(super) fn check(mut self) -> Self {
        // Port 0 gives a different port each time.
        let apart = |address: &SocketAddr| address.port() == 0 || *address != self.listen;
        self.admin_listen = self.admin_listen.filter(apart);
        self
    }
}

/// The origins whose pages may call the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CorsOrigins {
    /// Pages of these origins, perhaps none.
    Listed(Vec<String>),
    /// Pages of any origin.
    Any,
}

impl CorsOrigins {
    /// Reads a comma-separated list; blank means none.
    fn parse(list: &str) -> Result<Self, &'static str> {
        let origins = list.split(',').map(str::trim);
        let origins: Vec<_> = origins.filter(|origin| !origin.is_empty()).collect();
        match origins[..] {
            ["*"] => Ok(Self::Any),
            _ if origins.contains(&"*") => {
                Err("`*` means all origins and cannot be combined with others")
            }
            _ => origins
                .into_iter()
                .map(origin)
                .collect::<Result<_, _>>()
                .map(Self::Listed),
        }
    }
}

/// Reads an origin, and writes it as browsers do.
fn origin(text: &str) -> Result<String, &'static str> {
    let origin = url::Url::parse(text).map(|url| url.origin()).ok();
    origin
        .filter(|origin| origin.is_tuple())
        .map(|origin| origin.ascii_serialization())
        .filter(|origin| *origin == text.to_ascii_lowercase())
        .ok_or("an origin is `*` or scheme://host[:port] without a path")
}

/// Names of receivers that a process resolves at the same time. Each takes a thread of the runtime, which has 512.
const LOOK_UPS_MAX: usize = 32;

/// Settings of requests to webhook receivers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Webhooks")]
pub struct WebhookConfig {
    /// PEM file with the authorities that signed the certificates of webhook receivers; replaces the public ones.
    ///
    /// Set it when an authority of your own signed the certificates of receivers
    #[arg(long = "webhook-ca-file", env = "BUDGET_WEBHOOK_CA_FILE", value_name = "FILE",
          value_parser = Setting(|path: &str| TrustedRoots::of_file(Path::new(path))))]
    roots: Option<TrustedRoots>,
}

/// Deliveries of one tenant's events to one host in a second, by default.
pub const HOST_RATE: u32 = 200;

/// Settings of deliveries.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Webhooks")]
pub struct DeliveryConfig {
    /// First attempts of the events of one tenant to one subscription that may overlap; they start in order. 1 waits for the end
    /// of each, so a receiver that takes 50 ms gets 20 events a second of one tenant.
    ///
    /// Raise it when a receiver is too slow for the events of one tenant, and tolerates that they overlap
    #[arg(long = "webhook-lane-concurrency", env = "BUDGET_WEBHOOK_LANE_CONCURRENCY", value_name = "N", default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub lane_concurrency: u32,
    /// Deliveries of one tenant's events to one host that a dispatcher makes in a second; 0 for any number. Beyond it they wait.
    ///
    /// Raise it when a receiver of your own takes the events of one tenant faster
    #[arg(long = "webhook-host-rate", env = "BUDGET_WEBHOOK_HOST_RATE", value_name = "N", default_value_t = HOST_RATE)]
    pub host_rate: u32,
}

impl WebhookConfig {
    /// A client for requests to receivers.
    pub fn egress(&self) -> Egress {
        let roots = self.roots.clone().unwrap_or_else(TrustedRoots::public);
        Egress::new(Resolver::system().limited(LOOK_UPS_MAX), &roots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_no_path() {
        assert!(origin("https://app.example").is_ok());
        assert!(origin("http://localhost:3000").is_ok());
        for text in [
            "app.example",
            "https://app.example/",
            "https://a/x",
            "file:///x",
            "",
        ] {
            assert!(origin(text).is_err(), "{text}");
        }
    }
}

//! Both planes of the API.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use secrecy::SecretString;

use super::error::ConfigError;
use crate::domain::caller::{AdminKeys, EmptyAdminKey};
use crate::domain::cidr::Cidr;

/// Flags of [`HttpConfig`].
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "HTTP")]
pub struct HttpArgs {
    /// Address of the API
    #[arg(
        long,
        env = "BUDGET_LISTEN",
        value_name = "ADDR:PORT",
        default_value = "0.0.0.0:7878"
    )]
    listen: SocketAddr,
    /// Address of the admin plane, to keep it off the network of agents; by default it shares the address of the API
    #[arg(long, env = "BUDGET_ADMIN_LISTEN", value_name = "ADDR:PORT")]
    admin_listen: Option<SocketAddr>,
    /// Admin keys, comma-separated; list two while one replaces the other. Without any, no admin key is accepted
    #[arg(
        long,
        env = "BUDGET_ADMIN_KEYS",
        value_name = "KEY,…",
        default_value = "",
        hide_default_value = true,
        hide_env_values = true
    )]
    admin_keys: SecretString,
    /// Largest request body, in bytes
    #[arg(long, env = "BUDGET_BODY_LIMIT_BYTES", value_name = "BYTES", default_value = "1048576",
          value_parser = clap::value_parser!(u32).range(1_024..=16_777_216))]
    body_limit_bytes: u32,
    /// Time that a request body may take to arrive, in milliseconds
    #[arg(long, env = "BUDGET_BODY_TIMEOUT_MS", value_name = "MS", default_value = "10000",
          value_parser = clap::value_parser!(u64).range(100..=600_000))]
    body_timeout_ms: u64,
    /// Denials per tenant and minute that emit an event each; one more event counts the others
    #[arg(long, env = "BUDGET_DENIED_EVENTS_PER_MINUTE", value_name = "N", default_value = "600",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    denied_events_per_minute: u32,
    /// Origins whose pages may call the API from a browser, comma-separated, or `*`
    #[arg(
        long,
        env = "BUDGET_CORS_ORIGINS",
        value_name = "ORIGIN,…",
        value_delimiter = ','
    )]
    cors_origins: Vec<Origin>,
    /// Networks of load balancers whose X-Forwarded-For is trusted, comma-separated
    #[arg(
        long,
        env = "BUDGET_TRUSTED_PROXIES",
        value_name = "CIDR,…",
        value_delimiter = ','
    )]
    trusted_proxies: Vec<Cidr>,
    /// Let GET /v1/admin/budgets without a tenant list the budgets of all tenants, as some dashboards expect
    #[arg(
        long,
        env = "BUDGET_ALLOW_CROSS_TENANT_LIST",
        value_name = "true|false",
        default_value = "false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = BoolishValueParser::new()
    )]
    allow_cross_tenant_list: bool,
    /// Time after SIGTERM in which requests are still served while /ready responds 503, so that load balancers notice,
    /// in milliseconds. Ctrl-C (SIGINT) skips it
    #[arg(long, env = "BUDGET_SHUTDOWN_DELAY_MS", value_name = "MS", default_value = "5000",
          value_parser = clap::value_parser!(u64).range(0..=600_000))]
    shutdown_delay_ms: u64,
}

/// Settings of the API.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// `BUDGET_LISTEN`, default 0.0.0.0:7878.
    pub listen: SocketAddr,
    /// `BUDGET_ADMIN_LISTEN`: the admin plane's own address; `None` when both planes share one.
    pub admin_listen: Option<SocketAddr>,
    /// `BUDGET_ADMIN_KEYS`.
    pub admin_keys: AdminKeys,
    /// `BUDGET_BODY_LIMIT_BYTES`, default 1 MiB.
    pub body_limit_bytes: usize,
    /// `BUDGET_BODY_TIMEOUT_MS`, default 10000, from the head of the request to the end of its body.
    pub body_timeout: Duration,
    /// `BUDGET_DENIED_EVENTS_PER_MINUTE`, default 600 per tenant.
    pub denied_events_per_minute: u32,
    /// `BUDGET_CORS_ORIGINS`, default none.
    pub cors_origins: CorsOrigins,
    /// `BUDGET_TRUSTED_PROXIES`, default none: without a proxy, the peer is the client.
    pub trusted_proxies: Arc<[Cidr]>,
    /// `BUDGET_ALLOW_CROSS_TENANT_LIST`, default false: an admin key must name the tenant whose budgets it lists.
    pub allow_cross_tenant_list: bool,
    /// `BUDGET_SHUTDOWN_DELAY_MS`, default 5000: the time after SIGTERM in which readiness fails and requests are still served.
    pub shutdown_delay: Duration,
}

impl HttpArgs {
    pub(super) fn into_config(self) -> Result<HttpConfig, ConfigError> {
        let admin_keys = AdminKeys::parse(&self.admin_keys)?;
        // Port 0 gives a different port each time.
        let apart = |address: &SocketAddr| address.port() == 0 || *address != self.listen;
        let admin_listen = self.admin_listen.filter(apart);
        if admin_listen.is_some() && admin_keys.is_empty() {
            return Err(ConfigError::Contradiction {
                first: "BUDGET_ADMIN_LISTEN",
                second: "BUDGET_ADMIN_KEYS",
                reason: "the admin plane has an address but no key",
            });
        }
        Ok(HttpConfig {
            listen: self.listen,
            admin_listen,
            admin_keys,
            body_limit_bytes: self.body_limit_bytes as usize,
            body_timeout: Duration::from_millis(self.body_timeout_ms),
            denied_events_per_minute: self.denied_events_per_minute,
            cors_origins: CorsOrigins::of(self.cors_origins)?,
            trusted_proxies: self.trusted_proxies.into(),
            allow_cross_tenant_list: self.allow_cross_tenant_list,
            shutdown_delay: Duration::from_millis(self.shutdown_delay_ms),
        })
    }
}

impl From<EmptyAdminKey> for ConfigError {
    fn from(error: EmptyAdminKey) -> Self {
        Self::Value {
            variable: "BUDGET_ADMIN_KEYS",
            reason: error.to_string(),
        }
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
    fn of(origins: Vec<Origin>) -> Result<Self, ConfigError> {
        if origins.iter().any(|origin| origin.0 == "*") {
            return match origins.len() {
                1 => Ok(Self::Any),
                _ => Err(ConfigError::Value {
                    variable: "BUDGET_CORS_ORIGINS",
                    reason: "`*` means all origins and cannot be combined with others".to_owned(),
                }),
            };
        }
        Ok(Self::Listed(
            origins.into_iter().map(|origin| origin.0).collect(),
        ))
    }
}

#[derive(Debug, Clone)]
struct Origin(String);

#[derive(Debug)]
struct OriginError;

impl std::error::Error for OriginError {}

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an origin is `*` or scheme://host[:port] without a path")
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        if text == "*" {
            return Ok(Self(text.to_owned()));
        }
        let origin = url::Url::parse(text).map_err(|_| OriginError)?.origin();
        let same = origin.is_tuple() && origin.ascii_serialization() == text.to_ascii_lowercase();
        same.then(|| Self(origin.ascii_serialization()))
            .ok_or(OriginError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_no_path() {
        assert!("https://app.example".parse::<Origin>().is_ok());
        assert!("http://localhost:3000".parse::<Origin>().is_ok());
        for text in [
            "app.example",
            "https://app.example/",
            "https://a/x",
            "file:///x",
            "",
        ] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }
}

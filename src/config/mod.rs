//! The settings. Each is a flag and an environment variable of the same name (`--redis-url`, `BUDGET_REDIS_URL`), read once at
//! start. A contradiction stops the process.

mod evidence;
mod http;
mod limits;
mod log;
mod secrets;
mod store;
mod values;

use std::net::{AddrParseError, SocketAddr};
use std::time::Duration;

use clap::builder::{Resettable, TypedValueParser as _};
use clap::{Args, Command, FromArgMatches};

use crate::domain::admin_key::AdminKeys;
use crate::domain::seal::SealingKeys;
use crate::store::RedisOptions;
use values::{Setting, ms};

pub use evidence::{EvidenceArgs, EvidenceConfig, EvidenceSeedArgs, SigningConfig};
pub use http::{CorsOrigins, DeliveryConfig, HttpConfig, WebhookConfig};
pub(crate) use http::{HOST_RATE, LISTEN};
pub use limits::{FixedLimits, LIMITS_HEADING, LimitsConfig, RetentionConfig};
pub use log::{LogArgs, LogFormat, log_filter};
pub(crate) use secrets::SecretSetting;
pub use secrets::{AdminKeyArgs, SecretArgs, exposed_secrets};
pub use store::{StoreArgs, StoreConfig};
pub use values::{ConfigError, TenantList};

/// Settings of `budget-authority serve`.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    http: HttpConfig,
    #[command(flatten)]
    admin_keys: AdminKeyArgs,
    #[command(flatten)]
    secrets: SecretArgs,
    #[command(flatten)]
    webhooks: WebhookConfig,
    #[command(flatten)]
    retention: RetentionConfig,
    #[command(flatten)]
    limits: LimitsConfig,
    #[command(flatten)]
    evidence: EvidenceArgs,
    #[command(flatten)]
    process: ProcessConfig,
    /// The log, which starts before settings are checked against each other.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Settings of `budget-dispatcher`.
#[derive(Debug, Clone, Args)]
pub struct DispatcherArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    secrets: SecretArgs,
    #[command(flatten)]
    webhooks: WebhookConfig,
    #[command(flatten)]
    deliveries: DeliveryConfig,
    /// Tenants whose budgets have gauges, by their ids, comma-separated: four series for each budget, with tenant, scope and
    /// unit as labels. None by default.
    ///
    /// Set it when dashboards or alerts need the figures of single budgets
    #[arg(long, help_heading = "Metrics", env = "BUDGET_METRICS_TENANTS", value_name = "ID,…", default_value = "",
          hide_default_value = true, value_parser = Setting(TenantList::parse))]
    metrics_tenants: TenantList,
    #[command(flatten)]
    retention: RetentionConfig,
    #[command(flatten)]
    evidence: EvidenceArgs,
    #[command(flatten)]
    evidence_seeds: EvidenceSeedArgs,
    #[command(flatten)]
    process: ProcessConfig,
    /// The log, which starts before settings are checked against each other.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Default of `BUDGET_METRICS_LISTEN`.
pub(crate) const METRICS_LISTEN: &str = "0.0.0.0:7879";

/// Settings of every process.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Process")]
pub struct ProcessConfig {
    /// Address of /metrics, or `off`; it needs no key, so it is never the address of the API.
    ///
    /// Change it when the port is taken, or only one network may scrape
    #[arg(
        long,
        env = "BUDGET_METRICS_LISTEN",
        value_name = "ADDR:PORT",
        default_value = METRICS_LISTEN,
        value_parser = address_or_off
    )]
    // As a path, so that clap takes the whole `Option` for the value, not for a flag that may be absent.
    pub metrics_listen: std::option::Option<SocketAddr>,
    /// Open connections on each address. Further ones close the longest idle one, or wait while none is idle. Each takes a
    /// file descriptor.
    ///
    /// Raise it when the log says that BUDGET_MAX_CONNECTIONS is reached, and the process may open as many files
    #[arg(long = "max-connections", help_heading = LIMITS_HEADING, env = "BUDGET_MAX_CONNECTIONS", value_name = "N", default_value = "10000",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000).map(ConnectionLimits::of))]
    pub connections: ConnectionLimits,
    /// Open connections from one client address, or from one /48 network of IPv6, on each address. Further ones close its
    /// longest idle one, or are refused. Trusted proxies have no limit.
    ///
    /// Raise it when more clients than that share an address, as behind NAT
    #[arg(long = "max-connections-per-address", help_heading = LIMITS_HEADING, env = "BUDGET_MAX_CONNECTIONS_PER_ADDRESS", value_name = "N",
          default_value = "2000", value_parser = clap::value_parser!(u32).range(1..=1_000_000).map(|n| n as usize))]
    pub connections_per_address: usize,
    /// Time that requests and workers may take to finish at shutdown, in milliseconds.
    ///
    /// Raise it when the log says at shutdown that the grace period was too short
    #[arg(long = "shutdown-grace-ms", env = "BUDGET_SHUTDOWN_GRACE_MS", value_name = "MS", default_value = "10000",
          value_parser = ms(0..=600_000))]
    pub shutdown_grace: Duration,
    /// Share of the memory of a Redis node that the data of one tenant may take, in percent. It is a limit only while the node is at
    /// 75 % of its memory: then nothing new is stored for a tenant above it, and the others go on.
    ///
    /// Raise it when few tenants share a Redis; lower it when many do
    #[arg(long, help_heading = LIMITS_HEADING, env = "BUDGET_TENANT_MEMORY_SHARE", value_name = "PERCENT", default_value = "25",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    tenant_memory_share: u32,
    /// Replicas that must have a write within a quarter of BUDGET_REDIS_TIMEOUT_MS. Otherwise a request is 503, and a retry gets its
    /// response; evidence is signed again. 0: none.
    ///
    /// Raise it when a failover of Redis must not lose what was confirmed; each change then waits for a replica
    #[arg(long, alias = "wait", help_heading = "Redis", env = "BUDGET_REDIS_WAIT", value_name = "N", default_value = "0",
          value_parser = clap::value_parser!(u16).range(0..=16))]
    redis_wait: u16,
}

impl ProcessConfig {
    fn apply_to(&self, redis: &mut RedisOptions) {
        redis.wait = self.redis_wait;
        redis.tenant_share_percent = self.tenant_memory_share;
    }
}

/// Reads an address; `None` for `off`.
pub(crate) fn address_or_off(text: &str) -> Result<Option<SocketAddr>, AddrParseError> {
    match text {
        "off" => Ok(None),
        address => address.parse().map(Some),
    }
}

/// Configuration of `budget-authority serve`.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Redis, key prefix and dialect.
    pub store: StoreConfig,
    /// Both planes of the API.
    pub http: HttpConfig,
    /// The keys of the admin plane.
    pub admin_keys: AdminKeys,
    /// The keys under which secrets are stored.
    pub secrets: SealingKeys,
    /// Requests to webhook receivers.
    pub webhooks: WebhookConfig,
    /// How long data is kept.
    pub retention: RetentionConfig,
    /// Limits of one tenant.
    pub limits: LimitsConfig,
    /// Limits that are the same in every deployment.
    pub fixed_limits: FixedLimits,
    /// Signed evidence; `None` while it is off.
    pub evidence: Option<EvidenceConfig>,
    /// Metrics, connections and shutdown.
    pub process: ProcessConfig,
}

/// Configuration of `budget-dispatcher`.
#[derive(Debug, Clone)]
pub struct DispatcherConfig {
    /// Redis, key prefix and dialect.
    pub store: StoreConfig,
    /// The keys that encrypt stored secrets.
    pub secrets: SealingKeys,
    /// Requests to receivers of webhooks.
    pub webhooks: WebhookConfig,
    /// Deliveries to them.
    pub deliveries: DeliveryConfig,
    /// Tenants whose budgets have gauges.
    pub metrics_tenants: TenantList,
    /// How long data is kept.
    pub retention: RetentionConfig,
    /// Evidence that is to be signed; `None` while it is off.
    pub evidence: Option<SigningConfig>,
    /// Metrics, connections and shutdown.
    pub process: ProcessConfig,
}

/// Limits of client connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// `BUDGET_MAX_CONNECTIONS`, default 10000: open connections per address.
    pub open_max: usize,
    /// How long a connection may be idle: longer than usual load balancers keep it, so that they close it first and never send
    /// on a connection that is about to close.
    pub idle: Duration,
    /// How long a new connection may take to send its first byte.
    pub first: Duration,
    /// How long the head of a request may take from its first byte.
    pub head: Duration,
    /// How long a client may read nothing of its response.
    pub response: Duration,
}

impl ConnectionLimits {
    /// The default limits, with another number of open connections.
    fn of(open_max: u32) -> Self {
        Self {
            open_max: open_max as usize,
            ..Self::default()
        }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            open_max: 10_000,
            idle: Duration::from_secs(120),
            first: Duration::from_secs(10),
            head: Duration::from_secs(10),
            response: Duration::from_secs(30),
        }
    }
}

impl ServeArgs {
    /// Parses `flags` alone, without the environment. A later flag overrides an earlier one.
    ///
    /// # Errors
    /// As for a wrong command line.
    pub fn from_flags(flags: &[String]) -> Result<Self, clap::Error> {
        let command = Self::augment_args(Command::new("serve").no_binary_name(true))
            .args_override_self(true)
            .mut_args(|arg| arg.env(Resettable::Reset));
        Self::from_arg_matches(&command.try_get_matches_from(flags)?)
    }

    /// Validates the settings together.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn into_config(self) -> Result<ServeConfig, ConfigError> {
        let mut store = self.store.into_config()?;
        self.process.apply_to(&mut store.redis);
        let http = self.http.check();
        let admin_keys = self.admin_keys.into_keys()?;
        if http.admin_listen.is_some() && admin_keys.is_empty() {
            return Err(ConfigError::Contradiction {
                first: "BUDGET_ADMIN_LISTEN",
                second: "BUDGET_ADMIN_KEYS",
                reason: "the admin plane has an address but no key",
            });
        }
        let process = self.process;
        for (address, variable) in [
            (Some(http.listen), "BUDGET_LISTEN"),
            (http.admin_listen, "BUDGET_ADMIN_LISTEN"),
        ] {
            if address.is_some_and(|address| address.port() != 0)
                && address == process.metrics_listen
            {
                return Err(ConfigError::Contradiction {
                    first: variable,
                    second: "BUDGET_METRICS_LISTEN",
                    reason: "they name the same address",
                });
            }
        }
        let retention = self.retention;
        let evidence = self.evidence.into_config(store.dialect, &retention)?;
        Ok(ServeConfig {
            store,
            http,
            admin_keys,
            secrets: self.secrets.into_keys()?,
            webhooks: self.webhooks,
            retention,
            limits: self.limits,
            fixed_limits: FixedLimits::default(),
            evidence,
            process,
        })
    }
}

impl DispatcherArgs {
    /// Validates the settings together.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn into_config(self) -> Result<DispatcherConfig, ConfigError> {
        let mut store = self.store.into_config()?;
        self.process.apply_to(&mut store.redis);
        let retention = self.retention;
        let evidence = self.evidence.into_config(store.dialect, &retention)?;
        Ok(DispatcherConfig {
            store,
            secrets: self.secrets.into_keys()?,
            webhooks: self.webhooks,
            deliveries: self.deliveries,
            metrics_tenants: self.metrics_tenants,
            retention,
            evidence: self.evidence_seeds.into_config(evidence)?,
            process: self.process,
        })
    }
}

#[cfg(test)]
mod tests;

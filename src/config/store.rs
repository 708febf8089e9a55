//! Redis, the key prefix and the dialect, which all processes of a deployment share.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use prometheus::Registry;
use redis::{ClientTlsConfig, TlsCertificates};
use secrecy::{ExposeSecret, SecretString};

use super::secrets::SecretSetting;
use super::values::{ConfigError, OnOrOff as _, Setting, boolish, ms};
use crate::domain::dialect::Dialect;
use crate::store::{Keys, RedisOptions, RedisUrlError, Store, StoreMetrics};

const URL: SecretSetting = SecretSetting::new("BUDGET_REDIS_URL", "BUDGET_REDIS_URL_FILE");

/// Flags of [`StoreConfig`], also of a command that reads the data of a deployment.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Redis")]
pub struct StoreArgs {
    /// Connection URL of Redis: redis://[user:password@]host[:port][/db],
    /// redis+sentinel://host[:port],…/master[/db][?sentinel_user=…&sentinel_password=…],
    /// redis+cluster://host[:port],… or redis+unix:///path, which may be /path alone; with rediss for TLS. Required, here or in a file.
    ///
    /// Change it when Redis moves, or its password changes
    #[arg(
        long,
        env = "BUDGET_REDIS_URL",
        value_name = "URL",
        hide_env_values = true,
        required_unless_present = "redis_url_file"
    )]
    redis_url: Option<SecretString>,
    /// File with the connection URL of Redis, in place of BUDGET_REDIS_URL.
    ///
    /// Set it when the platform mounts secrets as files
    #[arg(long, env = "BUDGET_REDIS_URL_FILE", value_name = "FILE")]
    redis_url_file: Option<PathBuf>,
    /// PEM file with the authority that signed Redis's certificate; replaces the public ones.
    ///
    /// Set it when no public authority signed the certificate of Redis
    #[arg(long, env = "BUDGET_REDIS_TLS_CA_FILE", value_name = "FILE")]
    redis_tls_ca_file: Option<PathBuf>,
    /// PEM file with the client certificate for Redis.
    ///
    /// Set it when Redis asks clients for a certificate
    #[arg(
        long,
        env = "BUDGET_REDIS_TLS_CERT_FILE",
        value_name = "FILE",
        requires = "redis_tls_key_file"
    )]
    redis_tls_cert_file: Option<PathBuf>,
    /// PEM file with the private key of that certificate.
    ///
    /// Set it when BUDGET_REDIS_TLS_CERT_FILE is set
    #[arg(
        long,
        env = "BUDGET_REDIS_TLS_KEY_FILE",
        value_name = "FILE",
        requires = "redis_tls_cert_file"
    )]
    redis_tls_key_file: Option<PathBuf>,
    /// Time that a request may spend in Redis in all, waiting for connections included, in milliseconds. A list that sorts what has
    /// no index has eight times as much.
    ///
    /// Raise it when requests get 503 though Redis responds in the end, as over a slow network
    #[arg(long = "redis-timeout-ms", env = "BUDGET_REDIS_TIMEOUT_MS", value_name = "MS", default_value = "2000",
          value_parser = ms(50..=60_000))]
    redis_timeout: Duration,
    /// Connections to each Redis node, shared by all requests.
    ///
    /// Raise it when large responses delay others, or one replica serves most of what Redis can do
    #[arg(long, env = "BUDGET_REDIS_CONNECTIONS", value_name = "N", default_value = "2",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    redis_connections: u16,
    /// Use a Redis that is too old, or that evicts keys: it may lose reservations and ledgers.
    ///
    /// Set it when a trial has no other Redis, and may lose its data
    #[arg(long, env = "BUDGET_ALLOW_UNSAFE_REDIS", value_parser = boolish(), on_or_off())]
    allow_unsafe_redis: bool,
    /// Prefix of every key, so that one Redis can hold several deployments.
    ///
    /// Set it when one Redis holds several deployments, before the first start
    #[arg(
        long,
        env = "BUDGET_KEY_PREFIX",
        value_name = "PREFIX",
        default_value = "ba",
        value_parser = Setting(Keys::new)
    )]
    key_prefix: Keys,
    /// Vendor names of headers, permissions and events; fixed by the first start on a key prefix.
    ///
    /// Set it when clients speak the public Cycles protocol, before the first start
    #[arg(long, env = "BUDGET_DIALECT", default_value_t)]
    dialect: Dialect,
}

/// How a process connects to the data of its deployment.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// `BUDGET_REDIS_URL`, required, with the `BUDGET_REDIS_…` settings beside it.
    pub redis: RedisOptions,
    /// `BUDGET_KEY_PREFIX`, default `ba`.
    pub keys: Keys,
    /// `BUDGET_DIALECT`, default `service`.
    pub dialect: Dialect,
}

impl StoreConfig {
    /// A store with these settings, whose metrics are in `registry`.
    ///
    /// # Errors
    /// When the URL cannot be used, or the registry holds a store's metrics already.
    pub fn open(&self, registry: &Registry) -> Result<Store, ConfigError> {
        let metrics = StoreMetrics::register(registry);
        let metrics =
            metrics.map_err(|error| ConfigError::value("BUDGET_METRICS_LISTEN", error))?;
        Store::new(
            &self.redis,
            self.keys.clone(),
            self.dialect.as_str(),
            metrics,
        )
        .map_err(url_error)
    }

    /// The same for a tool, which only reads and never starts a deployment.
    ///
    /// # Errors
    /// As for [`StoreConfig::open`].
    pub fn open_to_read(mut self, registry: &Registry) -> Result<Store, ConfigError> {
        self.redis.may_start = false;
        self.open(registry)
    }
}

impl StoreArgs {
    /// Validates the settings together.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn into_config(self) -> Result<StoreConfig, ConfigError> {
        let (url, _) = URL.text(self.redis_url.clone(), self.redis_url_file.clone())?;
        let mut redis = RedisOptions::new(url.expose_secret());
        redis.timeout = self.redis_timeout;
        redis.connections = self.redis_connections.into();
        redis.allow_unsafe = self.allow_unsafe_redis;
        redis.tls = self.tls(url.expose_secret())?;
        redis.check().map_err(url_error)?;
        Ok(StoreConfig {
            redis,
            keys: self.key_prefix,
            dialect: self.dialect,
        })
    }

    fn tls(&self, url: &str) -> Result<Option<TlsCertificates>, ConfigError> {
        let files = [
            ("BUDGET_REDIS_TLS_CA_FILE", &self.redis_tls_ca_file),
            ("BUDGET_REDIS_TLS_CERT_FILE", &self.redis_tls_cert_file),
            ("BUDGET_REDIS_TLS_KEY_FILE", &self.redis_tls_key_file),
        ];
        let encrypted = url.starts_with("rediss") || url.starts_with("valkeys");
        match files.iter().find(|(_, path)| path.is_some()) {
            None => return Ok(None),
            Some((second, _)) if !encrypted => {
                return Err(ConfigError::Contradiction {
                    first: "BUDGET_REDIS_URL",
                    second,
                    reason: "the URL does not use TLS; write rediss://",
                });
            }
            Some(_) => {}
        }
        let read = |(variable, path): (&'static str, &Option<PathBuf>)| {
            let content = path.as_ref().map(|path| {
                let refused = |error| format!("{}: {error}", path.display());
                fs::read(path)
                    .map_err(|error: io::Error| ConfigError::value(variable, refused(error)))
            });
            content.transpose()
        };
        let [root_cert, client_cert, client_key] = files.map(read);
        let client = client_cert?.zip(client_key?);
        Ok(Some(TlsCertificates {
            client_tls: client.map(|(client_cert, client_key)| ClientTlsConfig {
                client_cert,
                client_key,
            }),
            root_cert: root_cert?,
        }))
    }
}

fn url_error(error: RedisUrlError) -> ConfigError {
    ConfigError::value("BUDGET_REDIS_URL", error)
}

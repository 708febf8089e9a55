//! The development stack in one command: a private Redis, the API and the workers in one process, and a demo tenant.

pub mod child;
mod client;
mod demo;
mod folder;
mod redis;
mod welcome;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use secrecy::{ExposeSecret, SecretString};

use crate::config::{
    AdminKeys, ConfigError, CorsOrigins, Dialect, HttpConfig, LogArgs, ProcessConfig,
    RetentionConfig, ServeConfig, StoreConfig, WebhookConfig,
};
use crate::domain::seal::SealingKeys;
use crate::egress::TrustedRoots;
use crate::serve::{self, Listeners, ServeError};
use crate::shutdown::Shutdown;
use crate::store::{Keys, RedisOptions};
use crate::telemetry::Telemetry;
use crate::{api, dispatch};
use demo::DemoError;
use folder::Folder;
use redis::PrivateRedis;

const DAY: Duration = Duration::from_secs(86_400);

/// Settings of `budget-authority dev`.
#[derive(Debug, Clone, Args)]
pub struct DevArgs {
    /// Address of both planes
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    /// Where Redis's data and the demo key are kept between starts
    #[arg(long, value_name = "DIR", default_value = ".data")]
    data: PathBuf,
    /// Keep nothing: the data goes to a temporary folder that is removed in the end
    #[arg(long, conflicts_with_all = ["data", "redis_url"])]
    ephemeral: bool,
    /// Use this Redis instead of a private one
    #[arg(long, value_name = "URL")]
    redis_url: Option<SecretString>,
    /// Vendor names of headers, permissions and events; fixed by the first start on a data folder
    #[arg(long, default_value = "service")]
    dialect: Dialect,
    /// Key of the admin plane [default: a random one, kept in the data folder]
    #[arg(long, value_name = "KEY")]
    admin_key: Option<SecretString>,
    /// Create no demo tenant
    #[arg(long)]
    no_demo: bool,
    /// What to log: a level, or `target=level` pairs, comma-separated
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    log: String,
}

/// Why the development stack could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// The data folder cannot be used.
    #[error("--data {}: {reason}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The private Redis does not start or has ended.
    #[error("{0}")]
    Redis(String),
    /// The API.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The demo tenant.
    #[error(transparent)]
    Demo(#[from] DemoError),
}

impl From<ConfigError> for DevError {
    fn from(error: ConfigError) -> Self {
        Self::Serve(error.into())
    }
}

impl DevArgs {
    /// The log settings: text for people.
    pub fn log(&self) -> LogArgs {
        LogArgs {
            log: self.log.clone(),
            log_format: crate::config::LogFormat::Text,
        }
    }
}

/// Runs the stack until `shutdown`; leaves nothing running behind.
///
/// # Errors
/// See [`DevError`].
pub async fn run(args: DevArgs, shutdown: Shutdown) -> Result<(), DevError> {
    let folder = Folder::open(&args.data, args.ephemeral)?;
    let admin_key = match &args.admin_key {
        Some(key) => key.clone(),
        None => folder.admin_key()?,
    };
    let listener = serve::bind("--listen", args.listen).await?;
    let address = listener.local_addr().map_err(ServeError::Io)?;
    let (redis, url) = match &args.redis_url {
        Some(url) => (None, url.clone()),
        None => {
            let redis = PrivateRedis::start(&folder)?;
            let url = redis.url().into();
            (Some(redis), url)
        }
    };
    let config = config(&args, address, &admin_key, &url, &folder.secret_keys()?)?;
    let telemetry = Telemetry::new().map_err(ServeError::Metrics)?;
    let store = config.store.open(telemetry.registry())?;
    let planes = api::planes(&config, &store);
    let listeners = Listeners {
        api: listener,
        admin: None,
        metrics: None,
    };
    let (dialect, retention) = (config.store.dialect, &config.retention);
    let dispatcher = dispatch::start(&store, dialect, retention, &telemetry, &shutdown)
        .map_err(ServeError::Metrics)?;
    let serving = serve::run(
        listeners,
        planes,
        store,
        telemetry,
        &config.process,
        shutdown.clone(),
    );
    let tending = async {
        let demo = match args.no_demo {
            true => None,
            false => Some(demo::prepare(address, args.dialect, &admin_key, &folder).await?),
        };
        welcome::print(
            address,
            args.dialect,
            &admin_key,
            demo.as_ref(),
            redis.as_ref(),
            &folder,
        );
        match &redis {
            Some(redis) => Err(redis.ended().await),
            None => std::future::pending().await,
        }
    };
    let outcome = {
        tokio::pin!(serving);
        tokio::select! {
            served = &mut serving => served.map_err(DevError::from),
            failed = tending => {
                shutdown.begin();
                serving.await?;
                failed
            }
        }
    };
    dispatcher.finished(config.process.shutdown_grace).await;
    // Last of all, and before the folder that an ephemeral stack removes.
    drop(redis);
    drop(folder);
    outcome
}

fn config(
    args: &DevArgs,
    address: SocketAddr,
    admin_key: &SecretString,
    url: &SecretString,
    secret_keys: &SecretString,
) -> Result<ServeConfig, ConfigError> {
    let secrets = SealingKeys::parse(secret_keys.expose_secret());
    let secrets = secrets.map_err(|error| ConfigError::Value {
        variable: "secret-keys",
        reason: error.to_string(),
    })?;
    let redis = RedisOptions::new(url.expose_secret());
    redis.check().map_err(|error| ConfigError::Value {
        variable: "--redis-url",
        reason: error.to_string(),
    })?;
    let keys = Keys::new("ba").map_err(|error| ConfigError::Value {
        variable: "BUDGET_KEY_PREFIX",
        reason: error.to_string(),
    })?;
    Ok(ServeConfig {
        store: StoreConfig {
            redis,
            keys,
            dialect: args.dialect,
        },
        http: HttpConfig {
            listen: address,
            admin_listen: None,
            admin_keys: AdminKeys::parse(admin_key)?,
            body_limit_bytes: 1 << 20,
            denied_events_per_minute: 600,
            cors_origins: CorsOrigins::Listed(Vec::new()),
            trusted_proxies: Vec::new().into(),
        },
        secrets,
        webhooks: WebhookConfig {
            roots: TrustedRoots::public(),
        },
        retention: RetentionConfig {
            reservations: DAY * 30,
            events: DAY * 90,
            audit: DAY * 400,
            outbox: DAY * 7,
        },
        process: ProcessConfig {
            metrics_listen: None,
            shutdown_delay: Duration::ZERO,
            shutdown_grace: Duration::from_secs(5),
        },
    })
}

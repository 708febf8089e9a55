//! The development stack in one command: a private Redis, the API and the workers in one process, and a demo tenant.

pub mod child;
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
    ConfigError, ConnectionLimits, CorsOrigins, HttpConfig, LogArgs, ProcessConfig,
    RetentionConfig, ServeConfig, StoreConfig, WebhookConfig,
};
use crate::domain::caller::AdminKeys;
use crate::domain::dialect::Dialect;
use crate::domain::seal::SealingKeys;
use crate::egress::TrustedRoots;
use crate::serve::{self, Listeners, ServeError};
use crate::shutdown::Shutdown;
use crate::store::{Keys, RedisOptions};
use crate::telemetry::Telemetry;
use crate::{api, dispatcher as dispatch};
use demo::DemoError;
use folder::Folder;
use redis::PrivateRedis;

const DAY: Duration = Duration::from_secs(86_400);

/// How long a ping may take, and how long Redis may take to answer one at the start.
const PING_LIMIT: Duration = Duration::from_millis(500);
const FIRST_ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Settings of `budget-authority dev`.
#[derive(Debug, Clone, Args)]
pub struct DevArgs {
    /// Address of both planes
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    /// Where the private Redis's data, the admin key and the demo key are kept between starts
    #[arg(long, value_name = "DIR", default_value = ".data")]
    data: PathBuf,
    /// Keep nothing: the data goes to a temporary folder that is removed in the end
    #[arg(long, conflicts_with_all = ["data", "redis_url"])]
    ephemeral: bool,
    /// Use this Redis instead of a private one. It keeps all data, and nothing is written to this machine's disk: admin
    /// key and demo key are new at each start
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    redis_url: Option<SecretString>,
    /// Vendor names of headers, permissions and events; fixed by the first start on the data
    #[arg(long, default_value = "service")]
    dialect: Dialect,
    /// Key of the admin plane [default: a random one]
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

/// Where the data is.
enum Home {
    /// In a folder, behind a private Redis.
    Folder(Folder),
    /// In a Redis that is somebody else's.
    Redis(SecretString),
}

/// Runs the stack until `shutdown`; leaves nothing running behind.
///
/// # Errors
/// See [`DevError`].
pub async fn run(args: DevArgs, shutdown: Shutdown) -> Result<(), DevError> {
    let home = match &args.redis_url {
        Some(url) => Home::Redis(url.clone()),
        None => Home::Folder(Folder::open(&args.data, args.ephemeral)?),
    };
    let admin_key = match (&args.admin_key, &home) {
        (Some(key), _) => key.clone(),
        (None, Home::Folder(folder)) => folder.admin_key()?,
        (None, Home::Redis(_)) => folder::new_admin_key(),
    };
    let listener = serve::bind("--listen", args.listen).await?;
    let address = listener.local_addr().map_err(ServeError::Io)?;
    let (private, url) = match home {
        Home::Redis(url) => (None, url),
        Home::Folder(folder) => {
            let redis = PrivateRedis::start(&folder)?;
            let url = redis.url().into();
            // Dropped in this order: an ephemeral folder is removed last of all.
            (Some((redis, folder)), url)
        }
    };
    let redis = private.as_ref().map(|(redis, _)| redis);
    let folder = private.as_ref().map(|(_, folder)| folder);
    let secret_keys = match folder {
        Some(folder) => folder.secret_keys()?,
        None => SealingKeys::generate().into(),
    };
    let config = config(&args, address, &admin_key, &url, &secret_keys)?;
    let telemetry = Telemetry::new().map_err(ServeError::Metrics)?;
    let store = config.store.open(telemetry.registry())?;
    let planes = api::planes(&config, &store);
    let listeners = Listeners {
        api: listener,
        admin: None,
        metrics: None,
    };
    // The workers would start with complaints otherwise; a Redis that does not come is told of below.
    let answers = async {
        while store.ping(PING_LIMIT).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(FIRST_ANSWER_LIMIT, answers).await;
    let (dialect, retention) = (config.store.dialect, &config.retention);
    let dispatcher = dispatch::start(&store, dialect, retention, &telemetry, &shutdown)
        .map_err(ServeError::Metrics)?;
    let serving = serve::run(
        listeners,
        planes,
        store,
        telemetry,
        &config,
        shutdown.clone(),
    );
    let tending = async {
        demo::wait_until_ready(address).await?;
        let demo = match args.no_demo {
            true => None,
            false => Some(demo::prepare(address, dialect, &admin_key, folder).await?),
        };
        welcome::print(address, dialect, &admin_key, demo.as_ref(), &private);
        match redis {
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
    drop(private);
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
            body_timeout: Duration::from_secs(10),
            denied_events_per_minute: 600,
            cors_origins: CorsOrigins::Listed(Vec::new()),
            trusted_proxies: Vec::new().into(),
            allow_cross_tenant_list: false,
            shutdown_delay: Duration::ZERO,
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
            connections: ConnectionLimits::default(),
            shutdown_grace: Duration::from_secs(5),
        },
    })
}

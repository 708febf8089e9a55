//! The development stack in one command: a private Redis, the API and the workers in one process, and a demo tenant.

pub mod child;
mod demo;
mod evidence;
pub(super) mod folder;
pub(super) mod redis;
mod welcome;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use secrecy::{ExposeSecret, SecretString};
use tracing_subscriber::filter::Targets;

use crate::api;
use crate::config::{
    ConfigError, HOST_RATE, LogArgs, LogFormat, ServeArgs, ServeConfig, SigningConfig, TenantList,
    log_filter,
};
use crate::dispatcher::{self as dispatch, Settings};
use crate::domain::admin_key::AdminKeys;
use crate::domain::dialect::Dialect;
use crate::domain::seal::SealingKeys;
use crate::serve::{self, Listeners, ServeError};
use crate::shutdown::Shutdown;
use crate::store::StoreError;
use crate::telemetry::Telemetry;
use crate::tools::call::CallError;
use evidence::Signer;
use folder::Folder;
use redis::PrivateRedis;

/// How long a ping may take, and how long Redis may take to respond to the first one.
const PING_LIMIT: Duration = Duration::from_millis(500);
const FIRST_RESPONSE_LIMIT: Duration = Duration::from_secs(5);

/// Why the development stack could not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// The data folder cannot be used, or the private Redis does not start or has ended.
    #[error(transparent)]
    Data(#[from] io::Error),
    /// The API.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The data was started in another dialect.
    #[error("{0}")]
    OtherDialect(String),
    /// The API did not become ready.
    #[error("the API did not become ready within {0:?}")]
    NotReady(Duration),
    /// The API cannot be reached, or refused the demo tenant.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl From<ConfigError> for DevError {
    fn from(error: ConfigError) -> Self {
        Self::Serve(error.into())
    }
}

/// Settings of `budget-authority dev`.
#[derive(Debug, Clone, Args)]
pub struct DevArgs {
    /// Address of both planes
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    /// Folder that keeps the data of the private Redis, the admin key, the demo key and the key of evidence between starts
    #[arg(long, value_name = "DIR", default_value = ".data")]
    data: PathBuf,
    /// Keep nothing: the data is in a temporary folder that is removed at the end
    #[arg(long, conflicts_with_all = ["data", "redis_url"])]
    ephemeral: bool,
    /// Use this Redis instead of a private one. It keeps all data, and nothing is written to this machine's disk: admin
    /// key and demo key are new at each start, and evidence is off
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
    #[arg(long, value_name = "FILTER", default_value = "warn", value_parser = log_filter)]
    log: Targets,
}

impl DevArgs {
    /// The log settings: text for people.
    pub fn log(&self) -> LogArgs {
        LogArgs {
            log: self.log.clone(),
            log_format: LogFormat::Text,
        }
    }
}

/// The data of the stack, and its secrets.
struct Data {
    redis_url: SecretString,
    admin_key: SecretString,
    secret_keys: SecretString,
    /// `None` without a data folder.
    signer: Option<Signer>,
    /// `None` on the developer's own Redis. Dropped in this order, so that an ephemeral folder is removed last.
    private: Option<(PrivateRedis, Folder)>,
}

impl Data {
    /// Opens the data folder and starts a private Redis on it, unless the developer names a Redis.
    fn open(args: &DevArgs, address: SocketAddr) -> Result<Self, DevError> {
        if let Some(redis_url) = &args.redis_url {
            return Ok(Self {
                redis_url: redis_url.clone(),
                admin_key: args.admin_key.clone().unwrap_or_else(AdminKeys::generate),
                secret_keys: SealingKeys::generate().into(),
                signer: None,
                private: None,
            });
        }
        own_files_only();
        let folder = Folder::open(&args.data, args.ephemeral)?;
        let admin_key = match &args.admin_key {
            Some(key) => key.clone(),
            None => folder.secret("admin-key", AdminKeys::generate)?,
        };
        let redis = PrivateRedis::start(&folder)?;
        Ok(Self {
            redis_url: redis.url().into(),
            admin_key,
            secret_keys: folder.secret("secret-keys", || SealingKeys::generate().into())?,
            signer: Some(Signer::open(&folder, address)?),
            private: Some((redis, folder)),
        })
    }
}

/// Makes every file of this process and of its Redis readable by the owner alone, whatever folder the developer names.
#[expect(unsafe_code, reason = "the standard library has no such call")]
fn own_files_only() {
    // SAFETY: it only sets a number of the process.
    unsafe { libc::umask(0o077) };
}

/// Runs the stack until `shutdown`; leaves nothing running behind.
///
/// # Errors
/// See [`DevError`].
pub async fn run(args: DevArgs, shutdown: Shutdown) -> Result<(), DevError> {
    let listener = serve::bind("--listen", args.listen).await?;
    let address = listener.local_addr().map_err(ServeError::Io)?;
    let mut data = Data::open(&args, address)?;
    let config = config(&args, address, &data)?;
    let telemetry = Telemetry::new().map_err(ServeError::Metrics)?;
    let store = config.store.open(telemetry.registry())?;
    let planes = api::planes(&config, &store, config.webhooks.egress());
    let listeners = Listeners {
        api: listener,
        admin: None,
        metrics: None,
    };
    // Otherwise the workers would log warnings at start. When Redis does not come up, the steps below fail.
    let responds = async {
        while store.ping(PING_LIMIT).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(FIRST_RESPONSE_LIMIT, responds).await;
    // Before anything else starts that would log it too. Other errors come back there.
    if let Err(StoreError::OtherDialect { found, .. }) = store.secret().await {
        return Err(other_dialect(&args, &found));
    }
    if let Some(signer) = &data.signer {
        signer.warn_of_another_address(address);
    }
    let settings = Settings {
        dialect: config.store.dialect,
        retention: config.retention,
        secrets: config.secrets.clone(),
        egress: config.webhooks.egress(),
        in_flight: dispatch::IN_FLIGHT_MAX,
        lane_concurrency: 1,
        host_rate: HOST_RATE,
        metrics_tenants: TenantList::default(),
        evidence: signing(&data, &config).zip(planes.state.issuing.clone()),
    };
    let dispatcher =
        dispatch::start(&store, settings, &telemetry, &shutdown).map_err(ServeError::Metrics)?;
    let outcome = {
        let signal = shutdown.clone();
        let serving = serve::run(listeners, planes, store, telemetry, &config, signal);
        tokio::pin!(serving);
        tokio::select! {
            served = &mut serving => served.map_err(DevError::from),
            failed = welcome(&args, address, &mut data) => {
                shutdown.begin();
                serving.await?;
                Err(failed)
            }
        }
    };
    dispatcher.finished(config.process.shutdown_grace).await;
    drop(data);
    outcome
}

/// Makes the demo tenant and prints the welcome; returns when that fails or the private Redis has ended.
async fn welcome(args: &DevArgs, address: SocketAddr, data: &mut Data) -> DevError {
    let folder = data.private.as_ref().map(|(_, folder)| folder);
    let prepared = async {
        demo::wait_until_ready(address, &data.admin_key).await?;
        match args.no_demo {
            true => Ok(None),
            false => demo::prepare(address, args.dialect, &data.admin_key, folder)
                .await
                .map(Some),
        }
    };
    let demo = match prepared.await {
        Ok(demo) => demo,
        Err(error) => return error,
    };
    let (dialect, admin_key) = (args.dialect, &data.admin_key);
    welcome::print(address, dialect, admin_key, demo.as_ref(), &data.private);
    match &mut data.private {
        Some((redis, _)) => redis.ended().await.into(),
        None => std::future::pending().await,
    }
}

/// The configuration of the API; settings without a flag here have their defaults.
fn config(args: &DevArgs, address: SocketAddr, data: &Data) -> Result<ServeConfig, ConfigError> {
    let mut flags = vec![
        format!("--redis-url={}", data.redis_url.expose_secret()),
        format!("--listen={address}"),
        format!("--secret-keys={}", data.secret_keys.expose_secret()),
        format!("--dialect={}", args.dialect.as_str()),
        "--metrics-listen=off".to_owned(),
        "--shutdown-delay-ms=0".to_owned(),
        "--shutdown-grace-ms=5000".to_owned(),
    ];
    flags.extend(data.signer.iter().flat_map(Signer::flags));
    let serve = ServeArgs::from_flags(&flags).expect("the flags are known and well-formed");
    let mut config = serve.into_config()?;
    // It may be short, since only this machine reaches the stack.
    let admin_keys = AdminKeys::parse(data.admin_key.expose_secret());
    config.admin_keys = admin_keys.map_err(|error| ConfigError::value("--admin-key", error))?;
    config.store.redis.ephemeral = args.ephemeral;
    Ok(config)
}

/// What to do about data of another dialect than the one that the developer chose.
fn other_dialect(args: &DevArgs, found: &str) -> DevError {
    let own = args.dialect.as_str();
    let (place, remedy) = match args.redis_url {
        Some(_) => ("that Redis".to_owned(), "in another Redis".to_owned()),
        None => (
            args.data.display().to_string(),
            format!("--data .data-{own}"),
        ),
    };
    DevError::OtherDialect(format!(
        "the data in {place} speaks the dialect `{found}`: start with --dialect {found}, or keep the data of another \
         dialect apart: {remedy}"
    ))
}

/// Settings of the worker that signs evidence.
fn signing(data: &Data, config: &ServeConfig) -> Option<SigningConfig> {
    let evidence = config.evidence.clone()?;
    let keys = vec![data.signer.as_ref()?.key.clone()];
    Some(SigningConfig { evidence, keys })
}

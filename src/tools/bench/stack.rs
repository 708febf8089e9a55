//! A private Redis and a service on it: child processes that end with this one.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use prometheus::Registry;
use secrecy::ExposeSecret;

use super::BenchError;
use super::service::Service;
use crate::config::StoreConfig;
use crate::domain::dialect::Dialect;
use crate::store::{Keys, RedisOptions, Store};
use crate::tools::client::base_url;
use crate::tools::dev::child::Process;
use crate::tools::dev::folder::Folder;
use crate::tools::dev::redis::server;

/// How long the service may take to become ready.
const START_LIMIT: Duration = Duration::from_secs(20);

/// The processes, in the order in which they end.
pub(super) struct Stack {
    pub service: Service,
    pub store: Store,
    pub deployment: StoreConfig,
    pub api: Process,
    pub redis: Process,
    _folder: Folder,
}

impl Stack {
    /// Starts a Redis without persistence, because disks are measured elsewhere, and a service, and waits until it is ready.
    pub async fn start(dialect: Dialect) -> Result<Self, BenchError> {
        let admin_key = format!("{:032x}", rand::random::<u128>());
        let start = || {
            let folder = Folder::open(Path::new(""), true)?;
            let (redis_port, port) = (free_port()?, free_port()?);
            let mut redis = server(folder.path())?;
            redis
                .args(["--bind", "127.0.0.1", "--port", &redis_port.to_string()])
                .args(["--appendonly", "no"]);
            let redis = Process::start(redis)?;
            let deployment = StoreConfig {
                redis: RedisOptions::new(format!("redis://127.0.0.1:{redis_port}")),
                keys: Keys::new("ba").expect("a prefix"),
                dialect,
            };
            let mut api = program(&std::env::current_exe()?, &deployment);
            api.args(["serve", "--listen", &format!("127.0.0.1:{port}")])
                .args(["--shutdown-delay-ms", "0"])
                .env("BUDGET_ADMIN_KEYS", &admin_key);
            Ok((folder, redis, deployment, Process::start(api)?, port))
        };
        let (folder, redis, deployment, mut api, port) = start().map_err(BenchError::Stack)?;
        let url = base_url(&format!("http://127.0.0.1:{port}")).expect("a plain URL");
        let service = Service {
            runtime: url.clone(),
            admin: url,
            admin_key: admin_key.into(),
            dialect,
        };
        let admin = service.admin()?;
        let ready = tokio::select! {
            is_ready = admin.is_ready_within(START_LIMIT) => match is_ready? {
                true => Ok(()),
                false => Err(io::ErrorKind::TimedOut.into()),
            },
            status = api.exited() => Err(io::Error::other(format!("the service has ended: {status}"))),
        };
        ready.map_err(BenchError::Stack)?;
        Ok(Self {
            service,
            store: deployment.open(&Registry::new())?,
            deployment,
            api,
            redis,
            _folder: folder,
        })
    }

    /// Starts the dispatcher that was built beside this program; it runs until it is dropped.
    pub fn dispatcher(&self) -> Result<Process, BenchError> {
        let start = || {
            let path = std::env::current_exe()?.with_file_name("budget-dispatcher");
            let mut dispatcher = program(&path, &self.deployment);
            // All receivers are on one host.
            dispatcher.env("BUDGET_WEBHOOK_HOST_RATE", "0");
            Process::start(dispatcher)
        };
        start().map_err(BenchError::Stack)
    }
}

/// Resident memory of a process in bytes; `None` where the system does not report it.
pub(super) fn resident_memory(process: &Process) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).ok()?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Processor time of a process by its id, or of this thread as `thread-self`.
pub(super) fn cpu_time(task: &str) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{task}/stat")).ok()?;
    // The name in parentheses may hold blanks. Then the user and system times are the 12th and 13th field, in ticks of 10 ms.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks()? + ticks()?) * 10))
}

/// A program of ours with default settings, whatever this process's environment holds.
fn program(path: &Path, deployment: &StoreConfig) -> Command {
    let mut command = Command::new(path);
    command
        .env_clear()
        .env("BUDGET_METRICS_LISTEN", "off")
        .env("BUDGET_LOG", "error")
        .env("BUDGET_LOG_FORMAT", "text")
        .env("BUDGET_REDIS_URL", deployment.redis.url.expose_secret())
        .env("BUDGET_KEY_PREFIX", deployment.keys.prefix())
        .env("BUDGET_DIALECT", deployment.dialect.as_str())
        .env("BUDGET_ALLOW_PLAINTEXT_SECRETS", "true")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

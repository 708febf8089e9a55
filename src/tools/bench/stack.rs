//! A private service for the benchmark, and unless one is given a private Redis: child processes that end with this one.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use prometheus::Registry;
use secrecy::ExposeSecret;

use super::error::BenchError;
use super::monitor::Monitor;
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

/// Environment variables of programs, beside those that every one has.
pub(super) type Settings = Vec<(&'static str, String)>;

/// The processes, in the order in which they end.
pub(super) struct Stack {
    pub service: Service,
    pub store: Store,
    pub deployment: StoreConfig,
    settings: Settings,
    api: Process,
    redis: Option<PrivateRedis>,
}

/// A Redis without persistence, because disks are measured elsewhere.
struct PrivateRedis {
    port: u16,
    process: Process,
    _folder: Folder,
}

impl Stack {
    /// Starts a Redis and a service, and waits until the service is ready.
    pub async fn start(dialect: Dialect) -> Result<Self, BenchError> {
        let redis = PrivateRedis::start().map_err(BenchError::Stack)?;
        let deployment = StoreConfig {
            redis: RedisOptions::new(format!("redis://127.0.0.1:{}", redis.port)),
            keys: Keys::new("ba").expect("a prefix"),
            dialect,
        };
        let mut stack = Self::start_service(deployment).await?;
        stack.redis = Some(redis);
        Ok(stack)
    }

    /// Starts a service, and waits until it is ready.
    pub async fn start_service(deployment: StoreConfig) -> Result<Self, BenchError> {
        Self::start_service_with(deployment, Settings::new()).await
    }

    /// Starts a service with settings, which its dispatchers get, too.
    pub async fn start_service_with(
        deployment: StoreConfig,
        settings: Settings,
    ) -> Result<Self, BenchError> {
        let admin_key = format!("{:032x}", rand::random::<u128>());
        let port = free_port().map_err(BenchError::Stack)?;
        let start = || {
            let mut command = program(&std::env::current_exe()?, &deployment);
            command
                .args(["serve", "--listen", &format!("127.0.0.1:{port}")])
                .args(["--shutdown-delay-ms", "0"])
                .envs(settings.iter().cloned())
                .env("BUDGET_ADMIN_KEYS", &admin_key);
            Process::start(command)
        };
        let api = start().map_err(BenchError::Stack)?;
        let url = base_url(&format!("http://127.0.0.1:{port}")).expect("a plain URL");
        let mut stack = Self {
            service: Service {
                runtime: url.clone(),
                admin: url,
                admin_key: admin_key.into(),
                dialect: deployment.dialect,
            },
            store: deployment.open(&Registry::new())?,
            deployment,
            settings,
            api,
            redis: None,
        };
        stack.wait_until_ready().await?;
        Ok(stack)
    }

    /// Ends the service, which stores its last counts, then removes all that it has stored.
    pub async fn erase(self) -> Result<(), BenchError> {
        drop(self.api);
        Ok(self.store.erase().await?)
    }

    /// Starts the dispatcher that was built beside this program; it runs until it is dropped.
    pub fn dispatcher(&self) -> Result<Process, BenchError> {
        self.dispatcher_with(Settings::new())
    }

    /// The same, with further settings of its own.
    pub fn dispatcher_with(&self, settings: Settings) -> Result<Process, BenchError> {
        let start = || {
            let path = std::env::current_exe()?.with_file_name("budget-dispatcher");
            let mut command = program(&path, &self.deployment);
            command.envs(self.settings.iter().cloned()).envs(settings);
            Process::start(command)
        };
        start().map_err(BenchError::Stack)
    }

    /// Commands that the service sends to the private Redis for one request, while `run` makes as many requests as it
    /// returns.
    pub async fn commands_per_request(
        &self,
        run: impl AsyncFnOnce() -> Result<u64, BenchError>,
    ) -> Result<f64, BenchError> {
        let redis = self.redis.as_ref();
        let redis = redis.expect("only a private Redis is monitored");
        let monitor = Monitor::start(redis.port).await;
        let monitor = monitor.map_err(BenchError::Monitor)?;
        let requests = run().await?;
        let commands = monitor.end().await.map_err(BenchError::Monitor)?;
        Ok(commands as f64 / requests.max(1) as f64)
    }

    /// Resident memory of the service in bytes; `None` where the system does not report it.
    pub fn resident_memory(&self) -> Option<u64> {
        resident_memory(self.api.id())
    }

    /// Processor time that the private Redis has used; zero where the system does not report it.
    pub fn redis_cpu(&self) -> Duration {
        let redis = self.redis.as_ref();
        let redis = redis.expect("only a private Redis is measured");
        cpu_time(redis.process.id()).unwrap_or_default()
    }

    async fn wait_until_ready(&mut self) -> Result<(), BenchError> {
        let admin = self.service.admin()?;
        let failed = tokio::select! {
            is_ready = admin.is_ready_within(START_LIMIT) => match is_ready? {
                true => return Ok(()),
                false => io::ErrorKind::TimedOut.into(),
            },
            status = self.api.exited() => io::Error::other(format!("the service has ended: {status}")),
        };
        Err(BenchError::Stack(failed))
    }
}

impl PrivateRedis {
    fn start() -> io::Result<Self> {
        let folder = Folder::open(Path::new(""), true)?;
        let port = free_port()?;
        let mut command = server(folder.path())?;
        command
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--appendonly", "no"]);
        Ok(Self {
            port,
            process: Process::start(command)?,
            _folder: folder,
        })
    }
}

/// Resident memory of a process in bytes; `None` where the system does not report it.
pub(super) fn resident_memory(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Processor time of a process.
fn cpu_time(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may hold blanks. Then the user and system times are the 12th and 13th field, in ticks of 10 ms.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<_> = fields.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
}

/// A program of ours with default settings, whatever this process's environment holds.
fn program(path: &Path, deployment: &StoreConfig) -> Command {
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BUDGET_") {
            command.env_remove(name);
        }
    }
    command
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
pub(super) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

//! A Redis and a service of our own, as child processes on free ports, gone with us.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::error::BenchError;
use super::monitor::Monitor;
use super::provision::{Service, Tenant};
use super::session::Bare;
use super::target::Target;
use crate::domain::dialect::Dialect;
use crate::tools::dev::child;

/// How long the service may take to be ready.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long a child may take to end by itself.
const STOP_LIMIT: Duration = Duration::from_secs(5);

const KEY_PREFIX: &str = "ba";

/// The processes, in the order in which they end.
pub(super) struct Stack {
    pub service: Service,
    redis_port: u16,
    dialect: Dialect,
    api: Process,
    _redis: Process,
    _folder: Folder,
}

/// A child that ends when it is dropped.
pub(super) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        child::stop(&mut self.0, STOP_LIMIT);
    }
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Stack {
    /// Starts both and waits until the service is ready.
    pub async fn start(dialect: Dialect) -> Result<Self, BenchError> {
        let name = format!("budget-authority-bench-{:08x}", rand::random::<u32>());
        let folder = Folder(std::env::temp_dir().join(name));
        fs::create_dir(&folder.0).map_err(BenchError::Stack)?;
        let redis_port = free_port().map_err(BenchError::Stack)?;
        let redis = start_redis(&folder, redis_port).map_err(BenchError::Stack)?;
        let redis_url = redis_url(redis_port);
        let admin_key = format!("{:032x}", rand::random::<u128>());
        let port = free_port().map_err(BenchError::Stack)?;
        let api = start_api(port, &redis_url, &admin_key, dialect).map_err(BenchError::Stack)?;
        let target: Target = format!("http://127.0.0.1:{port}").parse()?;
        let target = Arc::new(target);
        let mut stack = Self {
            service: Service {
                runtime: Arc::clone(&target),
                admin: target,
                admin_key: admin_key.into(),
                dialect,
            },
            redis_port,
            dialect,
            api,
            _redis: redis,
            _folder: folder,
        };
        stack.until_ready().await?;
        Ok(stack)
    }

    /// The scripts of this Redis for a tenant of this service.
    pub fn bare(&self, tenant: &Tenant) -> Bare {
        Bare::of(
            tenant,
            redis_url(self.redis_port).into(),
            KEY_PREFIX,
            self.service.dialect,
        )
    }

    /// A dispatcher, until it is dropped: it keeps the views of all tenants.
    pub fn dispatcher(&self) -> Result<Process, BenchError> {
        start_dispatcher(&redis_url(self.redis_port), self.dialect).map_err(BenchError::Stack)
    }

    /// Counts what Redis is sent from now on.
    pub async fn watch(&self) -> Result<Monitor, BenchError> {
        Monitor::start(self.redis_port).await
    }

    /// Memory of the service that is in RAM, in bytes; `None` where the system does not tell.
    pub fn resident_memory(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.api.0.id())).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        Some(kilobytes * 1024)
    }

    async fn until_ready(&mut self) -> Result<(), BenchError> {
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.api.0.try_wait() {
                let ended = io::Error::other(format!("the service has ended: {status}"));
                return Err(BenchError::Stack(ended));
            }
            if self.service.is_ready().await {
                return Ok(());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Err(BenchError::Stack(io::ErrorKind::TimedOut.into()))
    }
}

fn redis_url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

/// Without persistence: what the disk does is measured elsewhere.
fn start_redis(folder: &Folder, port: u16) -> io::Result<Process> {
    let mut command = Command::new("redis-server");
    command
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args([
            "--save",
            "",
            "--appendonly",
            "no",
            "--maxmemory-policy",
            "noeviction",
            "--hash-max-listpack-value",
            "1024",
            "--dir",
        ])
        .arg(&folder.0)
        .stdin(Stdio::null())
        .stdout(File::create(folder.0.join("redis.log"))?)
        .stderr(Stdio::null());
    let started = child::spawn(command).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other("redis-server is not installed"),
        _ => error,
    });
    started.map(Process)
}

/// This very program, with the defaults and nothing of our own environment.
fn start_api(port: u16, redis_url: &str, admin_key: &str, dialect: Dialect) -> io::Result<Process> {
    let mut command = program(&std::env::current_exe()?, redis_url, dialect);
    command
        .arg("serve")
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .args(["--allow-plaintext-secrets", "--shutdown-delay-ms", "0"])
        .env("BUDGET_ADMIN_KEYS", admin_key);
    child::spawn(command).map(Process)
}

/// The dispatcher that was built beside this program.
fn start_dispatcher(redis_url: &str, dialect: Dialect) -> io::Result<Process> {
    let path = std::env::current_exe()?.with_file_name("budget-dispatcher");
    let started =
        child::spawn(program(&path, redis_url, dialect)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::other(format!("there is no {}", path.display())),
            _ => error,
        });
    started.map(Process)
}

fn program(path: &Path, redis_url: &str, dialect: Dialect) -> Command {
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
        .env("BUDGET_REDIS_URL", redis_url)
        .env("BUDGET_KEY_PREFIX", KEY_PREFIX)
        .env("BUDGET_DIALECT", dialect.as_str())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

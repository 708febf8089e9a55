//! A private Redis and a service on it: child processes that end with this one.

use std::env::current_exe;
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
use crate::api::dialect::headers::ADMIN_KEY;
use crate::domain::admin_key::AdminKeys;
use crate::domain::dialect::Dialect;
use crate::store::{Keys, RedisOptions, Store, StoreMetrics};
use crate::tools::client::{Client, base_url};
use crate::tools::dev::child::Process;
use crate::tools::dev::folder::Folder;
use crate::tools::dev::redis::server;

/// The processes, in the order in which they end.
pub(super) struct Stack {
    pub service: Service,
    pub store: Store,
    redis_url: String,
    pub api: Process,
    pub redis: Process,
    _folder: Folder,
}

impl Stack {
    /// Starts a Redis without persistence, because disks are measured elsewhere, and a service, and waits until it is ready.
    pub async fn start(dialect: Dialect) -> Result<Self, BenchError> {
        let admin_key = AdminKeys::generate();
        let folder = Folder::open(Path::new(""), true)?;
        let (redis_port, port) = (free_port()?, free_port()?);
        let mut redis = server(folder.path())?;
        redis
            .args(["--bind", "127.0.0.1", "--port", &redis_port.to_string()])
            .args(["--appendonly", "no"]);
        let redis = Process::start(redis)?;
        let redis_url = format!("redis://127.0.0.1:{redis_port}");
        let mut api = program(&current_exe()?, &redis_url, dialect);
        api.args(["serve", "--listen", &format!("127.0.0.1:{port}")])
            .args(["--shutdown-delay-ms", "0"])
            .env("BUDGET_ADMIN_KEYS", admin_key.expose_secret());
        let mut api = Process::start(api)?;
        let url = base_url(&format!("http://127.0.0.1:{port}")).expect("a plain URL");
        let service = Service {
            admin: Client::new(url.clone(), &ADMIN_KEY, &admin_key)?,
            runtime: url,
            dialect,
        };
        let ready = tokio::select! {
            is_ready = service.admin.is_ready_within(Duration::from_secs(20)) => match is_ready? {
                true => Ok(()),
                false => Err(io::ErrorKind::TimedOut.into()),
            },
            status = api.exited() => Err(io::Error::other(format!("the service has ended: {status}"))),
        };
        ready?;
        let mut options = RedisOptions::new(&redis_url);
        options.connections = 1;
        let keys = Keys::new("ba").expect("the default prefix");
        let metrics = StoreMetrics::register(&Registry::new()).expect("an empty registry");
        let store = Store::new(&options, keys, dialect.as_str(), metrics);
        Ok(Self {
            service,
            store: store.expect("a URL of Redis"),
            redis_url,
            api,
            redis,
            _folder: folder,
        })
    }

    /// Starts the dispatcher that was built beside this program; it runs until it is dropped.
    pub fn dispatcher(&self) -> io::Result<Process> {
        let path = current_exe()?.with_file_name("budget-dispatcher");
        let mut dispatcher = program(&path, &self.redis_url, self.service.dialect);
        // All receivers are on one host.
        dispatcher.env("BUDGET_WEBHOOK_HOST_RATE", "0");
        Process::start(dispatcher)
    }
}

/// Resident memory of a process in bytes; `None` where the system does not report it.
pub(super) fn resident_memory(process: &Process) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).ok()?;
    let (_, size) = status.split_once("VmRSS:")?;
    let kilobytes: u64 = size.split_ascii_whitespace().next()?.parse().ok()?;
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
fn program(path: &Path, redis_url: &str, dialect: Dialect) -> Command {
    let mut command = Command::new(path);
    command
        .env_clear()
        .env("BUDGET_METRICS_LISTEN", "off")
        .env("BUDGET_LOG", "error")
        .env("BUDGET_LOG_FORMAT", "text")
        .env("BUDGET_REDIS_URL", redis_url)
        .env("BUDGET_DIALECT", dialect.as_str())
        .env("BUDGET_ALLOW_PLAINTEXT_SECRETS", "true")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

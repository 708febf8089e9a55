//! Private `redis-server` processes on free ports of 127.0.0.1. They end with the test, or with the test process.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use budget_authority::tools::dev::child;
use redis::{Connection, FromRedisValue, RedisResult, Value};

use super::eventually_blocking;
pub use super::shared::{is_shared, shared};

/// A server with an append-only file, so that a restart finds its data.
pub struct RedisServer {
    pub port: u16,
    folder: Folder,
    program: &'static str,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    child: Option<Child>,
}

impl RedisServer {
    /// A server with the defaults of the tests.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server with further settings, as on its command line: `["--maxmemory", "3mb"]`.
    pub fn start_with(settings: &[&str]) -> Self {
        Self::start_in(Vec::new(), settings)
    }

    /// The same without a file, for a server that is never dropped.
    pub(super) fn start_in_memory(settings: &[&str]) -> Self {
        let server = Self::start_with(&[&["--appendonly", "no"], settings].concat());
        let _ = fs::remove_dir_all(server.folder.path());
        server
    }

    /// The same in an environment.
    pub fn start_in(environment: Vec<(&'static str, String)>, settings: &[&str]) -> Self {
        // Another process may take a free port before we do.
        for _ in 0..20 {
            let mut server = Self::prepare("redis-server", settings);
            server.environment.clone_from(&environment);
            if server.launch().is_ok() {
                return server;
            }
        }
        panic!("redis-server does not start; is it installed?");
    }

    /// A server with a port of its own for TLS, which is also returned, and which takes clients with its own certificate.
    pub fn start_with_tls() -> (Self, u16) {
        let port = free_port();
        let (port_text, file) = (port.to_string(), |name| {
            tls_file(name).display().to_string()
        });
        let settings = [
            ["--tls-port", &port_text],
            ["--tls-cert-file", &file("server.pem")],
            ["--tls-key-file", &file("server.key")],
            ["--tls-ca-cert-file", &file("ca.pem")],
        ];
        (Self::start_with(settings.as_flattened()), port)
    }

    fn prepare(program: &'static str, settings: &[&str]) -> Self {
        let (port, folder) = (free_port(), Folder::new());
        let mut arguments: Vec<String> = Vec::new();
        if program == "redis-server" {
            let dir = folder.path().display().to_string();
            let port = port.to_string();
            let fixed = [
                "--port",
                &port,
                "--bind",
                "127.0.0.1",
                "--dir",
                &dir,
                "--save",
                "",
                "--appendonly",
                "yes",
            ];
            arguments.extend(fixed.map(str::to_owned));
        }
        arguments.extend(settings.iter().map(|setting| setting.to_string()));
        Self {
            port,
            folder,
            program,
            arguments,
            environment: Vec::new(),
            child: None,
        }
    }

    fn launch(&mut self) -> io::Result<()> {
        let mut command = Command::new(self.program);
        command.args(&self.arguments).stdin(Stdio::null());
        command.envs(self.environment.iter().cloned());
        command
            .stdout(fs::File::create(self.folder.path().join("log"))?)
            .stderr(Stdio::null());
        self.child = Some(child::spawn(command)?);
        eventually_blocking("the server answers", || {
            let child = self.child.as_mut().and_then(|child| child.try_wait().ok());
            if child.flatten().is_some() {
                return Ok(Err(io::Error::other("the server ended at once")));
            }
            // After a restart with data it says LOADING for a moment; that is up to the client under test.
            self.connect().map(|_| Ok(()))
        })
    }

    /// `redis://127.0.0.1:<port>`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the server without giving it time to say goodbye.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts the server again after [`RedisServer::kill`], on the same port and data.
    pub fn restart(&mut self) {
        self.kill();
        self.launch().expect("the port is still free");
    }

    /// Stops (`SIGSTOP`) the server without closing its connections.
    pub fn freeze(&self) {
        self.signal(libc::SIGSTOP);
    }

    /// Resumes it after [`RedisServer::freeze`].
    pub fn thaw(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: i32) {
        let child = self.child.as_ref().expect("the server runs");
        // SAFETY: the child is ours and has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
    }

    fn connect(&self) -> RedisResult<Connection> {
        let client = redis::Client::open(self.url())?;
        client.get_connection_with_timeout(Duration::from_secs(5))
    }

    /// Runs a command given as words, once the server has loaded its data.
    pub fn run<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let result = eventually_blocking("its data is loaded", || match self.try_run(words) {
            Err(error) if error.code() == Some("LOADING") => Err(error),
            result => Ok(result),
        });
        result.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Runs a command given as words; fails also where the server closes the connection.
    pub fn try_run<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query(&mut self.connect()?)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A key or certificate of the servers that use TLS.
pub fn tls_file(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/harness/tls")).join(name)
}

/// Three masters without replicas.
pub struct RedisCluster {
    pub masters: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts the masters and waits until each sees all slots covered.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with further settings of each.
    pub fn start_with(settings: &[&str]) -> Self {
        let start = || {
            let bus = free_port().to_string();
            let own = ["--cluster-enabled", "yes", "--cluster-port", &bus];
            let timeout = ["--cluster-node-timeout", "1000"];
            RedisServer::start_with(&[&own[..], &timeout, settings].concat())
        };
        let masters: Vec<_> = (0..3).map(|_| start()).collect();
        for (master, [first, last]) in
            masters
                .iter()
                .zip([["0", "5460"], ["5461", "10922"], ["10923", "16383"]])
        {
            master.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", first, last]);
        }
        // Masters that start with one epoch agree on another later, and may undo a move of a slot meanwhile.
        for (epoch, master) in (1..).zip(&masters) {
            master.run::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &format!("{epoch}")]);
        }
        for other in &masters[1..] {
            let (port, bus) = (other.port.to_string(), other.arguments[13].clone());
            masters[0].run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let cluster = Self { masters };
        let all_agree = || {
            let sees_all = |master: &RedisServer| {
                let slots: Vec<Value> = master.run(&["CLUSTER", "SLOTS"]);
                let info: String = master.run(&["CLUSTER", "INFO"]);
                slots.len() == 3
                    && info.contains("cluster_state:ok")
                    && info.contains("cluster_current_epoch:3")
            };
            cluster.masters.iter().all(sees_all)
        };
        eventually_blocking("the cluster covers all slots", all_agree);
        cluster
    }

    /// `redis+cluster://` with one seed.
    pub fn url(&self) -> String {
        format!("redis+cluster://127.0.0.1:{}", self.masters[0].port)
    }

    /// The port of the owner of a slot as a master sees it, and the newest epoch that it has heard of.
    pub fn view(&self, master: &RedisServer, slot: u16) -> (Option<u16>, String) {
        // First and last slot, the master, and its replicas.
        let ranges: Vec<Vec<Value>> = master.run(&["CLUSTER", "SLOTS"]);
        let number = |value: &Value| redis::from_redis_value_ref::<u16>(value).ok();
        let has = |range: &&Vec<Value>| {
            let [first, last, ..] = &range[..] else {
                return false;
            };
            let ends = number(first).zip(number(last));
            ends.is_some_and(|(first, last)| (first..=last).contains(&slot))
        };
        let port = ranges
            .iter()
            .find(has)
            .and_then(|range| match range.get(2)? {
                Value::Array(node) => number(node.get(1)?),
                _ => None,
            });
        let info: String = master.run(&["CLUSTER", "INFO"]);
        let epoch = info
            .lines()
            .find(|line| line.starts_with("cluster_current_epoch:"));
        (port, epoch.unwrap_or_default().to_owned())
    }

    /// The master that owns the slot of `key`, and the slot.
    pub fn owner(&self, key: &str) -> (&RedisServer, u16) {
        let slot: u16 = self.masters[0].run(&["CLUSTER", "KEYSLOT", key]);
        let owns = |master: &&RedisServer| master.try_run::<Value>(&["EXISTS", key]).is_ok();
        // A busy master may believe for a moment that it is cut off.
        let owner = eventually_blocking("the slot has an owner", || self.masters.iter().find(owns));
        (owner, slot)
    }
}

/// A master with one replica, watched by three Sentinels. The password of the servers is `secret`.
pub struct SentinelTrio {
    pub master: RedisServer,
    pub replica: RedisServer,
    sentinels: Vec<RedisServer>,
}

impl SentinelTrio {
    /// Starts all five and waits until the Sentinels know each other and the replica.
    pub fn start() -> Self {
        let master = RedisServer::start();
        let follow = format!("127.0.0.1 {}", master.port);
        // By default a master waits 5 s for more replicas to come before it sends its data.
        master.run::<()>(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
        let replica = RedisServer::start_with(&["--replicaof", &follow]);
        eventually_blocking("the replica is in step", || {
            let info: String = replica.run(&["INFO", "replication"]);
            info.contains("master_link_status:up")
        });
        let sentinels = (0..3).map(|_| sentinel_of(&master)).collect();
        let trio = Self {
            master,
            replica,
            sentinels,
        };
        let complete = || {
            let knows_all = |sentinel: &RedisServer| {
                let info: String = sentinel.run(&["INFO", "sentinel"]);
                info.contains("slaves=1,sentinels=3")
            };
            trio.sentinels.iter().all(knows_all)
        };
        eventually_blocking("the Sentinels know each other", complete);
        trio
    }

    /// `redis+sentinel://` with all Sentinels.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self
            .sentinels
            .iter()
            .map(|s| format!("127.0.0.1:{}", s.port))
            .collect();
        format!("redis+sentinel://{}/mymaster", hosts.join(","))
    }
}

fn sentinel_of(master: &RedisServer) -> RedisServer {
    let mut sentinel = RedisServer::prepare("redis-sentinel", &[]);
    let file = sentinel.folder.path().join("sentinel.conf");
    let configuration = format!(
        "port {}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 {} 2\n\
         sentinel down-after-milliseconds mymaster 2000\nsentinel failover-timeout mymaster 2000\n",
        sentinel.port, master.port
    );
    fs::write(&file, configuration).expect("the folder is writable");
    sentinel.arguments.push(file.display().to_string());
    sentinel.launch().expect("redis-sentinel starts");
    sentinel
}

/// A port that is free, and that nobody else here is given: a server that was killed finds it again. The system gives none
/// of this range to outgoing connections.
pub fn free_port() -> u16 {
    const PORTS: std::ops::Range<u16> = 10_000..32_000;
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(rand::random_range(PORTS)));
    let take = |port| {
        Some(if port + 1 < PORTS.end {
            port + 1
        } else {
            PORTS.start
        })
    };
    let next = || {
        let taken = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.unwrap_or(PORTS.start)
    };
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(next)
        .take(1_000)
        .find(free)
        .expect("a free port")
}

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("budget-authority-test-{:016x}", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("the temporary folder is writable");
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

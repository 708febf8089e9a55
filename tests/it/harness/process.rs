//! The built binaries as processes of their own, to be killed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use budget_authority::tools::dev::child;

use super::http;
use super::redis::{free_port, is_shared};

/// A process that can be started again with the same arguments.
pub struct Process {
    program: PathBuf,
    arguments: Vec<String>,
    environment: Environment,
    child: Option<Child>,
}

/// Variables that a process has besides those of the tests.
pub type Environment = Vec<(&'static str, String)>;

/// An API replica.
pub struct Replica {
    pub process: Process,
    pub address: SocketAddr,
}

impl Process {
    /// A dispatcher on a deployment.
    pub fn dispatcher(redis_url: &str, prefix: &str) -> Self {
        Self::dispatcher_in(Environment::new(), redis_url, prefix)
    }

    /// A dispatcher that opens the secrets of webhooks, with more in its environment.
    pub fn delivering_dispatcher_in(
        mut environment: Environment,
        redis_url: &str,
        prefix: &str,
    ) -> Self {
        // All receivers are on one host.
        environment.push(("BUDGET_WEBHOOK_HOST_RATE", "0".to_owned()));
        wait_long_for_shared(&mut environment, redis_url);
        let keys = ["--secret-keys", super::app::SECRET_KEYS];
        let arguments = ["--redis-url", redis_url, "--key-prefix", prefix];
        Self::start(
            env!("CARGO_BIN_EXE_budget-dispatcher"),
            &[&arguments[..], &keys].concat(),
            environment,
        )
    }

    /// The same as [`Process::dispatcher`] with more in its environment.
    pub fn dispatcher_in(mut environment: Environment, redis_url: &str, prefix: &str) -> Self {
        wait_long_for_shared(&mut environment, redis_url);
        Self::start(
            env!("CARGO_BIN_EXE_budget-dispatcher"),
            &[
                "--redis-url",
                redis_url,
                "--key-prefix",
                prefix,
                "--allow-plaintext-secrets",
            ],
            environment,
        )
    }

    fn start(program: &'static str, arguments: &[&str], environment: Environment) -> Self {
        let mut arguments: Vec<_> = arguments.iter().map(|word| (*word).to_owned()).collect();
        arguments.extend(["--metrics-listen", "off", "--log", "warn"].map(str::to_owned));
        let mut process = Self {
            program: program.into(),
            arguments,
            environment,
            child: None,
        };
        process.restart();
        process
    }

    /// Starts it, after a kill if it still runs.
    pub fn restart(&mut self) {
        self.kill();
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null());
        command.envs(self.environment.iter().cloned());
        if std::env::var_os("RUST_LOG").is_none() {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        self.child = Some(child::spawn(command).expect("it starts"));
    }

    /// Ends it in order, then starts it from another build, whose binaries are in a folder.
    pub async fn replace(&mut self, build: &Path) {
        self.terminate();
        let limit = Duration::from_secs(30);
        assert!(self.ended(limit).await, "it ends in order");
        self.restart_from(build);
    }

    /// Starts it from another build, after a kill if it still runs.
    pub fn restart_from(&mut self, build: &Path) {
        self.program = build.join(self.program.file_name().expect("a binary"));
        self.restart();
    }

    /// The memory that it takes, in bytes.
    pub fn resident_bytes(&self) -> usize {
        let id = self.child.as_ref().expect("it runs").id();
        let pages = std::fs::read_to_string(format!("/proc/{id}/statm")).expect("it runs");
        let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
        4096 * pages.unwrap_or(0_usize)
    }

    /// `SIGKILL`.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Whether it has not ended by itself.
    pub fn is_running(&mut self) -> bool {
        let status = self.child.as_mut().map(Child::try_wait);
        status.is_some_and(|status| status.expect("it is ours").is_none())
    }

    /// `SIGTERM`, without waiting.
    pub fn terminate(&self) {
        self.signal(libc::SIGTERM);
    }

    /// `SIGINT`, as by Ctrl-C, without waiting.
    pub fn interrupt(&self) {
        self.signal(libc::SIGINT);
    }

    fn signal(&self, signal: i32) {
        let child = self.child.as_ref().expect("it runs");
        // SAFETY: the child is ours and has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
    }

    /// Waits until it has ended by itself; whether that was in order.
    pub async fn ended(&mut self, limit: Duration) -> bool {
        let child = Mutex::new(self.child.as_mut().expect("it runs"));
        let ended = || async {
            child
                .lock()
                .expect("no panic")
                .try_wait()
                .expect("it is ours")
        };
        let status = super::within(limit, "the process has ended", ended).await;
        status.success()
    }
}

/// No outage is meant to reach a Redis that tests share: a busy machine shall not look like one.
fn wait_long_for_shared(environment: &mut Environment, redis_url: &str) {
    const NAME: &str = "BUDGET_REDIS_TIMEOUT_MS";
    if is_shared(redis_url) && !environment.iter().any(|(name, _)| *name == NAME) {
        environment.push((NAME, "20000".to_owned()));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Replica {
    /// An API replica of a deployment, on a port of its own, which it keeps over restarts.
    pub fn start(redis_url: &str, prefix: &str, settings: &[&str]) -> Self {
        Self::start_in(Environment::new(), redis_url, prefix, settings)
    }

    /// The same with more in its environment.
    pub fn start_in(
        environment: Environment,
        redis_url: &str,
        prefix: &str,
        settings: &[&str],
    ) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let listen = address.to_string();
        let mut arguments = vec!["serve", "--redis-url", redis_url, "--key-prefix", prefix];
        arguments.extend(["--secret-keys", super::app::SECRET_KEYS]);
        arguments.extend(["--listen", &listen]);
        arguments.extend(settings);
        Self {
            process: Process::start(
                env!("CARGO_BIN_EXE_budget-authority"),
                &arguments,
                environment,
            ),
            address,
        }
    }

    /// Waits until it is ready.
    pub async fn ready(&self) {
        let url = format!("http://{}/ready", self.address);
        super::eventually("the replica is ready", || async {
            let response = http::get(&url).await.ok()?;
            response.status().is_success().then_some(())
        })
        .await;
    }
}

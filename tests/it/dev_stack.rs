//! `budget-authority dev`, run as its users run it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use budget_authority::dev::child;

use crate::harness::eventually;
use crate::harness::redis::free_port;

/// A stack without the demo tenant, on data that the test keeps.
struct Stack {
    child: Child,
    url: String,
}

impl Stack {
    async fn start(data: &Path) -> Self {
        let port = free_port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
        command.args(["dev", "--no-demo", "--data"]).arg(data);
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = child::spawn(command).expect("the binary is built");
        let url = format!("http://127.0.0.1:{port}/ready");
        eventually("the stack is ready", || async {
            let response = reqwest::get(&url).await.ok()?;
            response.status().is_success().then_some(())
        })
        .await;
        Self { child, url }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the child is ours and has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    async fn ended(&mut self) -> ExitStatus {
        let child = std::cell::RefCell::new(&mut self.child);
        eventually("the stack has ended", || async {
            child.borrow_mut().try_wait().expect("our child")
        })
        .await
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that is removed in the end.
struct Data(PathBuf);

impl Data {
    fn new() -> Self {
        let name = format!("budget-authority-dev-{:016x}", rand::random::<u64>());
        Self(std::env::temp_dir().join(name))
    }

    fn socket(&self) -> PathBuf {
        self.0.join("redis.sock")
    }

    fn redis(&self) -> redis::Connection {
        let url = format!("redis+unix://{}", self.socket().display());
        let client = redis::Client::open(url).expect("a url");
        client.get_connection().expect("Redis answers")
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn redis_is_gone(data: &Data) {
    eventually("the private Redis has ended", || async {
        std::os::unix::net::UnixStream::connect(data.socket())
            .err()
            .map(drop)
    })
    .await;
}

#[tokio::test]
async fn it_is_ready_soon_stops_cleanly_and_finds_its_data_again() {
    let data = Data::new();
    let started = Instant::now();
    let mut stack = Stack::start(&data.0).await;
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
    redis::cmd("SET")
        .arg("kept")
        .arg("yes")
        .exec(&mut data.redis())
        .expect("it is written");
    let key = fs::read_to_string(data.0.join("admin-key")).expect("a key");
    stack.signal(libc::SIGINT);
    assert!(stack.ended().await.success());
    redis_is_gone(&data).await;
    assert!(reqwest::get(&stack.url).await.is_err());

    let mut again = Stack::start(&data.0).await;
    let kept: String = redis::cmd("GET")
        .arg("kept")
        .query(&mut data.redis())
        .expect("it is read");
    assert_eq!(kept, "yes");
    assert_eq!(
        fs::read_to_string(data.0.join("admin-key")).expect("a key"),
        key
    );
    again.signal(libc::SIGTERM);
    assert!(again.ended().await.success());
}

#[tokio::test]
async fn a_killed_stack_leaves_no_redis_behind() {
    let data = Data::new();
    let mut stack = Stack::start(&data.0).await;
    stack.signal(libc::SIGKILL);
    assert!(!stack.ended().await.success());
    redis_is_gone(&data).await;
    Stack::start(&data.0).await;
}

//! `budget-dispatcher`, run as operators run it: several at once, stopped and killed.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use budget_authority::store::Store;
use budget_authority::tools::dev::child;

use crate::harness::app::SECRET_KEYS;
use crate::harness::http;
use crate::harness::redis::{free_port, shared};
use crate::harness::redis_fixture::now_ms;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::tenant_fixture::TenantFixture;
use crate::harness::{eventually, store};

/// Ends at once when it is dropped.
pub(crate) struct Dispatcher {
    child: Child,
    metrics: String,
}

impl Dispatcher {
    /// One with the secrets of the tests.
    pub(crate) fn start(store: &Store) -> Self {
        let port = free_port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_budget-dispatcher"));
        let listen = format!("127.0.0.1:{port}");
        command.args([
            "--redis-url",
            &shared().url(),
            "--key-prefix",
            store.keys().prefix(),
        ]);
        command.args(["--metrics-listen", &listen, "--secret-keys", SECRET_KEYS]);
        command.args(LONG_REDIS_TIMEOUT);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self {
            child: child::spawn(command).expect("the binary is built"),
            metrics: format!("http://{listen}"),
        }
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) async fn metric(&self, name: &str) -> Option<f64> {
        let text = http::get(format!("{}/metrics", self.metrics))
            .await
            .ok()?
            .text()
            .await
            .ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.parse().ok()
    }

    async fn holds(&self, partitions: f64) {
        eventually("the partitions are shared", || async {
            let held = self.metric("budget_partitions_leased").await?;
            (held == partitions).then_some(())
        })
        .await;
    }

    /// Kills it, as a failure of its machine would.
    pub(crate) fn kill(self) {}

    async fn stop(mut self) {
        // SAFETY: the child is ours and has not been waited for.
        assert_eq!(
            unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) },
            0
        );
        let ended = tokio::task::spawn_blocking(move || self.child.wait())
            .await
            .expect("no panic");
        assert!(ended.expect("an exit code").success());
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn dispatchers_share_expire_and_replace_each_other() {
    let store = store(&shared().url());
    let mut tenants = Vec::new();
    for name in ["acme", "bolt", "cask"] {
        tenants.push(TenantFixture::bare(&store, name).await);
    }
    let (first, second) = (Dispatcher::start(&store), Dispatcher::start(&store));
    first.holds(512.0).await;
    second.holds(512.0).await;
    let ready = http::get(format!("{}/ready", first.metrics))
        .await
        .expect("an answer");
    assert!(ready.status().is_success());

    // Whoever owns their partitions, holds return within about a second of their time.
    let due_ms = now_ms(&store).await + 300;
    for tenant in &mut tenants {
        tenant.write_holds(50, due_ms).await;
    }
    for tenant in &tenants {
        eventually("the holds are back", || async {
            tenant.figures().await[1] == 0
        })
        .await;
    }
    let late_ms = now_ms(&store).await - due_ms;
    assert!(late_ms < 10_000, "{late_ms} ms late");
    // A sweeper counts the replies, so a moment after the ledgers show it.
    eventually("every expiry is counted once", || async {
        let mut expired = 0.0;
        for dispatcher in [&first, &second] {
            expired += dispatcher.metric("budget_sweep_expired_total").await?;
        }
        (expired == 150.0).then_some(())
    })
    .await;

    // A dispatcher that stops gives back its leases; the other need not wait until they lapse.
    let stopped = Instant::now();
    first.stop().await;
    second.holds(1024.0).await;
    assert!(
        stopped.elapsed() < Duration::from_millis(9_500),
        "{:?}",
        stopped.elapsed()
    );
    second.stop().await;
    let alive: i64 = tenants[0]
        .run(&["ZCARD", &store.keys().dispatchers()])
        .await;
    assert_eq!(alive, 0);
}

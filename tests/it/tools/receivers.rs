//! The receivers in `examples`, run as their users run them, against real deliveries.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use budget_authority::tools::dev::child;
use serde_json::json;

use crate::admin::webhooks::subscriptions::HOOKS;
use crate::harness::deliveries::{RunningDispatcher, fund, here, reached};
use crate::http::clients::{succeed, target};

const SECRET: &str = "whsec_a-secret-of-the-receiver";

/// A receiver, and what it prints.
struct Example {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Example {
    fn start(mut command: Command) -> Self {
        command.env("WEBHOOK_SECRET", SECRET).stdout(Stdio::piped());
        let mut child = child::spawn(command).expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    /// Two events, of which it prints each once, and a forged one, which it refuses.
    async fn check(mut self) {
        let first = self.line();
        let url = first
            .strip_prefix("listening on ")
            .expect(&first)
            .to_owned()
            + "/";
        let app = here().await;
        let _running = RunningDispatcher::start(&app);
        let wanted =
            json!({"url": url, "event_types": ["budget.funded"], "signing_secret": SECRET});
        let path = format!("{HOOKS}?tenant_id=umbra");
        let made = app.post_as_admin(&path, wanted).await.expect(201);
        let id = made
            .at("/subscription/subscription_id")
            .as_str()
            .expect("an id")
            .to_owned();
        fund(&app, 2).await;
        reached(&app, &id, "SUCCESS", 2).await;
        for _ in 0..2 {
            let line = self.line();
            assert!(line.contains(" budget.funded {"), "{line}");
        }
        let forged = reqwest::Client::new()
            .post(&url)
            .header("X-Service-Signature", format!("sha256={}", "0".repeat(64)))
            .body("{}");
        assert_eq!(forged.send().await.expect("a response").status(), 401);
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn example(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_receiver_in_python_verifies_and_prints() {
    let mut command = Command::new("python3");
    command
        .arg("-u")
        .arg(example("webhook_receiver.py"))
        .arg("0");
    Example::start(command).check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_receiver_in_rust_verifies_and_prints() {
    let mut build = Command::new("cargo");
    build.args([
        "build",
        "--quiet",
        "--locked",
        // That of all tests, so that nothing below it is built once more.
        "--profile",
        "test",
        "--example",
        "webhook_receiver",
    ]);
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    succeed(build).await;
    let folder = target().parent().expect("a folder").join("debug/examples");
    let mut command = Command::new(folder.join("webhook_receiver"));
    command.arg("0");
    Example::start(command).check().await;
}

//! The published client libraries of the public protocol, unchanged, against the real service in their dialect. What they
//! check is in `tests/clients`; here they get a service, and a tenant that is closed while its key still stands.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::redis::shared;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// Where `prepare` puts what it makes.
pub(crate) fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"));
    target.join("clients")
}

/// Runs a program to its end; it must succeed, or the test fails with all that it wrote.
pub(crate) async fn succeed(mut command: Command) {
    let described = format!("{command:?}");
    let run = tokio::task::spawn_blocking(move || command.output());
    let output = run.await.expect("no panic").expect("it starts");
    assert!(
        output.status.success(),
        "{described}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}

/// Installs what a client needs, unless it is there.
pub(crate) async fn prepare(client: &str) {
    // Two at once would remove what the other one installs.
    static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _one = ONE_AT_A_TIME.lock().await;
    let mut command = Command::new(folder().join("prepare"));
    command.arg(client);
    succeed(command).await;
}

/// Runs the checks of a client against a service of its own.
async fn check(mut command: Command) {
    let app = TestApp::spawn_on(&shared().url(), &["--dialect", "cycles"]).await;
    let closed = &app.callers[1].tenant;
    let record = app.store.keys().tenant(closed.partition(), closed.as_str());
    app.run::<()>(&["HSET", &record, "status", "CLOSED"]).await;
    command
        .env("BUDGET_URL", format!("http://{}", app.address))
        .env("BUDGET_ADMIN_KEY", ADMIN_KEY)
        .env("BUDGET_CLOSED_TENANT", closed.as_str())
        .env("BUDGET_CLOSED_KEY", &app.keys[1]);
    succeed(command).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_python_client_works_unchanged() {
    prepare("python").await;
    let mut command = Command::new(target().join("python/bin/python"));
    command.args(["-B", "-W", "error::ResourceWarning", "-m", "unittest"]);
    command.current_dir(folder().join("python"));
    check(command).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_rust_client_works_unchanged() {
    prepare("rust").await;
    let mut command = Command::new("cargo");
    command.args(["test", "--quiet", "--locked", "--manifest-path"]);
    command.arg(folder().join("rust/Cargo.toml"));
    command.arg("--target-dir").arg(target().join("rust"));
    // As `prepare` has built it.
    command
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CLIPPY_ARGS");
    check(command).await;
}

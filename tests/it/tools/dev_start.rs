//! Messages of `budget-authority dev` and `serve` at start, and when they cannot start.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::dev_stack::{Stack, WorkFolder};
use crate::harness::app::SECRET_KEYS;
use crate::harness::http;
use crate::harness::redis::shared;
use crate::harness::store;

/// Runs a command that must end by itself.
fn run(folder: &WorkFolder, words: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_budget-authority")]);
    command.args(words).current_dir(folder.path("home"));
    command.env("TMPDIR", folder.path("tmp"));
    command.stdin(Stdio::null()).output().expect("it is built")
}

/// Checks that a command ended with code 1, and printed one line, which is returned.
fn refused(folder: &WorkFolder, words: &[&str]) -> String {
    let output = run(folder, words);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.starts_with("error: "), "{err}");
    err
}

#[tokio::test]
async fn an_ephemeral_stack_starts_without_warnings_and_names_its_documentation() {
    let folder = WorkFolder::new();
    let stack = Stack::start(&folder, &["--ephemeral"]).await;
    // By then its Redis was looked at: that comes before the first request of the demo tenant.
    let page = http::get(stack.printed("docs")).await.expect("a response");
    assert_eq!(page.status(), 200);
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    let ready = http::get(format!("{}/ready", stack.url)).await;
    assert_eq!(ready.expect("a response").status(), 200);
    for level in ["WARN", "ERROR"] {
        assert!(
            !stack.printed_by_now().contains(level),
            "{}",
            stack.printed_by_now()
        );
    }
}

#[tokio::test]
async fn data_of_another_dialect_stops_the_start_with_advice() {
    let folder = WorkFolder::new();
    let data = ["--data", "kept", "--no-demo"];
    let stack = Stack::start(&folder, &data).await;
    stack.stop(libc::SIGINT).await;
    let start = [
        "dev",
        "--listen",
        "127.0.0.1:0",
        "--data",
        "kept",
        "--dialect",
        "cycles",
    ];
    let line = refused(&folder, &start);
    let expected = "error: the data in kept speaks the dialect `service`: start with --dialect service, or keep the data of \
                    another dialect apart: --data .data-cycles\n";
    assert_eq!(line, expected);
    // Nothing was changed.
    Stack::start(&folder, &data).await.stop(libc::SIGINT).await;
}

#[tokio::test]
async fn a_service_of_another_dialect_exits_with_1_and_names_the_setting() {
    let folder = WorkFolder::new();
    let store = store(&shared().url());
    store.secret().await.expect("a deployment");
    let (url, prefix) = (shared().url(), store.keys().prefix());
    let serve = [
        "serve",
        "--redis-url",
        &url,
        "--key-prefix",
        prefix,
        "--dialect",
        "cycles",
    ];
    let more = [
        "--listen",
        "127.0.0.1:0",
        "--metrics-listen",
        "off",
        "--secret-keys",
        SECRET_KEYS,
    ];
    let output = run(&folder, &[&serve[..], &more].concat());
    let log = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{log}");
    let line = format!(
        "error: the data under prefix `{prefix}` was started with dialect `service`, this process runs `cycles`: \
         set BUDGET_DIALECT=service, or choose another BUDGET_KEY_PREFIX"
    );
    assert_eq!(log.lines().last(), Some(line.as_str()));
}

#[tokio::test]
async fn a_taken_port_stops_the_start_with_advice() {
    let folder = WorkFolder::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let remedy = format!(
        "cannot listen on {address}: another process listens there; stop that one, or choose another address\n"
    );
    let line = refused(&folder, &["dev", "--ephemeral", "--listen", &address]);
    assert_eq!(line, format!("error: --listen: {remedy}"));
    let url = shared().url();
    let serve = [
        "serve",
        "--redis-url",
        &url,
        "--listen",
        &address,
        "--log",
        "warn",
    ];
    let keys = ["--metrics-listen", "off", "--secret-keys", SECRET_KEYS];
    let line = refused(&folder, &[&serve[..], &keys].concat());
    assert_eq!(line, format!("error: BUDGET_LISTEN: {remedy}"));
}

/// An earlier release made the demo tenant with budgets of tokens alone.
#[tokio::test]
async fn a_demo_tenant_without_funds_is_funded_and_keeps_its_key() {
    let folder = WorkFolder::new();
    let data = ["--data", "kept", "--admin-key", "k"];
    let stack = Stack::start(&folder, &[&data[..], &["--no-demo"]].concat()).await;
    let tokens = json!({"unit": "TOKENS", "amount": 1});
    let mut made = Value::Null;
    for (path, body) in [
        ("tenants", json!({"tenant_id": "demo", "name": "Demo"})),
        (
            "budgets",
            json!({"tenant_id": "demo", "scope": "tenant:demo", "unit": "TOKENS", "allocated": tokens}),
        ),
        ("api-keys", json!({"tenant_id": "demo", "name": "demo key"})),
    ] {
        let url = format!("{}/v1/admin/{path}", stack.url);
        let request = http::client().post(url).header("X-Admin-API-Key", "k");
        let response = request.json(&body).send().await.expect("a response");
        assert_eq!(response.status(), 201, "{path}");
        made = response.json().await.expect("JSON");
    }
    let key = made["key_secret"].as_str().expect("a key");
    std::fs::write(folder.path("home/kept/demo-key"), key).expect("the folder is writable");
    stack.stop(libc::SIGINT).await;

    let stack = Stack::start(&folder, &data).await;
    assert!(stack.printed("demo").ends_with(key));
    let url = format!("{}/v1/balances?tenant=demo", stack.url);
    let request = http::client().get(url).header("X-Service-API-Key", key);
    let balances: Value = request
        .send()
        .await
        .expect("a response")
        .json()
        .await
        .expect("JSON");
    let rows = balances["balances"].as_array().expect("rows");
    let in_unit = |unit: &str| {
        let rows = rows
            .iter()
            .filter(|row| row["allocated"]["unit"] == unit)
            .map(|row| row["allocated"]["amount"].as_i64());
        rows.flatten().collect::<Vec<_>>()
    };
    assert_eq!(
        in_unit("USD_MICROCENTS"),
        [1_000_000_000, 250_000_000, 50_000_000]
    );
    assert_eq!(in_unit("TOKENS"), [1, 250_000, 50_000]);
}

/// Redis's own files hold the secrets of webhooks and all balances.
#[tokio::test]
async fn nobody_else_reads_the_data_of_a_folder_that_is_open_to_all() {
    let folder = WorkFolder::new();
    let data = folder.path("home/kept");
    for open in [&data, &data.join("appendonlydir")] {
        fs::create_dir(open).expect("the folder is writable");
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    let stack = Stack::start(&folder, &["--data", "kept"]).await;
    let mut found = 0;
    for entry in fs::read_dir(&data).expect("a folder") {
        let entry = entry.expect("an entry");
        let mode = entry.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", entry.path().display());
        found += 1;
    }
    assert!(found >= 6, "{found}");
    stack.stop(libc::SIGINT).await;
}

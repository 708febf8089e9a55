//! Commands that read the keys of a deployment, as they are called.

use crate::harness::redis::{RedisServer, shared};
use crate::harness::store;

/// Runs a command of the binary; its exit code and what it wrote.
fn run_binary(arguments: &[&str]) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_budget-authority");
    let mut command = std::process::Command::new(program);
    let output = command.args(arguments).output().expect("it is built");
    let both = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&both).into())
}

#[tokio::test]
async fn the_sizes_of_an_unknown_tenant_are_an_error() {
    let store = store(&shared().url());
    store.secret().await.expect("a deployment");
    let (url, prefix) = (shared().url(), store.keys().prefix());
    let arguments = [
        "keys",
        "sizes",
        "--tenant",
        "nobody",
        "--redis-url",
        &url,
        "--key-prefix",
        prefix,
    ];
    let (code, text) = run_binary(&arguments);
    assert_eq!(code, Some(1), "{text}");
    let stated = format!("there is no tenant `nobody` under the key prefix `{prefix}`");
    assert!(text.contains(&stated), "{text}");
}

#[tokio::test]
async fn ledgers_are_verified_through_a_unix_socket() {
    let folder = std::env::temp_dir().join(format!("{:016x}", rand::random::<u64>()));
    std::fs::create_dir(&folder).expect("the temporary folder is writable");
    let socket = folder.join("redis.sock").display().to_string();
    let _server = RedisServer::start_with(&["--unixsocket", &socket]);
    let (code, text) = run_binary(&["ledger", "verify", "--redis-url", &socket]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("there is no deployment under the key prefix `ba`"),
        "{text}"
    );
    std::fs::remove_dir_all(folder).expect("it is ours");
}

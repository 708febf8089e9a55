//! `budget-authority admin`: the commands that read, and the messages of errors.

use serde_json::Value;
use tokio::process::Command;

use crate::harness::admin_cli::{AdminCli, ran};
use crate::harness::app::TestApp;
use crate::harness::eventually;
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

#[tokio::test]
async fn events_are_tailed_and_audit_entries_found() {
    let operator = AdminCli::new(&[]).await;
    operator.run("tenant create umbrella").await.done();
    operator
        .run("budget create tenant:umbrella --allocated 1000")
        .await
        .done();
    operator
        .run("budget fund tenant:umbrella --debit 5000")
        .await
        .refused(1, "BUDGET_EXCEEDED");
    let events = operator
        .run("--json event tail --tenant umbrella")
        .await
        .rows();
    let types: Vec<_> = events
        .iter()
        .filter_map(|event| event["event_type"].as_str())
        .collect();
    assert_eq!(types, ["tenant.created", "budget.created"]);
    let id = events[1]["event_id"].as_str().expect("an id");
    assert_eq!(
        operator
            .run(&format!("--json event show {id}"))
            .await
            .json(),
        events[1]
    );
    let text = operator.run("event tail --tenant umbrella -n 1").await.out;
    assert!(
        text.contains("budget.created")
            && text.contains("tenant:umbrella")
            && text.lines().count() == 1,
        "{text}"
    );

    let entries = operator
        .run("--json audit search --tenant umbrella --refused --since 1h")
        .await
        .rows();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["error_code"], "BUDGET_EXCEEDED");
    let all = operator.run("audit search --tenant umbrella").await.out;
    assert_eq!(all.lines().count(), 4, "{all}");
}

#[tokio::test]
async fn a_tail_follows_until_its_pipe_closes() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let operator = AdminCli::new(&[]).await;
    operator.run("tenant create umbrella").await.done();
    let mut tail = operator
        .command("--json event tail --tenant umbrella --follow")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the binary is built");
    let mut lines = BufReader::new(tail.stdout.take().expect("a pipe")).lines();
    let mut next = async || -> Value {
        let line = lines.next_line().await.expect("a pipe").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    };
    assert_eq!(next().await["event_type"], "tenant.created");
    operator.run("tenant suspend umbrella").await.done();
    assert_eq!(next().await["event_type"], "tenant.suspended");
    operator.run("tenant reactivate umbrella").await.done();
    assert_eq!(next().await["event_type"], "tenant.reactivated");
    drop(lines);
    operator
        .run("tenant update umbrella --name New")
        .await
        .done();
    let ended = tail.wait().await.expect("it ends");
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test]
async fn a_tail_outlives_a_failure_of_the_service_and_misses_nothing() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let redis = RedisServer::start();
    let first = TestApp::spawn_on(&redis.url(), LONG_REDIS_TIMEOUT).await;
    let app = first.replica(&["--redis-timeout-ms", "300"]).await;
    let first = AdminCli { app: first };
    first.run("tenant create umbrella").await.done();
    let operator = AdminCli { app };
    let mut tail = operator
        .command("--json event tail --tenant umbrella -n 0 --follow")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the binary is built");
    let mut errors = BufReader::new(tail.stderr.take().expect("a pipe")).lines();
    let mut lines = BufReader::new(tail.stdout.take().expect("a pipe")).lines();
    let polled = r#"budget_http_requests_total{operation="GET /v1/admin/events",status="2xx"}"#;
    eventually("the tail has polled", || async {
        let metrics = operator.app.telemetry.render().expect("metrics");
        let mut lines = metrics.lines().filter(|line| line.contains(polled));
        lines.any(|line| !line.ends_with(" 0"))
    })
    .await;
    redis.freeze();
    let failure = errors.next_line().await.expect("a pipe").expect("a line");
    redis.thaw();
    assert!(failure.contains("failed: 503"), "{failure}");
    while operator.run("tenant suspend umbrella").await.code != 0 {}
    let line = lines.next_line().await.expect("a pipe").expect("a line");
    let event: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(
        event["event_type"], "tenant.suspended",
        "what was before is not shown"
    );
}

#[tokio::test]
async fn the_overview_is_printed_as_one_page() {
    let operator = AdminCli::new(&[]).await;
    operator.run("tenant create umbrella").await.done();
    let budget = "budget create tenant:umbrella --unit USD_MICROCENTS --allocated 5";
    operator.run(budget).await.done();
    let text = operator.run("overview").await.out;
    assert!(
        text.starts_with("as of 20") && text.contains("\ntenants   "),
        "{text}"
    );
    assert!(text.contains(" USD_MICROCENTS 1"), "{text}");
    assert!(operator.run("--json overview").await.json()["tenant_counts"].is_object());
}

#[tokio::test]
async fn an_empty_list_of_an_unknown_tenant_is_an_error() {
    let operator = AdminCli::new(&[]).await;
    operator.run("tenant create umbrella").await.done();
    for list in [
        "budget tree",
        "budget list",
        "key list",
        "policy list",
        "reservation list",
        "event tail -n 0",
    ] {
        let unknown = operator.run(&format!("{list} --tenant umbrela")).await;
        unknown.refused(1, "TENANT_NOT_FOUND");
        assert!(
            unknown.err.contains("`admin tenant list` shows"),
            "{unknown:?}"
        );
        let known = operator.run(&format!("{list} --tenant umbrella")).await;
        known.done();
        assert!(known.out.is_empty(), "{known:?}");
    }
    let own = operator.run("event tail --tenant __system__").await;
    assert_eq!((own.code, own.err.as_str()), (0, "no events\n"));
}

#[tokio::test]
async fn errors_give_advice_and_exit_codes_the_kind_of_failure() {
    let operator = AdminCli::new(&[]).await;
    operator
        .run("tenant show nobody")
        .await
        .refused(1, "TENANT_NOT_FOUND");
    operator
        .run("budget create agent:a --allocated 1")
        .await
        .refused(2, "must begin with tenant:ID");
    operator
        .run("budget fund tenant:acme")
        .await
        .refused(2, "--credit");
    operator
        .run("audit search --since yesterday")
        .await
        .refused(2, "15m");
    let with = async |name: &str, value: &str| {
        ran(operator
            .command("tenant list")
            .env(name, value)
            .output()
            .await
            .expect("it runs"))
    };
    with("BUDGET_ADMIN_KEY", "wrong")
        .await
        .refused(1, "BUDGET_ADMIN_KEYS");
    with("BUDGET_ADMIN_KEY", "")
        .await
        .refused(2, "BUDGET_ADMIN_KEY_FILE is required, or a profile");
    with("BUDGET_URL", "http://127.0.0.1:9")
        .await
        .refused(3, "or a profile sets where it is");
    let wrong = ran(operator
        .command("tenant list")
        .env("BUDGET_ADMIN_KEY", "wrong-secret")
        .output()
        .await
        .expect("it runs"));
    assert!(!wrong.err.contains("wrong-secret"), "{wrong:?}");
}

/// A path without the id would be another operation: that of the list.
#[tokio::test]
async fn an_id_that_cannot_stand_in_a_path_is_refused() {
    let operator = AdminCli::new(&[]).await;
    for id in ["", ".", ".."] {
        let refused = operator.command("tenant show").arg(id).output().await;
        ran(refused.expect("it runs")).refused(2, &format!("`{id}`"));
    }
}

/// Rows hold texts that tenants and strangers have chosen, also inside of objects.
#[tokio::test]
async fn client_chosen_text_does_not_control_the_terminal() {
    let operator = AdminCli::new(&[]).await;
    operator.budget("tenant:acme", 1000).await;
    let fund = operator.command("budget fund tenant:acme --credit 1 --reason");
    let funded = { fund }.arg("a\u{9b}2Jb\u{7f}").output().await;
    ran(funded.expect("it runs")).done();
    let tail = operator.run("event tail --tenant acme -n 1").await.out;
    assert!(tail.contains("a\\u{9b}2Jb\\u{7f}"), "{tail:?}");
}

/// Sends this response to every request, once read.
async fn answering(response: &'static str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(response.as_bytes()).await;
        }
    });
    address.to_string()
}

#[tokio::test]
async fn the_advice_after_a_lost_response_works() {
    let operator = AdminCli::new(&[]).await;
    let broken = answering("").await;
    let failing = answering(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    )
    .await;
    for (command, says) in [
        ("tenant list", "try again"),
        ("budget fund tenant:acme --credit 1", "--idempotency-key "),
        (
            "budget create tenant:acme --allocated 1",
            "--idempotency-key ",
        ),
        ("reservation release r000_x", "--idempotency-key "),
        ("budget freeze tenant:acme", "changes nothing twice"),
        ("tenant close acme --yes", "changes nothing twice"),
        ("policy disable pol_x", "changes nothing twice"),
        ("key revoke key_x", "changes nothing twice"),
        (
            "key create --tenant acme --name n",
            "admin key list --tenant acme",
        ),
    ] {
        for address in [&broken, &failing] {
            let url = format!("http://operator:hunter2@{address}");
            let output = operator.command(command).env("BUDGET_URL", url).output();
            let response = ran(output.await.expect("it runs"));
            response.refused(3, says);
            assert!(!response.err.contains("hunter2"), "{response:?}");
            if !says.starts_with("--") {
                // Most commands have no such flag.
                assert!(!response.err.contains("--idempotency-key"), "{response:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_help_lists_the_exit_codes_and_a_timeout_of_nothing_is_refused() {
    let operator = AdminCli::new(&[]).await;
    assert!(operator.run("--help").await.out.contains("Exit codes"));
    operator
        .run("--timeout 0 tenant list")
        .await
        .refused(2, "--timeout");
}

#[tokio::test]
async fn completions_end_without_error_when_their_pipe_closes() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
    let mut printing = command
        .args(["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary is built");
    drop(printing.stdout.take());
    let ended = ran(printing.wait_with_output().await.expect("it ends"));
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
}

#[tokio::test]
async fn shells_complete_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
        let script = ran(command
            .args(["completions", shell])
            .output()
            .await
            .expect("it runs"));
        assert!(
            script.code == 0 && script.out.contains("overview"),
            "{shell}: {script:?}"
        );
    }
}

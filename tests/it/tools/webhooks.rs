//! `budget-authority admin webhook`.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::admin::webhooks::subscriptions::made;
use crate::dispatcher::replays::{hook, past};
use crate::harness::admin_cli::{AdminCli, ran};
use crate::harness::deliveries::{RunningDispatcher, fund, here, reached};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};

/// A service that delivers to this machine, and its operator.
async fn operator() -> (AdminCli, RunningDispatcher) {
    let app = here().await;
    let running = RunningDispatcher::start(&app);
    (AdminCli { app }, running)
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().expect(member).to_owned()
}

#[tokio::test]
async fn a_webhook_is_made_listed_changed_and_deleted() {
    let (operator, _running) = operator().await;
    let run = async |words: &str| operator.run(words).await;
    let made = run("--json webhook create https://receiver.example/hook --tenant umbra --type budget.funded,budget.exhausted --name first --header X-Team=blue --max-retries 2 --utilization 0.5,0.9").await.json();
    assert!(text(&made, "signing_secret").starts_with("whsec_"));
    let made = &made["subscription"];
    assert_eq!(made["headers"], json!({"X-Team": "********"}));
    assert_eq!(made["retry_policy"]["max_retries"], 2);
    assert_eq!(made["thresholds"]["budget_utilization"], json!([0.5, 0.9]));
    let id = text(made, "subscription_id");
    let own = run("--json webhook list --tenant umbra").await.rows();
    assert_eq!(own.len(), 1);
    let table = run("webhook list --type budget.funded").await.out;
    assert!(
        table.contains(&id) && table.contains("receiver.example"),
        "{table}"
    );
    let changed = format!(
        "--json webhook update {id} --receiver https://receiver.example/b --category tenant"
    );
    let changed = run(&changed).await.json();
    assert_eq!(
        (
            &changed["url"],
            &changed["event_categories"],
            &changed["name"]
        ),
        (
            &json!("https://receiver.example/b"),
            &json!(["tenant"]),
            &json!("first")
        )
    );
    run(&format!("webhook update {id}"))
        .await
        .refused(2, "nothing to change");
    // There are webhooks, but none of these.
    for (words, message) in [
        (
            "webhook list --status PAUSED",
            "no webhooks match these filters\n",
        ),
        (
            &*format!("webhook deliveries {id} --status FAILED"),
            "no deliveries match these filters\n",
        ),
        (&format!("webhook deliveries {id}"), "no deliveries\n"),
    ] {
        assert_eq!(run(words).await.err, message, "{words}");
    }
    let status = async |command: &str| {
        run(&format!("--json webhook {command} {id}")).await.json()["status"].clone()
    };
    assert_eq!(status("pause").await, "PAUSED");
    assert_eq!(status("resume").await, "ACTIVE");
    run(&format!("webhook delete {id}")).await.done();
    run(&format!("webhook show {id}"))
        .await
        .refused(1, "admin webhook list");
}

#[tokio::test]
async fn a_secret_comes_from_a_file_and_the_rules_can_be_set() {
    let (operator, _running) = operator().await;
    let file = std::env::temp_dir().join(format!("secret-{:016x}", rand::random::<u64>()));
    std::fs::write(&file, "a secret of the receiver\n").expect("a file");
    let words = format!(
        "--json webhook create https://receiver.example/ --type tenant.created --secret-file {}",
        file.display()
    );
    let made = operator.run(&words).await.json();
    assert_eq!(made["signing_secret"], "a secret of the receiver");
    assert_eq!(made["subscription"]["tenant_id"], "__system__");
    std::fs::remove_file(&file).expect("the file");
    operator.run(&words).await.refused(2, "--secret-file");
    let rules = async |words: &str| {
        operator
            .run(&format!("--json webhook rules {words}"))
            .await
            .json()
    };
    let open = rules("set --allow-http --block none").await;
    assert_eq!(
        (&open["allow_http"], &open["blocked_cidr_ranges"]),
        (&json!(true), &json!([]))
    );
    assert_eq!(rules("show").await, open);
    let closed = rules("set --url-pattern https://*.example.com/*").await;
    assert_eq!(
        closed["allowed_url_patterns"],
        json!(["https://*.example.com/*"])
    );
    assert!(
        closed["blocked_cidr_ranges"]
            .as_array()
            .is_some_and(|ranges| ranges.len() > 5)
    );
    let elsewhere = "webhook create https://example.org/ --type tenant.created";
    operator
        .run(elsewhere)
        .await
        .refused(1, "admin webhook rules show");
}

#[tokio::test]
async fn a_test_says_how_the_receiver_responded_and_deliveries_are_listed() {
    let (operator, _running) = operator().await;
    let (good, bad) = (
        Receiver::start(Reply::Status(204, "")).await,
        Receiver::start(Reply::Status(500, "")).await,
    );
    let create = async |receiver: &Receiver| {
        let words = format!(
            "--json webhook create {} --tenant umbra --type budget.funded",
            receiver.url("/")
        );
        text(
            &operator.run(&words).await.json()["subscription"],
            "subscription_id",
        )
    };
    let (good, bad) = (create(&good).await, create(&bad).await);
    let tested = operator
        .run(&format!("--json webhook test {good}"))
        .await
        .json();
    assert_eq!(
        (&tested["success"], &tested["response_status"]),
        (&json!(true), &json!(204))
    );
    let failed = operator.run(&format!("webhook test {bad}")).await;
    assert!(
        failed.code == 1 && failed.out.contains("500") && failed.err.contains("did not accept"),
        "{failed:?}"
    );
    fund(&operator.app, 2).await;
    reached(&operator.app, &good, "SUCCESS", 2).await;
    let table = operator
        .run(&format!(
            "webhook deliveries {good} --status SUCCESS --since 1h"
        ))
        .await
        .out;
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(
        table.contains("budget.funded") && table.contains(" 204 "),
        "{table}"
    );
    let none = operator
        .run(&format!("webhook deliveries {good} --status FAILED"))
        .await;
    assert!(
        none.out.is_empty() && none.err.contains("no deliveries"),
        "{none:?}"
    );
}

#[tokio::test]
async fn the_command_waits_for_the_last_first_attempt_of_a_replay() {
    let (operator, _running) = operator().await;
    let app = &operator.app;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    past(app, 12).await;
    let id = made(app, hook(&receiver, json!({}))).await;
    let words = format!("--json webhook replay {id} --type tenant.updated --since 7d");
    let done = operator.run(&words).await.json();
    let figures = ["events_queued", "succeeded", "retrying", "failed"].map(|name| &done[name]);
    assert_eq!(figures, [&json!(12), &json!(12), &json!(0), &json!(0)]);
    assert_eq!(receiver.arrived().len(), 12);
}

/// A shell word.
fn quoted(word: &str) -> String {
    format!("'{word}'")
}

#[tokio::test]
async fn a_terminal_shows_the_progress_of_a_replay_and_a_pipe_does_not() {
    let (operator, _running) = operator().await;
    let app = &operator.app;
    let receiver = Receiver::start(Reply::After(Duration::from_millis(150))).await;
    past(app, 12).await;
    let id = made(app, hook(&receiver, json!({}))).await;
    let words = format!("webhook replay {id} --type tenant.updated --since 7d");
    let own = operator.command(&words);
    let (program, arguments) = (own.as_std().get_program(), own.as_std().get_args());
    let parts = std::iter::once(program).chain(arguments);
    let line: Vec<_> = parts.map(|part| quoted(&part.to_string_lossy())).collect();
    // `script` runs a command on a terminal of its own.
    let mut command = tokio::process::Command::new("script");
    command.args([
        "--quiet",
        "--return",
        "--command",
        &line.join(" "),
        "/dev/null",
    ]);
    for (name, value) in own.as_std().get_envs() {
        command.env(name, value.expect("it is set"));
    }
    let seen = command.stdin(Stdio::null()).output().await;
    let seen = ran(seen.expect("script is there"));
    assert_eq!(seen.code, 0, "{seen:?}");
    assert!(
        seen.out.contains("12 of 12 attempted") && seen.out.contains("\r█"),
        "{seen:?}"
    );
    let piped = eventually("the replay before has ended", || async {
        let piped = operator.run(&words).await;
        (piped.code == 0).then_some(piped)
    });
    let piped = piped.await;
    assert!(!piped.err.contains('\r'), "{piped:?}");
}

//! What `apply` changes in a service, when it is repeated, interrupted or changed.

use std::fmt::Write as _;
use std::time::Instant;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::{apply, budget, command, exported, file, rows, run, unchanged};
use crate::harness::app::TestApp;

/// A tenant with this many budgets, each with an amount.
fn many(count: usize, allocated: i64) -> String {
    let mut file = "tenants:\n- tenant_id: many\n  name: Many\n  budgets:\n".to_owned();
    for at in 0..count {
        let scope = format!("tenant:many/agent:a{at}");
        writeln!(
            file,
            "  - {{scope: '{scope}', unit: TOKENS, allocated: {allocated}}}"
        )
        .expect("text");
    }
    file
}

/// Kills an apply once it has done some steps.
async fn interrupted(app: &TestApp, file: &str) {
    let mut child = command(app, "apply -f - --json")
        .spawn()
        .expect("the binary is built");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(file.as_bytes())
        .await
        .expect("it reads the file");
    drop(stdin);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for _ in 0..5 {
        lines.next_line().await.expect("a line").expect("a step");
    }
    child.kill().await.expect("it ends");
}

#[tokio::test]
async fn an_interrupted_apply_is_repeated_and_doubles_nothing() {
    let app = TestApp::spawn().await;
    let count = async |operation: &str| {
        let query = format!("tenant_id=many&operation={operation}");
        rows(&app, "audit/logs", &query).await.len()
    };
    for (allocated, operation) in [(10, "createBudget"), (25, "fundBudget")] {
        let file = many(60, allocated);
        interrupted(&app, &file).await;
        let done = count(operation).await;
        assert!((4..60).contains(&done), "{done} of 60 before it was killed");
        apply(&app, &file).await;
        assert_eq!(count(operation).await, 60);
        unchanged(&app, &file).await;
        let budgets = rows(&app, "budgets", "tenant_id=many").await;
        assert_eq!(budgets.len(), 60);
        assert!(
            budgets
                .iter()
                .all(|budget| budget["allocated"]["amount"] == allocated)
        );
    }
}

#[tokio::test]
async fn a_change_and_back_and_again_is_applied_each_time() {
    let app = TestApp::spawn().await;
    apply(&app, &file("allocated: 1")).await;
    for (member, value) in [
        ("allocated", 2),
        ("allocated", 3),
        ("allocated", 2),
        ("allocated", 3),
    ]
    .into_iter()
    .chain([
        ("overdraft_limit", 5),
        ("overdraft_limit", 6),
        ("overdraft_limit", 5),
        ("overdraft_limit", 6),
    ]) {
        let text = match member {
            "allocated" => file(&format!("allocated: {value}")),
            _ => file(&format!("allocated: 3, {member}: {value}")),
        };
        apply(&app, &text).await;
        assert_eq!(
            budget(&app, "tenant:acme-file").await[member]["amount"],
            value
        );
    }
}

#[tokio::test]
async fn spent_holds_increases_and_the_present_period_stay() {
    let app = TestApp::spawn().await;
    let with = |allocated: i64, more: &str| {
        let keys =
            "}], keys: [{name: agent, permissions: [reservations:create, reservations:commit]}]}]";
        file(&format!("allocated: {allocated}{more}")).replace("}]}]", keys)
    };
    let applied = apply(&app, &with(1_000, "")).await;
    let key = applied
        .out
        .trim_end()
        .rsplit(' ')
        .next()
        .expect("a secret")
        .to_owned();
    let reserve = async |name: &str, amount: i64| {
        let body = json!({
            "idempotency_key": name, "subject": {"tenant": "acme-file"}, "action": {"kind": "llm", "name": "chat"},
            "estimate": {"unit": "TOKENS", "amount": amount},
        });
        app.post_with(&key, "/v1/reservations", &body)
            .await
            .expect(200)
    };
    reserve("held", 100).await;
    let spent = reserve("spent", 200).await;
    let path = format!("/v1/reservations/{}/commit", spent.text("/reservation_id"));
    let actual = json!({"idempotency_key": "c", "actual": {"unit": "TOKENS", "amount": 150}});
    app.post_with(&key, &path, &actual).await.expect(200);
    let figures = async || {
        let budget = budget(&app, "tenant:acme-file").await;
        let figures = ["allocated", "reserved", "spent", "remaining"]
            .map(|name| budget[name]["amount"].as_i64());
        figures.map(|figure| figure.expect("a figure"))
    };

    apply(&app, &with(2_000, "")).await;
    assert_eq!(figures().await, [2_000, 100, 150, 1_750]);
    let increase =
        json!({"amount": {"unit": "TOKENS", "amount": 500}, "for": "P1D", "reason": "weekend"});
    let path = "/v1/admin/budgets/increases?scope=tenant:acme-file&unit=TOKENS";
    app.post_as_admin(path, increase).await.expect(201);
    unchanged(&app, &with(2_000, "")).await;
    for (allocated, remaining) in [(3_000, 3_250), (1_000, 1_250)] {
        apply(&app, &with(allocated, "")).await;
        assert_eq!(figures().await, [allocated + 500, 100, 150, remaining]);
        let budget = budget(&app, "tenant:acme-file").await;
        assert_eq!(budget["increases"][0]["amount"]["amount"], 500);
        unchanged(&app, &with(allocated, "")).await;
    }

    let monthly = with(1_000, ", period: {every: P1M, time_zone: europe/berlin}");
    apply(&app, &monthly).await;
    unchanged(&app, &monthly).await;
    let raised = monthly.replace("allocated: 1000", "allocated: 5k tokens");
    let diff = run(&app, "diff -f -", &raised).await;
    assert!(
        diff.out.ends_with(": period.allocated 1000 → 5000\n"),
        "{diff:?}"
    );
    apply(&app, &raised).await;
    unchanged(&app, &raised).await;
    assert_eq!(figures().await, [1_500, 100, 150, 1_250]);
    let export = exported(&app, "acme-file").await;
    assert!(export.contains("allocated: 5000\n"), "{export}");
    unchanged(&app, &export).await;
}

#[tokio::test]
async fn a_thousand_budgets_are_compared_within_three_seconds_timed() {
    let app = TestApp::spawn().await;
    let more = "period: {every: P1M}, limits: [{every: P1D, amount: 5}]}";
    let file = many(1_000, 10).replace('}', &format!(", {more}"));
    let begun = Instant::now();
    apply(&app, &file).await;
    let created = begun.elapsed();
    let begun = Instant::now();
    unchanged(&app, &file).await;
    let compared = begun.elapsed();
    assert!(
        compared.as_secs_f64() < 3.0,
        "{compared:?}, created in {created:?}"
    );
}

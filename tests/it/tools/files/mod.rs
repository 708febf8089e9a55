//! `budget-authority apply`, `diff` and `export`.

mod changes;
mod refusals;

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::harness::admin_cli::{CommandOutput, ran};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::deliveries::here;

const EXAMPLE: &str = include_str!("../../../../examples/budgets.yaml");

fn command(app: &TestApp, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
    command
        .args(words.split_whitespace())
        .env("BUDGET_URL", format!("http://{}", app.address))
        .env("BUDGET_ADMIN_KEY", ADMIN_KEY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a command with a file as its standard input.
async fn run(app: &TestApp, words: &str, file: &str) -> CommandOutput {
    let mut child = command(app, words).spawn().expect("the binary is built");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A command that refuses its arguments reads nothing.
    let _ = stdin.write_all(file.as_bytes()).await;
    drop(stdin);
    ran(child.wait_with_output().await.expect("an end"))
}

async fn apply(app: &TestApp, file: &str) -> CommandOutput {
    let applied = run(app, "apply -f -", file).await;
    applied.done();
    applied
}

/// That a file asks for no change.
async fn unchanged(app: &TestApp, file: &str) {
    let diff = run(app, "diff -f -", file).await;
    assert_eq!((diff.code, diff.out.as_str()), (0, ""), "{diff:?}");
}

async fn exported(app: &TestApp, tenant: &str) -> String {
    let export = run(app, &format!("export --tenant {tenant}"), "").await;
    export.done();
    export.out
}

/// The rows of a list of the service.
async fn rows(app: &TestApp, list: &str, query: &str) -> Vec<Value> {
    let path = format!("/v1/admin/{list}?limit=100&{query}");
    let page = app.get_as_admin(&path).await.expect(200);
    let members = page.body.as_object().expect("an object").values();
    let mut lists = members.filter_map(Value::as_array);
    lists.next().expect("rows").clone()
}

/// The budget of a scope, of several units that in money.
async fn budget(app: &TestApp, scope: &str) -> Value {
    let tenant = scope.split([':', '/']).nth(1).expect("a tenant");
    let query = format!("tenant_id={tenant}&scope_prefix={scope}");
    let mut rows = rows(app, "budgets", &query).await;
    rows.retain(|row| row["scope"] == scope);
    rows.sort_by_key(|row| row["unit"] != "USD_MICROCENTS");
    rows.swap_remove(0)
}

/// The file of a tenant with a budget.
fn file(budget: &str) -> String {
    format!(
        "tenants: [{{tenant_id: acme-file, name: Acme, budgets: [{{scope: tenant:acme-file, unit: TOKENS, {budget}}}]}}]"
    )
}

#[tokio::test]
async fn the_example_is_applied_used_changed_and_exported() {
    let app = here().await;
    let app = &app;
    let plan = run(app, "apply -f - --dry-run", EXAMPLE).await;
    plan.done();
    let line = "+ create budget acme-research/app:chat USD_MICROCENTS\n";
    assert!(plan.out.contains(line), "{plan:?}");
    let differs = run(app, "diff -f -", EXAMPLE).await;
    assert_eq!(
        (differs.code, &differs.out),
        (1, &plan.out),
        "and nothing was changed"
    );

    let applied = apply(app, EXAMPLE).await;
    let secret = |name: &str| {
        let mut lines = applied.out.lines().filter(|line| line.starts_with(name));
        let line = lines.next().expect(name);
        assert_eq!(lines.next(), None);
        line.rsplit(' ').next().expect("a secret").to_owned()
    };
    let key = secret("key_secret of key acme-research chat gateway, printed only now: ");
    let signing =
        secret("signing_secret of webhook acme-research budget alerts, printed only now: ");
    unchanged(app, EXAMPLE).await;
    let team = budget(app, "tenant:acme-research").await;
    assert_eq!(team["allocated"]["amount"], 100_000_000_000_i64);
    assert_eq!(team["limits"][0]["amount"]["amount"], 10_000_000_000_i64);

    // An agent gets its budget from the template: no file and no plan ends it.
    let hold = json!({
        "idempotency_key": "hold", "action": {"kind": "llm", "name": "chat"}, "estimate": {"unit": "USD_MICROCENTS", "amount": 5},
        "subject": {"tenant": "acme-research", "app": "chat", "agent": "a"},
    });
    app.post_with(&key, "/v1/reservations", &hold)
        .await
        .expect(200);
    assert_eq!(
        budget(app, "tenant:acme-research/app:chat/agent:a").await["reserved"]["amount"],
        5
    );
    unchanged(app, EXAMPLE).await;
    let pruned = run(app, "diff -f - --prune", EXAMPLE).await;
    assert_eq!((pruned.code, pruned.out.as_str()), (0, ""), "{pruned:?}");

    let changed = EXAMPLE
        .replace("allocated: 600usd", "allocated: 700usd")
        .replace("    enforcement: OBSERVE\n", "")
        .replace("[0.5, 0.8, 1]", "[0.9]");
    let diff = run(app, "diff -f -", &changed).await;
    assert_eq!(diff.code, 1, "{diff:?}");
    for line in [
        "~ update budget acme-research/app:chat USD_MICROCENTS: period.allocated 60000000000 → 70000000000\n",
        "~ update budget acme-research/app:search USD_MICROCENTS: enforcement OBSERVE → ENFORCE\n",
        "~ update webhook acme-research budget alerts: thresholds.budget_utilization [0.5,0.8,1.0] → [0.9]\n",
    ] {
        assert!(diff.out.contains(line), "{line}{}", diff.out);
    }
    apply(app, &changed).await;
    unchanged(app, &changed).await;
    assert_eq!(
        budget(app, "tenant:acme-research/app:chat").await["reserved"]["amount"],
        5
    );

    let export = exported(app, "acme-research").await;
    for absent in [
        key.as_str(),
        &signing,
        "agent:a",
        "spent",
        "reserved",
        "ENFORCE",
    ] {
        assert!(!export.contains(absent), "{absent}: {export}");
    }
    unchanged(app, &export).await;
    apply(app, &export).await;
    assert_eq!(exported(app, "acme-research").await, export);
    let json = run(app, "export --tenant acme-research --json", "")
        .await
        .json();
    unchanged(app, &json.to_string()).await;
    assert_eq!(
        rows(app, "api-keys", "tenant_id=acme-research").await.len(),
        1
    );
}

#[tokio::test]
async fn prune_takes_out_of_use_what_a_list_leaves_out_and_status_brings_it_back() {
    let app = here().await;
    let app = &app;
    apply(app, EXAMPLE).await;
    let (kept, _) = EXAMPLE.split_once("\n    policies:").expect("policies");
    let (kept, _) = kept.split_once("      # Tokens count").expect("tokens");
    // An absent list is left alone, an empty one is not.
    let left_alone = run(app, "diff -f - --prune", kept).await;
    assert_eq!(
        (left_alone.code, left_alone.out.lines().count()),
        (1, 1),
        "{left_alone:?}"
    );
    let emptied = format!("{kept}    policies: []\n    webhooks: []\n    keys: []\n");
    let counted = run(app, "apply -f -", &emptied).await;
    assert!(
        counted.out.is_empty()
            && counted
                .err
                .contains("acme-research: 4 not in the file are left alone"),
        "{counted:?}"
    );
    let pruned = run(app, "apply -f - --prune", &emptied).await;
    pruned.done();
    let lines: Vec<_> = pruned.out.lines().collect();
    assert_eq!(
        lines,
        [
            "- freeze budget acme-research/app:chat TOKENS",
            "- disable policy acme-research chat agents",
            "- pause webhook acme-research budget alerts",
            "- revoke key acme-research chat gateway",
        ]
    );
    unchanged(app, &emptied).await;
    let again = run(app, "diff -f - --prune", &emptied).await;
    assert_eq!(again.code, 0, "{again:?}");
    let status =
        async |list: &str| rows(app, list, "tenant_id=acme-research").await[0]["status"].clone();
    for (list, expected) in [
        ("policies", "DISABLED"),
        ("webhooks", "PAUSED"),
        ("api-keys", "REVOKED"),
    ] {
        assert_eq!(status(list).await, expected, "{list}");
    }
    let export = exported(app, "acme-research").await;
    unchanged(app, &export).await;
    assert!(
        export.contains("status: FROZEN") && !export.contains("keys:"),
        "{export}"
    );

    // Listed again without a status, it stays as it is; the revoked key is gone, and another is made.
    let back = apply(app, EXAMPLE).await;
    assert!(
        back.out
            .starts_with("+ create key acme-research chat gateway\nkey_secret of "),
        "{back:?}"
    );
    assert!(
        back.err
            .contains("budget acme-research/app:chat TOKENS stays FROZEN"),
        "{back:?}"
    );
    let funded = EXAMPLE.replace(
        "allocated: 200M\n        period: {every: P1W}",
        "allocated: 100M",
    );
    let refused = run(app, "apply -f -", &funded).await;
    refused.refused(
        2,
        "tenants[0].budgets[3].allocated: cannot change while it is frozen",
    );
    let active = funded.replace("allocated: 100M", "allocated: 100M\n        status: ACTIVE");
    let active = active.replace(
        "name: chat agents",
        "name: chat agents\n        status: ACTIVE",
    );
    apply(app, &active).await;
    assert_eq!(status("policies").await, "ACTIVE");
    unchanged(app, &active).await;
    let frozen = active.replace(
        "allocated: 100M\n        status: ACTIVE",
        "allocated: 50M\n        status: FROZEN",
    );
    apply(app, &frozen).await;
    unchanged(app, &frozen).await;
    let more = frozen.replace("allocated: 50M", "allocated: 60M");
    let refused = run(app, "apply -f -", &more).await;
    refused.refused(
        2,
        "tenants[0].budgets[3].allocated: cannot change while it is frozen",
    );
}

#[tokio::test]
async fn figures_are_exact_and_json_is_taken_and_printed() {
    let app = TestApp::spawn().await;
    let most = i64::MAX;
    let text = file(&format!("allocated: {most}, overdraft_limit: {}", most - 1));
    let created = run(&app, "apply --json -f -", &text).await.rows();
    let expected = json!({"action": "create", "kind": "budget", "tenant_id": "acme-file", "name": "tenant:acme-file TOKENS", "changes": []});
    assert_eq!(created[1], expected);
    let found = budget(&app, "tenant:acme-file").await;
    assert_eq!(
        (
            &found["allocated"]["amount"],
            &found["overdraft_limit"]["amount"]
        ),
        (&json!(most), &json!(most - 1))
    );
    let export = exported(&app, "acme-file").await;
    assert!(export.contains(&format!("allocated: {most}\n")), "{export}");
    unchanged(&app, &export).await;

    let json = run(&app, "export --tenant acme-file --json", "")
        .await
        .json();
    let mut changed = json.clone();
    changed["tenants"][0]["budgets"][0]["allocated"] =
        json!({"unit": "TOKENS", "amount": most - 2});
    changed["tenants"][0]["keys"] = json!([{"name": "ci", "permissions": ["balances:read"]}]);
    let diff = run(&app, "diff --json -f -", &changed.to_string()).await;
    let row: Value = serde_json::from_str(diff.out.lines().next().expect("a step")).expect("JSON");
    let amount = |amount: i64| json!({"unit": "TOKENS", "amount": amount});
    assert_eq!(
        row["changes"],
        json!([{"member": "allocated", "from": amount(most), "to": amount(most - 2)}])
    );
    let applied = run(&app, "apply --json -f -", &changed.to_string())
        .await
        .rows();
    assert!(applied[1]["key_secret"].is_string(), "{applied:?}");
    assert_eq!(
        budget(&app, "tenant:acme-file").await["allocated"]["amount"],
        most - 2
    );
}

/// Run with `UPDATE_SNAPSHOTS=1` to write it anew.
#[test]
fn the_schema_of_files_follows_from_the_declarations() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/budgets.schema.json");
    let text = format!("{:#}\n", budget_authority::tools::files::schema());
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, &text).expect("the schema can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines().zip(written.lines());
    assert_eq!(
        lines.find(|(now, then)| now != then),
        None,
        "`make docs` writes it"
    );
    assert_eq!(text.len(), written.len());
    // A validator refuses a schema with a description that is no text.
    assert!(!written.contains("\"description\": null"), "{path}");
}

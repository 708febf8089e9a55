//! `budget-authority admin`, as an operator runs it.

use std::process::Output;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::app::{ADMIN_KEY, TestApp};

/// What one command came to.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    /// The one JSON object that was printed.
    fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// The objects that were printed, one a line.
    fn rows(&self) -> Vec<Value> {
        assert_eq!(self.code, 0, "{self:?}");
        let row = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{self:?}"));
        self.out.lines().map(row).collect()
    }

    fn refused(&self, code: i32, says: &str) {
        assert!(
            self.code == code && self.err.contains(says) && self.out.is_empty(),
            "{self:?}"
        );
    }
}

struct Operator {
    app: TestApp,
}

impl Operator {
    async fn new(settings: &[&str]) -> Self {
        let url = crate::harness::redis::shared().url();
        Self {
            app: TestApp::spawn_on(&url, settings).await,
        }
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
        command
            .arg("admin")
            .args(words.split_whitespace())
            .env("BUDGET_URL", format!("http://{}/v1", self.app.address))
            .env("BUDGET_ADMIN_KEY", ADMIN_KEY)
            .env("BUDGET_UNIT", "TOKENS");
        command
    }

    async fn run(&self, words: &str) -> Ran {
        ran(self
            .command(words)
            .output()
            .await
            .expect("the binary is built"))
    }
}

fn ran(output: Output) -> Ran {
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ran {
        code: output.status.code().expect("an exit code"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

#[tokio::test]
async fn a_tenant_gets_budgets_keys_and_policies_and_is_closed() {
    let operator = Operator::new(&[]).await;
    let made = operator
        .run("--json tenant create umbrella --name Umbrella --max-ttl-ms 60000")
        .await
        .json();
    assert_eq!(
        (&made["name"], &made["max_reservation_ttl_ms"]),
        (&json!("Umbrella"), &json!(60_000))
    );
    let text = operator.run("tenant show umbrella").await.out;
    assert!(
        text.contains("tenant_id                      umbrella\n"),
        "{text}"
    );

    let budget = operator
        .run("--json budget create tenant:umbrella --allocated 1000")
        .await
        .json();
    assert_eq!(
        budget["remaining"],
        json!({"unit": "TOKENS", "amount": 1000})
    );
    let funded = operator.run("--json budget fund tenant:umbrella --credit 500 --reason top-up --idempotency-key once").await.json();
    assert_eq!(funded["new_allocated"]["amount"], 1500);
    let again = operator.run("--json budget fund tenant:umbrella --credit 500 --reason top-up --idempotency-key once").await.json();
    assert_eq!(again, funded);
    assert_eq!(
        operator
            .run("--json budget freeze tenant:umbrella")
            .await
            .json()["status"],
        "FROZEN"
    );
    operator
        .run("budget fund tenant:umbrella --debit 1")
        .await
        .refused(1, "BUDGET_FROZEN");
    assert_eq!(
        operator
            .run("--json budget unfreeze tenant:umbrella --reason over")
            .await
            .json()["status"],
        "ACTIVE"
    );
    operator
        .run("budget fund tenant:umbrella --debit 1501")
        .await
        .refused(1, "BUDGET_EXCEEDED");
    let spent = operator
        .run("--json budget fund tenant:umbrella --reset-spent 100 --spent 40")
        .await
        .json();
    assert_eq!(spent["new_remaining"]["amount"], 60);

    let policy = operator.run(r#"--json policy create umbrella --name all --scope-pattern tenant:umbrella/* --max-extensions 0 --caps {"max_tokens":9}"#).await.json();
    assert_eq!(
        (&policy["caps"], &policy["reservation_ttl_override"]),
        (&json!({"max_tokens": 9}), &json!({"max_extensions": 0}))
    );
    let id = policy["policy_id"].as_str().expect("an id");
    assert_eq!(
        operator
            .run(&format!("--json policy disable {id}"))
            .await
            .json()["status"],
        "DISABLED"
    );
    let listed = operator
        .run("--json policy list umbrella --status DISABLED")
        .await
        .rows();
    assert_eq!(listed[0]["policy_id"], id);

    operator
        .run("tenant close umbrella")
        .await
        .refused(2, "--yes");
    assert_eq!(
        operator
            .run("--json tenant close umbrella --yes")
            .await
            .json()["status"],
        "CLOSED"
    );
    operator
        .run("budget fund tenant:umbrella --credit 1")
        .await
        .refused(1, "TENANT_CLOSED");
}

#[tokio::test]
async fn a_key_is_made_for_an_agent_used_listed_and_revoked() {
    let operator = Operator::new(&[]).await;
    let tenant = "acme";
    operator
        .app
        .budget(&format!("tenant:{tenant}"), 1000, 0)
        .await;
    let made = operator
        .run(&format!(
            "--json key create {tenant} --name agent --expires 7d"
        ))
        .await
        .json();
    let permissions = made["permissions"].as_array().expect("permissions");
    assert!(
        permissions.contains(&json!("reservations:create"))
            && !permissions.contains(&json!("budgets:write"))
    );
    let secret = made["key_secret"].as_str().expect("a secret");
    let balances = operator
        .app
        .get_with(secret, &format!("/v1/balances?tenant={tenant}"))
        .await;
    assert_eq!(balances.status, 200);

    let id = made["key_id"].as_str().expect("an id");
    let rows = operator
        .run(&format!("--json key list --tenant {tenant} --search agent"))
        .await
        .rows();
    assert_eq!(
        rows.iter().map(|row| &row["key_id"]).collect::<Vec<_>>(),
        [id]
    );
    assert!(!operator.run("key list").await.out.contains(secret));
    let revoked = operator
        .run(&format!("--json key revoke {id} --reason lost"))
        .await
        .json();
    assert_eq!(
        (&revoked["status"], &revoked["revoked_reason"]),
        (&json!("REVOKED"), &json!("lost"))
    );
    operator
        .run(&format!("key revoke {id}"))
        .await
        .refused(1, "KEY_REVOKED");
}

#[tokio::test]
async fn the_tree_shows_what_is_used_and_a_list_goes_on_beyond_a_page() {
    let operator = Operator::new(&[]).await;
    let tenant = "acme";
    let root = format!("tenant:{tenant}");
    operator.app.budget(&root, 1000, 0).await;
    operator
        .app
        .budget(&format!("{root}/app:chat/agent:a"), 10, 0)
        .await;
    assert_eq!(operator.app.reserve("hold", 250).await.status, 200);
    let tree = operator.run(&format!("budget tree {tenant}")).await.out;
    let lines: Vec<_> = tree.lines().collect();
    assert!(
        lines[0].starts_with(&root)
            && lines[0].ends_with("▒▒▒▒▒░░░░░░░░░░░░░░░   25 %  250 of 1000 TOKENS, held 250"),
        "{tree}"
    );
    assert_eq!(lines[1], "└─ app:chat");
    assert!(
        lines[2].starts_with("   └─ agent:a") && lines[2].contains("0 %  0 of 10 TOKENS"),
        "{tree}"
    );

    for number in 0..120 {
        operator
            .app
            .budget(&format!("{root}/agent:{number:03}"), 1, 0)
            .await;
    }
    assert_eq!(
        operator
            .run(&format!("--json budget list --tenant {tenant}"))
            .await
            .rows()
            .len(),
        122
    );
    assert_eq!(
        operator
            .run(&format!("--json budget list --tenant {tenant} --limit 101"))
            .await
            .rows()
            .len(),
        101
    );
    assert_eq!(
        operator.run("--json budget tree nobody").await.rows(),
        [] as [Value; 0]
    );
}

#[tokio::test]
async fn a_hold_is_found_and_given_back() {
    let operator = Operator::new(&[]).await;
    let tenant = "acme";
    operator
        .app
        .budget(&format!("tenant:{tenant}"), 1000, 0)
        .await;
    operator.app.reserve("hold", 250).await;
    let rows = operator
        .run(&format!("--json reservation list {tenant} --status ACTIVE"))
        .await
        .rows();
    let id = rows[0]["reservation_id"].as_str().expect("an id");
    assert_eq!(
        operator
            .run(&format!("--json reservation show {id}"))
            .await
            .json()["status"],
        "ACTIVE"
    );
    let released = operator
        .run(&format!("--json reservation release {id} --reason stuck"))
        .await
        .json();
    assert_eq!(released["status"], "RELEASED");
    operator
        .run(&format!("reservation release {id}"))
        .await
        .refused(1, "RESERVATION_FINALIZED");
    let table = operator
        .run(&format!("reservation list {tenant}"))
        .await
        .out;
    assert!(
        table.starts_with("RESERVATION ") && table.contains(" RELEASED "),
        "{table}"
    );
}

#[tokio::test]
async fn events_are_tailed_and_audit_entries_found() {
    let operator = Operator::new(&[]).await;
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
async fn a_tail_follows_until_nobody_reads_it() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let operator = Operator::new(&[]).await;
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
async fn the_overview_is_a_page() {
    let operator = Operator::new(&[]).await;
    operator.run("tenant create umbrella").await.done();
    let text = operator.run("overview").await.out;
    assert!(
        text.starts_with("as of 20") && text.contains("\ntenants   "),
        "{text}"
    );
    assert!(operator.run("--json overview").await.json()["tenant_counts"].is_object());
}

#[tokio::test]
async fn errors_say_what_to_do_and_exit_codes_what_happened() {
    let operator = Operator::new(&[]).await;
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
        .refused(2, "BUDGET_ADMIN_KEY is required");
    with("BUDGET_URL", "http://127.0.0.1:9")
        .await
        .refused(3, "BUDGET_URL says where it is");
    let wrong = ran(operator
        .command("tenant list")
        .env("BUDGET_ADMIN_KEY", "wrong-secret")
        .output()
        .await
        .expect("it runs"));
    assert!(!wrong.err.contains("wrong-secret"), "{wrong:?}");
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

impl Ran {
    fn done(&self) {
        assert_eq!(self.code, 0, "{self:?}");
    }
}

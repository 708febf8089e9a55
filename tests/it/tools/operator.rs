//! `budget-authority admin`: the commands that change data.

use serde_json::json;

use crate::harness::admin_cli::AdminCli;

#[tokio::test]
async fn a_tenant_is_set_up_and_closed() {
    let operator = AdminCli::new(&[]).await;
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
        text.starts_with(
            "name                           Umbrella\ntenant_id                      umbrella\n"
        ),
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
    operator
        .run("budget fund tenant:umbrella --credit 1 --spent 1")
        .await
        .refused(2, "--spent requires --reset-spent");
    let spent = operator
        .run("--json budget fund tenant:umbrella --reset-spent 100 --spent 40")
        .await
        .json();
    assert_eq!(spent["new_remaining"]["amount"], 60);

    let policy = operator.run(r#"--json policy create --tenant umbrella --name all --scope-pattern tenant:umbrella/* --max-extensions 0 --caps {"max_tokens":9}"#).await.json();
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
        .run("--json policy list --tenant umbrella --status DISABLED")
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
    let operator = AdminCli::new(&[]).await;
    let tenant = "acme";
    operator
        .app
        .budget(&format!("tenant:{tenant}"), 1000, 0)
        .await;
    let made = operator
        .run(&format!(
            "--json key create --tenant {tenant} --name agent --expires 7d --scope tenant:acme"
        ))
        .await
        .json();
    let permissions = made["permissions"].as_array().expect("permissions");
    assert!(
        permissions.contains(&json!("reservations:create"))
            && !permissions.contains(&json!("budgets:write"))
    );
    let secret = made["key_secret"].as_str().expect("a secret");
    operator
        .app
        .get_with(secret, &format!("/v1/balances?tenant={tenant}"))
        .await
        .expect(200);

    let id = made["key_id"].as_str().expect("an id");
    let rows = operator
        .run(&format!("--json key list --tenant {tenant} --search agent"))
        .await
        .rows();
    assert_eq!(
        rows.iter().map(|row| &row["key_id"]).collect::<Vec<_>>(),
        [id]
    );
    let fence = (&rows[0]["scope_filter"], &rows[0]["created_by"]);
    assert_eq!(fence, (&json!(["tenant:acme"]), &json!("admin")));
    assert_eq!(made["scope_filter"], json!(["tenant:acme"]));
    let table = operator.run("key list").await.out;
    assert!(!table.contains(secret));
    assert!(
        table.contains("tenant:acme") && table.contains("MADE BY"),
        "{table}"
    );
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
async fn the_tree_shows_usage_and_a_list_continues_beyond_a_page() {
    let operator = AdminCli::new(&[]).await;
    let tenant = "acme";
    let root = format!("tenant:{tenant}");
    operator.budget(&root, 1000).await;
    operator
        .budget(&format!("{root}/app:chat/agent:a"), 10)
        .await;
    operator.app.reserve("hold", 250).await.expect(200);
    let tree = operator
        .run(&format!("budget tree --tenant {tenant}"))
        .await
        .out;
    let lines: Vec<_> = tree.lines().collect();
    assert!(
        lines[0].starts_with(&root)
            && lines[0]
                .ends_with("▒▒▒▒▒░░░░░░░░░░░░░░░  25 %  250 of 1000 TOKENS used, 250 of it held"),
        "{tree}"
    );
    assert_eq!(lines[1], "└─ app:chat");
    assert!(
        lines[2].starts_with("   └─ agent:a") && lines[2].contains("  0 %  0 of 10 TOKENS"),
        "{tree}"
    );

    for number in 0..120 {
        operator
            .budget(&format!("{root}/agent:{number:03}"), 1)
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
}

#[tokio::test]
async fn a_hold_is_found_and_released() {
    let operator = AdminCli::new(&[]).await;
    let tenant = "acme";
    operator
        .app
        .budget(&format!("tenant:{tenant}"), 1000, 0)
        .await;
    operator.app.reserve("hold", 250).await;
    let rows = operator
        .run(&format!(
            "--json reservation list --tenant {tenant} --status ACTIVE"
        ))
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
        .run(&format!("reservation list --tenant {tenant}"))
        .await
        .out;
    assert!(
        table.starts_with("RESERVATION ") && table.contains(" RELEASED "),
        "{table}"
    );
}

//! `budget-authority admin call`: every operation of the index.

use budget_authority::api::operations::OperationId;
use budget_authority::domain::dialect::Dialect;
use serde_json::{Value, json};

use crate::harness::admin_cli::{AdminCli, ran};

#[tokio::test]
async fn every_operation_can_be_called_and_responds() {
    let operator = AdminCli::new(&[]).await;
    operator.budget("tenant:acme", 1000).await;
    let create = "--json key create --tenant acme --name caller";
    let made = operator.run(create).await.json();
    let key = made["key_secret"].as_str().expect("a secret");
    for id in OperationId::ALL {
        let operation = id.operation();
        let mut command = operator.command(&format!("--json call {id}"));
        command.env("BUDGET_API_KEY", key);
        if operation.path.ends_with("{key_set_file}") {
            command.arg(Dialect::default().words().key_set_file);
        } else if operation.path.contains('{') {
            command.arg("some-id");
        }
        let query = (operation.declaration.query)();
        if query
            .iter()
            .any(|parameter| parameter["name"] == "scope" && parameter["required"] == true)
        {
            command.args(["--scope", "tenant:acme"]);
        }
        if operation.declaration.request.is_some() {
            command.args(["--body", "{}"]);
        }
        let response = ran(command.output().await.expect("it runs"));
        match response.code {
            0 => drop(response.json()),
            1 => assert!(response.err.contains("\nrequest "), "{id}: {response:?}"),
            _ => panic!("{id}: {response:?}"),
        }
        let metrics = operator.app.telemetry.render().expect("metrics");
        let counted = format!(r#"operation="{} {}""#, operation.method, operation.path);
        let mut lines = metrics.lines().filter(|line| {
            line.starts_with("budget_http_requests_total{") && line.contains(&counted)
        });
        assert!(
            lines.any(|line| !line.ends_with(" 0")),
            "{id} was not reached"
        );
    }
}

#[tokio::test]
async fn an_operation_for_tenants_asks_for_an_api_key() {
    let operator = AdminCli::new(&[]).await;
    operator.budget("tenant:acme", 1000).await;
    let balances = "call getBalances --tenant acme";
    let mut without = operator.command(balances);
    let without = without.env_remove("BUDGET_API_KEY").output().await;
    ran(without.expect("it runs")).refused(2, "this operation is for tenants: set BUDGET_API_KEY");

    let create = "--json key create --tenant acme --name caller";
    let made = operator.run(create).await.json();
    let [id, key] = ["key_id", "key_secret"].map(|member| made[member].as_str().expect("a text"));
    operator.run(&format!("key revoke {id}")).await.done();
    let refused = operator.run(&format!("{balances} --api-key {key}")).await;
    refused.refused(1, "comes from --api-key or BUDGET_API_KEY");
    assert!(
        !refused.err.contains("the admin key must be"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn members_are_flags_and_a_whole_body_is_accepted() {
    let operator = AdminCli::new(&[]).await;
    operator.budget("tenant:acme", 1000).await;
    let create = "--json key create --tenant acme --name caller";
    let made = operator.run(create).await.json();
    let key = made["key_secret"].as_str().expect("a secret");
    let as_tenant = async |words: &str| {
        let mut command = operator.command(words);
        let output = command.env("BUDGET_API_KEY", key).output().await;
        ran(output.expect("it runs"))
    };
    let reserve =
        "call createReservation --tenant acme --kind llm.completion --name model --estimate 5";
    let held = as_tenant(reserve).await;
    assert!(held.out.starts_with("{\n"), "{held:?}");
    let held = held.json();
    assert_eq!(held["reserved"], json!({"unit": "TOKENS", "amount": 5}));
    let id = held["reservation_id"].as_str().expect("an id");
    let commit = format!("--json call commitReservation {id} --actual 3 --idempotency-key once");
    let committed = as_tenant(&commit).await.json();
    assert_eq!(committed["charged"]["amount"], 3);
    assert_eq!(as_tenant(&commit).await.json(), committed);

    // Of two keys the one on the command line counts, even where an admin key would be accepted.
    let list = "call listReservations --tenant acme";
    assert_eq!(as_tenant(list).await.code, 0);
    let wrong = "sk_live_000AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let refused = operator.run(&format!("{list} --api-key {wrong}")).await;
    refused.refused(1, "no such API key");

    let body = r#"{"tenant_id":"acme","scope":"tenant:acme/app:whole","unit":"CREDITS","allocated":{"unit":"CREDITS","amount":7}}"#;
    let made = operator
        .run(&format!("--json call createBudget --body {body}"))
        .await;
    assert_eq!(made.json()["unit"], "CREDITS");

    let body = r#"{"tenant_id":"umbrella","name":"one","metadata":{"a":"b"}}"#;
    let made = operator
        .run(&format!("call createTenant --body {body} --name two"))
        .await;
    let made = made.json();
    let members = ["name", "metadata"].map(|member| &made[member]);
    assert_eq!(members, [&json!("two"), &json!({"a": "b"})]);

    let body = r#"{"tenant_id":"penumbra","name":"one"}"#;
    let file = std::env::temp_dir().join(format!("body-{:016x}", rand::random::<u64>()));
    std::fs::write(&file, body).expect("a file");
    let from_file = format!("call createTenant --body @{}", file.display());
    assert_eq!(operator.run(&from_file).await.json()["name"], "one");
    let piped = operator
        .command("call createTenant --body -")
        .stdin(std::fs::File::open(&file).expect("the file"))
        .output();
    let piped = ran(piped.await.expect("it runs")).json();
    assert_eq!(piped["tenant_id"], "penumbra");
    std::fs::remove_file(&file).expect("the file");
    operator.run(&from_file).await.refused(2, "--body");
    let cleared = operator
        .run(r#"call updateBudget --scope tenant:acme --body {"commit_overage_policy":null}"#);
    assert_eq!(cleared.await.json()["commit_overage_policy"], Value::Null);
    operator
        .run("call createTenant --tenant umbra")
        .await
        .refused(2, "--name");
    operator
        .run("call createTenant --body []")
        .await
        .refused(2, "--body");
    operator
        .run("call destroyTenant")
        .await
        .refused(2, "unrecognized subcommand");
    let help = operator.run("call listTenants --help").await.out;
    assert!(
        help.contains("--parent <PARENT>") && help.contains("--cursor"),
        "{help}"
    );
}

//! `budget-authority admin`: updates, and actions on many rows at once.

use serde_json::{Value, json};

use crate::harness::admin_cli::{AdminCli, ran};

#[tokio::test]
async fn a_budget_is_updated_and_its_policy_cleared() {
    let operator = AdminCli::new(&[]).await;
    operator.budget("tenant:acme", 1000).await;
    let update = "--json budget update tenant:acme";
    let changed = format!("{update} --overdraft-limit 50 --overage-policy ALLOW_WITH_OVERDRAFT");
    let changed = operator.run(&changed).await.json();
    assert_eq!(changed["overdraft_limit"]["amount"], 50);
    assert_eq!(changed["commit_overage_policy"], "ALLOW_WITH_OVERDRAFT");
    let cleared = operator
        .run(&format!("{update} --overage-policy none"))
        .await;
    let cleared = cleared.json();
    assert_eq!(cleared["commit_overage_policy"], Value::Null);
    assert_eq!(cleared["overdraft_limit"]["amount"], 50, "left alone");
    operator.run(update).await.refused(2, "nothing to change");
}

#[tokio::test]
async fn a_policy_is_updated_and_its_settings_cleared() {
    let operator = AdminCli::new(&[]).await;
    let create = "--json policy create --tenant acme --name all --scope-pattern tenant:acme/*";
    let create =
        format!("{create} --max-ttl-ms 60000 --caps {{\"max_tokens\":9}} --description first");
    let made = operator.run(&create).await.json();
    let id = made["policy_id"].as_str().expect("an id");
    let update = format!("--json policy update {id}");
    let changed = operator
        .run(&format!(
            "{update} --name some --priority 7 --max-reservations-per-minute 5"
        ))
        .await
        .json();
    assert_eq!(
        (&changed["name"], &changed["priority"]),
        (&json!("some"), &json!(7))
    );
    assert_eq!(
        changed["rate_limits"],
        json!({"max_reservations_per_minute": 5})
    );
    assert_eq!(changed["caps"], json!({"max_tokens": 9}), "left alone");
    let cleared = operator
        .run(&format!(
            "{update} --clear caps,rate_limits --clear description"
        ))
        .await
        .json();
    let gone = ["caps", "rate_limits", "description"].map(|name| &cleared[name]);
    assert_eq!(gone, [&Value::Null; 3]);
    operator.run(&update).await.refused(2, "nothing to change");
    operator
        .run(&format!("{update} --clear status"))
        .await
        .refused(2, "possible values");
}

#[tokio::test]
async fn a_key_is_updated_and_its_scopes_cleared() {
    let operator = AdminCli::new(&[]).await;
    let create = "--json key create --tenant acme --name agent --scope tenant:acme/app:chat";
    let made = operator.run(create).await.json();
    let id = made["key_id"].as_str().expect("an id");
    let update = format!("--json key update {id}");
    let changed = operator
        .run(&format!(
            "{update} --name other --permission balances:read --scope tenant:acme/app:mail"
        ))
        .await
        .json();
    assert_eq!(
        (&changed["name"], &changed["permissions"]),
        (&json!("other"), &json!(["balances:read"]))
    );
    assert_eq!(changed["scope_filter"], json!(["tenant:acme/app:mail"]));
    let lifted = operator.run(&format!("{update} --scope none")).await.json();
    assert!(
        lifted["scope_filter"].as_array().is_none_or(Vec::is_empty),
        "{lifted}"
    );
    assert_eq!(
        lifted["permissions"],
        json!(["balances:read"]),
        "left alone"
    );
    operator.run(&update).await.refused(2, "nothing to change");
}

#[tokio::test]
async fn a_warning_of_the_service_is_printed_beside_the_result() {
    let operator = AdminCli::new(&[]).await;
    let create = "--json key create --tenant acme --name agent --scope";
    let made = operator.run(&format!("{create} agent:writer")).await;
    assert_eq!(made.json()["scope_filter"], json!(["agent:writer"]));
    let warning = "warning: 299 - \"scope_filter[0] admits its segment anywhere";
    assert!(made.err.starts_with(warning), "{made:?}");
    let made = operator
        .run(&format!("{create} tenant:acme/agent:writer"))
        .await;
    assert!(made.err.is_empty(), "{made:?}");
}

#[tokio::test]
async fn a_webhook_is_updated_and_its_settings_cleared() {
    let operator = AdminCli::new(&[]).await;
    let create = "--json webhook create http://127.0.0.1:9/hook --tenant acme --type budget.exhausted --description first --scope tenant:acme/*";
    operator
        .run("webhook rules set --block none --allow-http")
        .await
        .done();
    let made = operator.run(create).await.json();
    let hook = made.get("subscription").unwrap_or(&made);
    let id = hook["subscription_id"].as_str().expect("an id");
    let update = format!("--json webhook update {id}");
    let changed = operator.run(&format!("{update} --name mine")).await.json();
    assert_eq!(
        (&changed["name"], &changed["description"]),
        (&json!("mine"), &json!("first"))
    );
    let cleared = operator
        .run(&format!("{update} --clear name,description,scope_filter"))
        .await
        .json();
    let gone = ["name", "description", "scope_filter"].map(|name| &cleared[name]);
    assert_eq!(gone, [&Value::Null; 3]);
}

#[tokio::test]
async fn a_bulk_action_funds_matching_budgets_once() {
    let operator = AdminCli::new(&[]).await;
    for scope in [
        "tenant:acme",
        "tenant:acme/app:chat",
        "tenant:acme/app:mail",
    ] {
        operator.budget(scope, 1000).await;
    }
    let bulk = "--json budget bulk --tenant acme --scope-prefix tenant:acme/app --credit 500";
    let unconfirmed = operator.run(bulk).await;
    unconfirmed.refused(2, "give --expect N, or --yes to change whatever matches");
    operator
        .run(&format!("{bulk} --expect 3"))
        .await
        .refused(1, "COUNT_MISMATCH");
    let funded = format!("{bulk} --expect 2 --reason top-up --idempotency-key once");
    let first = operator.run(&funded).await.json();
    assert_eq!(
        (&first["action"], &first["total_matched"]),
        (&json!("CREDIT"), &json!(2))
    );
    assert_eq!(operator.run(&funded).await.json(), first);
    let chat = operator
        .run("--json budget show tenant:acme/app:chat")
        .await
        .json();
    assert_eq!(chat["allocated"]["amount"], 1500, "once");
    let root = operator.run("--json budget show tenant:acme").await.json();
    assert_eq!(root["allocated"]["amount"], 1000);
    operator
        .run("budget bulk --tenant acme --credit 1 --spent 1 --yes")
        .await
        .refused(2, "--spent requires --reset-spent");
}

#[tokio::test]
async fn failed_rows_are_named_and_give_exit_code_1() {
    let operator = AdminCli::new(&[]).await;
    operator.budget("tenant:acme", 1000).await;
    operator.budget("tenant:acme/app:chat", 10).await;
    let failed = operator
        .run("budget bulk --tenant acme --debit 500 --yes")
        .await;
    assert_eq!(
        (failed.code, failed.err.trim_end()),
        (1, "some rows failed")
    );
    let lines: Vec<_> = failed.out.lines().collect();
    assert_eq!(lines[0], "2 matched: 1 done, 0 skipped, 1 failed");
    assert!(
        lines[1].starts_with("ID ") && lines[1].contains("OUTCOME"),
        "{lines:?}"
    );
    assert!(lines[2].contains("FAILED"), "{lines:?}");
}

#[tokio::test]
async fn tenants_and_webhooks_are_changed_in_bulk() {
    let operator = AdminCli::new(&[]).await;
    for id in ["umbrella", "umber", "other"] {
        operator.run(&format!("tenant create {id}")).await.done();
    }
    operator
        .run("tenant bulk suspend --yes")
        .await
        .refused(2, "needs a filter");
    operator
        .run("tenant bulk destroy --search umb --yes")
        .await
        .refused(2, "possible values");
    let suspended = operator
        .run("tenant bulk suspend --search umb --expect 2")
        .await;
    assert_eq!(suspended.out, "2 matched: 2 done, 0 skipped, 0 failed\n");
    let listed = operator
        .run("--json tenant list --status SUSPENDED")
        .await
        .rows();
    assert_eq!(listed.len(), 2);

    operator
        .run("webhook rules set --block none --allow-http")
        .await
        .done();
    for n in 0..2 {
        let create =
            format!("webhook create http://127.0.0.1:9/{n} --tenant other --type budget.exhausted");
        operator.run(&create).await.done();
    }
    operator
        .run("webhook bulk pause --tenant other --expect 2")
        .await
        .done();
    let paused = operator
        .run("--json webhook list --tenant other --status PAUSED")
        .await;
    assert_eq!(paused.rows().len(), 2);
    operator
        .run("webhook bulk delete --tenant other --yes")
        .await
        .done();
    let left = operator.run("--json webhook list --tenant other").await;
    assert_eq!(left.rows().len(), 0);
}

/// The commands of docs/recipes.md that change budgets, one after the other.
#[tokio::test]
async fn the_recipes_do_what_they_say() {
    let operator = AdminCli::new(&[]).await;
    let run = async |words: &str| {
        let mut command = operator.command(words);
        // As by default.
        command.env_remove("BUDGET_UNIT");
        ran(command.output().await.expect("the binary is built"))
    };
    let text = include_str!("../../../docs/recipes.md").replace("\\\n", " ");
    let recipes = text.lines().map(str::trim);
    let recipes = recipes.filter_map(|line| line.strip_prefix("budget-authority admin "));
    let recipes: Vec<_> = recipes
        .filter(|line| {
            ["budget ", "policy "]
                .iter()
                .any(|words| line.starts_with(words))
        })
        .collect();
    assert_eq!(recipes.len(), 7);
    run("tenant create demo").await.done();
    run("budget create tenant:demo --allocated 1000")
        .await
        .done();
    let (mut states, mut printed) = (Vec::new(), Vec::new());
    for recipe in recipes {
        let recipe = recipe.replace("'release weekend'", "weekend");
        let recipe = recipe.replace("'runaway agent'", "runaway");
        let recipe = recipe.replace('\'', "");
        let ran = run(&recipe).await;
        ran.done();
        printed.push(ran.out);
        let show = "--json budget show tenant:demo/workspace:research";
        states.push(run(show).await.json());
    }
    let amount = |at: usize, name: &str| states[at][name]["amount"].as_i64();
    assert_eq!(states[0]["period"]["time_zone"], "Europe/Berlin");
    assert_eq!(states[0]["limits"][0]["amount"]["amount"], 2_000_000_000);
    assert_eq!(amount(2, "allocated"), Some(15_000_000_000));
    assert_eq!(states[2]["increases"][0]["reason"], "weekend");
    let drawn = "\nincrease  5000000000 USD_MICROCENTS until ";
    assert!(printed[2].contains(drawn), "{}", printed[2]);
    assert_eq!(states[3]["enforcement"], "OBSERVE");
    assert_eq!(states[4]["enforcement"], "ENFORCE");
    assert_eq!(amount(5, "allocated"), Some(15_000_000_000));
    let root = run("--json budget show tenant:demo").await.json();
    assert_eq!(root["status"], "FROZEN");
    let drawn = run("budget show tenant:demo/workspace:research").await.out;
    for line in [
        "\nperiod    P1M in Europe/Berlin, until ",
        "\nlimit     ░░░░░░░░░░░░░░░░░░░░  0 of 2000000000 USD_MICROCENTS used in PT1H, until ",
        "\nincrease  5000000000 USD_MICROCENTS until ",
    ] {
        assert!(drawn.contains(line), "{drawn}");
    }
    let id = states[6]["increases"][0]["increase_id"]
        .as_str()
        .expect("an id");
    let end = format!("--json budget end-increase {id} tenant:demo/workspace:research");
    let ended = run(&end).await.json();
    assert_eq!(ended["allocated"]["amount"], 10_000_000_000_i64);
    let none = "--json budget update tenant:demo/workspace:research --limit none --clear period";
    let cleared = run(none).await.json();
    assert_eq!(
        (&cleared["limits"], &cleared["period"]),
        (&Value::Null, &Value::Null)
    );
    let wrong = "budget update tenant:demo/workspace:research --limit PT1H";
    run(wrong).await.refused(2, "must be EVERY=AMOUNT");
}

#[tokio::test]
async fn amounts_are_taken_as_people_write_them() {
    let operator = AdminCli::new(&[]).await;
    let create = "--json budget create tenant:acme --allocated 5usd --limit P1D=0.5usd";
    let made = operator.run(create).await.json();
    let money = |amount: i64| json!({"unit": "USD_MICROCENTS", "amount": amount});
    assert_eq!(made["allocated"], money(500_000_000));
    assert_eq!(made["limits"][0]["amount"], money(50_000_000));
    // The unit of the amount says which of the scope's budgets is meant.
    let create = "--json budget create tenant:acme --allocated 2Mtokens --overdraft-limit 1.5k";
    let made = operator.run(create).await.json();
    assert_eq!(made["unit"], "TOKENS");
    assert_eq!(made["overdraft_limit"]["amount"], 1_500);
    for (credit, expected) in [
        ("0.25usd", money(525_000_000)),
        ("1token", json!({"unit": "TOKENS", "amount": 2_000_001})),
    ] {
        let fund = format!("--json budget fund tenant:acme --credit {credit}");
        let funded = operator.run(&fund).await.json();
        assert_eq!(funded["new_allocated"], expected);
    }
    let increase = "--json budget increase tenant:acme 3credits --for P1D --reason peak";
    operator.run(increase).await.refused(1, "BUDGET_NOT_FOUND");
    for (arguments, why) in [
        (
            "--credit 5usd --unit TOKENS",
            "an amount is in USD_MICROCENTS, and another or --unit says TOKENS",
        ),
        (
            "--reset-spent 5usd --spent 1token",
            "an amount is in USD_MICROCENTS",
        ),
        (
            "--credit 0.000000001usd",
            "is not exact: the least amount is 0.00000001usd",
        ),
        ("--credit 5eur", "must be an amount such as"),
    ] {
        let fund = format!("budget fund tenant:acme {arguments}");
        operator.run(&fund).await.refused(2, why);
    }
}

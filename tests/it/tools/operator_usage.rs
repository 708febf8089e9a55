//! `budget-authority admin usage`, `usage why` and `charges`.

use budget_authority::domain::amount::Unit;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::admin_cli::AdminCli;
use crate::harness::app::ADMIN_KEY;
use crate::harness::runtime_calls::tokens;

const CHAT: &str = "tenant:acme/app:chat";

/// Charges of two apps and in two units, and a refund; the ids of the first reservation and of all usage events.
async fn charged(operator: &AdminCli) -> (String, Vec<String>) {
    let app = &operator.app;
    app.budget("tenant:acme", 10_000, 0).await;
    app.budget_in("tenant:acme", Unit::UsdMicrocents, 10_000_000_000, 0)
        .await;
    let held = app.held(CHAT, 100, json!({})).await;
    app.commit(&held, "commit", 75).await.expect(200);
    let refund = json!({"idempotency_key": "r", "amount": tokens(15), "reason": "wrong"});
    let path = format!("/v1/reservations/{held}/refund");
    app.post(&path, refund).await.expect(200);
    let mut events = Vec::new();
    for (key, scope, amount) in [
        ("a", "tenant:acme/app:mail", tokens(20)),
        ("b", "tenant:acme", tokens(5)),
        (
            "c",
            CHAT,
            json!({"unit": "USD_MICROCENTS", "amount": 250_000_000}),
        ),
    ] {
        app.next_ms().await;
        let posted = app.post_event(key, scope, 0, json!({"actual": amount}));
        events.push(posted.await.expect(201).text("/event_id").to_owned());
    }
    (held, events)
}

/// The CSV of the service for the same query.
async fn csv_of(operator: &AdminCli, query: &str) -> String {
    let path = format!("/v1/admin/usage?tenant_id=acme&{query}");
    let request = operator.app.request(Method::GET, &path);
    let request = request.header("X-Admin-API-Key", ADMIN_KEY);
    let response = request.header("Accept", "text/csv").send().await;
    let text = response.expect("a response").text().await;
    text.expect("text")
}

#[tokio::test]
async fn a_report_is_a_table_json_or_the_csv_of_the_service() {
    let operator = AdminCli::new(&[]).await;
    charged(&operator).await;
    let day = operator.app.store.today().date();
    let table = operator.run("usage --tenant acme --by app").await;
    let lines = table.out.lines();
    let lines: Vec<Vec<_>> = lines
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines,
        [
            vec!["APP", "UNIT", "CHARGED", "REFUNDED", "COUNT"],
            vec!["chat", "USD_MICROCENTS", "250000000", "0", "1"],
            vec!["chat", "TOKENS", "75", "15", "1"],
            vec!["mail", "TOKENS", "20", "0", "1"],
            vec!["-", "TOKENS", "5", "0", "1"],
        ],
        "{table:?}"
    );
    assert_eq!(table.err, format!("usage is known from {day} on\n"));

    let report = operator
        .run(&format!(
            "--json usage --tenant acme --by day --by action-kind --by action_kind --since {day}"
        ))
        .await;
    report.refused(1, "group_by");
    let words = format!(
        "--json usage --tenant acme --by day,action_kind --unit TOKENS --app chat --since {day} --until {day}"
    );
    let report = operator.run(&words).await;
    assert_eq!(report.err, "");
    let row = json!({
        "day": day, "action_kind": "llm.completion", "charged": tokens(75), "refunded": tokens(15), "count": 1,
    });
    assert_eq!(
        report.json(),
        json!({"usage": [row], "complete": true, "complete_from": day, "has_more": false})
    );
    let today = operator
        .run("--json usage --tenant acme --since 24h --limit 1")
        .await
        .json();
    assert_eq!(
        (&today["usage"][0]["count"], &today["has_more"]),
        (&json!(1), &json!(true))
    );

    for (words, query) in [
        ("--csv --by app,day", "group_by=app,day"),
        ("--focus --by app", "format=focus&group_by=app"),
    ] {
        let printed = operator.run(&format!("usage --tenant acme {words}")).await;
        printed.done();
        assert_eq!(printed.out, csv_of(&operator, query).await, "{words}");
        assert!(printed.out.contains("chat"), "{printed:?}");
        assert_eq!(printed.err, format!("usage is known from {day} on\n"));
    }
}

#[tokio::test]
async fn a_report_says_what_it_lacks() {
    let operator = AdminCli::new(&[]).await;
    operator.budget("tenant:acme", 1_000).await;
    let nothing = operator.run("usage --tenant acme --since 1h").await;
    assert_eq!((nothing.code, nothing.out.as_str()), (0, ""));
    assert!(
        nothing.err.starts_with("nothing was used in these days"),
        "{nothing:?}"
    );
    let mistyped = operator.run("usage --tenant acmee").await;
    mistyped.refused(1, "TENANT_NOT_FOUND");

    let app = &operator.app;
    let today = app.store.today();
    let caller = &app.callers[0];
    let key = app.store.keys().usage(caller.partition, "acme", today);
    let many = "for i = 1, 1200 do redis.call('HSET', KEYS[1], 'TOKENS app:a' .. i .. ' - 3 llm model', i .. ' 1') end";
    let () = app.run(&["EVAL", many, "1", &key]).await;
    let () = app.run(&["HSET", &key, "TOKENS other", "279400 2"]).await;
    let all = operator.run("--json usage --tenant acme --by app").await;
    assert_eq!(all.json()["usage"].as_array().map(Vec::len), Some(1_201));
    let first = operator.run("usage --tenant acme --by app --limit 2").await;
    assert!(
        first.out.contains("\n(other)  TOKENS   279400 ")
            && first.out.contains("\na1200    TOKENS     1200 "),
        "{first:?}"
    );
    let narrow = operator
        .run("usage --tenant acme --app a1 --since 2020-01-01")
        .await;
    assert!(
        narrow.err.starts_with("incomplete: ") && narrow.err.contains("\nusage is known from "),
        "{narrow:?}"
    );
    let csv = operator.run("usage --tenant acme --app a1 --csv").await;
    assert!(csv.err.starts_with("incomplete: "), "{csv:?}");
}

#[tokio::test]
async fn wrong_arguments_of_a_report_are_refused() {
    let operator = AdminCli::new(&[]).await;
    for (words, code, says) in [
        ("usage", 2, "--tenant"),
        ("usage --tenant acme --csv --focus", 2, "--focus"),
        ("usage --tenant acme --csv --limit 3", 2, "--limit"),
        (
            "usage --tenant acme --limit 0",
            2,
            "--limit must be at least 1",
        ),
        ("--json usage --tenant acme --csv", 2, "--json"),
        ("usage --tenant acme --since lately", 2, "neither a day"),
        ("usage --tenant acme why tenant:acme", 2, "why"),
        ("usage --tenant acme --by price", 1, "group_by"),
        (
            "usage --tenant acme --focus --unit TOKENS",
            1,
            "USD_MICROCENTS",
        ),
        ("usage why", 2, "SCOPE"),
        ("usage why tenant:acme", 1, "BUDGET_NOT_FOUND"),
        ("usage why app:chat", 1, ""),
        ("charges", 2, "--tenant"),
        ("charges --tenant acmee", 1, "TENANT_NOT_FOUND"),
        ("charges --tenant acme --status ACTIVE", 2, "--status"),
    ] {
        operator.run(words).await.refused(code, says);
    }
}

#[tokio::test]
async fn why_adds_up_to_the_figures_of_the_budget() {
    let operator = AdminCli::new(&[]).await;
    let app = &operator.app;
    let create = "budget create tenant:acme/app:chat --allocated 100 --every P1M --overage-policy ALLOW_WITH_OVERDRAFT --overdraft-limit 1k";
    operator.run(create).await.done();
    // Neither is charged to that budget.
    operator.budget("tenant:acme", 10_000).await;
    operator
        .run("budget update tenant:acme --overdraft-limit 1000")
        .await
        .done();
    let other = "tenant:acme/workspace:prod/app:chat";
    app.held(other, 900, json!({})).await;
    app.post_event("other", other, 500, json!({}))
        .await
        .expect(201);
    let fund = "budget fund tenant:acme/app:chat --credit 50 --reason top-up";
    operator.run(fund).await.done();
    let increase = "budget increase tenant:acme/app:chat 30 --for P2D --reason release";
    operator.run(increase).await.done();
    let small = app.held(&format!("{CHAT}/agent:a"), 10, json!({})).await;
    let large = app.held(CHAT, 40, json!({})).await;
    let over = json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"});
    let used = app.held(&format!("{CHAT}/agent:b"), 60, over).await;
    app.post_event("tool", CHAT, 20, json!({}))
        .await
        .expect(201);
    app.commit(&used, "c", 130).await.expect(200);

    let why = operator.run("--json usage why tenant:acme/app:chat").await;
    let why = why.json();
    let budget = &why["budget"];
    let figures = ["allocated", "spent", "reserved", "debt"];
    assert_eq!(
        figures.map(|name| budget[name]["amount"].as_i64()),
        [180, 130, 50, 20].map(Some),
        "{budget}"
    );
    let rows = &why["usage"]["rows"];
    let kind = |place: usize| (&rows[place]["action_kind"], &rows[place]["charged"]);
    assert_eq!(kind(0), (&json!("http.get"), &tokens(20)));
    assert_eq!(kind(1), (&json!("llm.completion"), &tokens(130)));
    assert_eq!(why["usage"]["difference"], tokens(0));
    let holds = &why["holds"];
    let ids = ["/largest/0", "/largest/1"].map(|place| {
        let hold = holds.pointer(place).unwrap_or(&Value::Null);
        hold["reservation_id"].as_str()
    });
    assert_eq!(holds["count"], 2);
    assert_eq!(ids, [Some(large.as_str()), Some(small.as_str())]);
    assert_eq!(why["debts"][0]["data"]["reservation_id"], used.as_str());
    assert_eq!(why["debts"].as_array().map(Vec::len), Some(1));
    assert_eq!(why["changes"][0]["data"]["reason"], "top-up");

    let text = operator.run("usage why tenant:acme/app:chat").await.out;
    let key = app.callers[0].key_id.to_string();
    for part in [
        "tenant:acme/app:chat in TOKENS\n-20 remaining = 180 allocated - 130 spent - 50 held - 20 debt\n",
        "30 of it allocated until ",
        ": release\n",
        ": CREDIT, 150 allocated then; top-up\n",
        "\nllm.completion      130         0      1\n",
        "\n50 held; active reservations: 2\n",
        &format!("      40  {key}  tenant:acme/app:chat "),
        "\n20 debt, made by:\n",
        &used,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }

    operator
        .run("budget fund tenant:acme/app:chat --repay-debt 20")
        .await
        .done();
    operator
        .run("budget fund tenant:acme/app:chat --reset-spent 500 --spent 7")
        .await
        .done();
    let text = operator.run("usage why tenant:acme/app:chat").await.out;
    assert!(
        text.contains("\n-143: what 7 spent and 0 debt have besides these charges; "),
        "{text}"
    );
    assert!(
        text.contains(": RESET_SPENT, 500 allocated then\n") && !text.contains("made by"),
        "{text}"
    );
}

#[tokio::test]
async fn why_shows_the_20_largest_holds() {
    let operator = AdminCli::new(&[]).await;
    operator.budget("tenant:acme", 10_000).await;
    for amount in 1..=23 {
        operator
            .app
            .reserve(&format!("key-{amount}"), amount)
            .await
            .expect(200);
    }
    let text = operator.run("usage why tenant:acme").await;
    assert!(text.err.contains("nothing was charged"), "{text:?}");
    assert!(
        text.out
            .contains("\n276 held; active reservations: 23, of which the 20 largest\n"),
        "{text:?}"
    );
    assert!(
        text.out.lines().count() == 27 && !text.out.contains("       3  key_"),
        "{text:?}"
    );
}

#[tokio::test]
async fn charges_are_both_kinds_in_one_order() {
    let operator = AdminCli::new(&[]).await;
    let (held, events) = charged(&operator).await;
    // Active, so not charged.
    operator.app.held("tenant:acme/agent:x", 3, json!({})).await;
    let listed = async |words: &str| {
        let words = format!("--json charges --tenant acme {words}");
        let rows = operator.run(&words).await.rows();
        let ids = rows.iter().map(|row| row["id"].as_str().map(str::to_owned));
        ids.map(|id| id.expect("an id")).collect::<Vec<_>>()
    };
    let [first, second, third] = [0, 1, 2].map(|place| events[place].clone());
    assert_eq!(
        listed("").await,
        [third.clone(), second.clone(), first.clone(), held.clone()]
    );
    assert_eq!(listed("--limit 2").await, [third.clone(), second]);
    assert_eq!(listed("--app chat").await, [third, held.clone()]);
    assert_eq!(
        listed("--action-kind llm.completion").await,
        [held.as_str()]
    );
    assert_eq!(listed("--action-name none").await, [""; 0]);
    assert_eq!(listed("--until 2020-01-01T00:00:00Z").await, [""; 0]);
    let rows = operator
        .run("--json charges --tenant acme --app mail")
        .await;
    let row = &rows.rows()[0];
    assert_eq!(
        (&row["kind"], &row["charged"], &row["action"]["name"]),
        (&json!("usage event"), &tokens(20), &json!("weather"))
    );
    let table = operator.run("charges --tenant acme").await.out;
    let key = operator.app.callers[0].key_id.to_string();
    let last = table.lines().last().expect("a row");
    let cells = format!(
        "  reservation  {held}  {CHAT}  llm.completion openai:gpt-4o-mini  75 TOKENS                 15 TOKENS  {key}"
    );
    assert!(last.ends_with(&cells), "{last}");

    for number in 0..130 {
        let key = format!("n{number}");
        let posted = operator.app.post_event(&key, CHAT, 1, json!({})).await;
        posted.expect(201);
    }
    assert_eq!(listed("--limit 200").await.len(), 134);
    assert_eq!(listed("--limit 105").await.len(), 105);
}

/// The commands of the documents about usage.
#[tokio::test]
async fn the_documents_of_usage_do_what_they_say() {
    let operator = AdminCli::new(&[]).await;
    operator.run("tenant create demo").await.done();
    for scope in ["tenant:demo", "tenant:demo/app:chat"] {
        let budget = format!("budget create {scope} --allocated 1000");
        operator.run(&budget).await.done();
    }
    let texts = [
        include_str!("../../../docs/usage.md"),
        include_str!("../../../docs/recipes.md"),
    ];
    let commands = texts.iter().flat_map(|text| text.lines());
    let commands = commands.filter_map(|line| line.strip_prefix("budget-authority admin "));
    let is_ours = |line: &&str| line.starts_with("usage ") || line.starts_with("charges ");
    let mut count = 0;
    for command in commands.filter(is_ours) {
        let words = command.split('>').next().expect("a command");
        operator.run(words).await.done();
        count += 1;
    }
    assert_eq!(count, 10);
}

//! CSV: cells that are no formulas, and the columns of FOCUS 1.2.

use std::collections::HashMap;
use std::process::Stdio;

use budget_authority::domain::amount::Unit;
use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::harness::app::TestApp;

/// The rows of a table, each by the names of its columns; and its headers.
async fn table(app: &TestApp, query: &str) -> (Vec<HashMap<String, String>>, Vec<String>) {
    let request = app.request(Method::GET, &format!("/v1/usage?{query}"));
    let request = request.header("X-Service-API-Key", &app.keys[0]);
    let response = request
        .header("Accept", "text/csv")
        .send()
        .await
        .expect("a response");
    assert_eq!(response.status(), 200);
    let content_type = response.headers()["content-type"]
        .to_str()
        .expect("text")
        .to_owned();
    assert!(content_type.starts_with("text/csv"), "{content_type}");
    assert_eq!(response.headers()["usage-complete"], "true");
    assert_eq!(
        response.headers()["usage-complete-from"],
        app.store.today().date().as_str()
    );
    let body = response.bytes().await.expect("a body");
    read(&body).await
}

/// Reads a table as Python does.
async fn read(table: &[u8]) -> (Vec<HashMap<String, String>>, Vec<String>) {
    let program = "import csv, io, json, sys
table = csv.DictReader(io.TextIOWrapper(sys.stdin.buffer, encoding='utf-8', newline=''), strict=True)
rows = list(table)
print(json.dumps([rows, table.fieldnames]))";
    let mut python = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python");
    let mut input = python.stdin.take().expect("its input");
    input.write_all(table).await.expect("it reads");
    drop(input);
    let output = python.wait_with_output().await.expect("it ends");
    serde_json::from_slice(&output.stdout).expect("a table")
}

#[tokio::test]
async fn a_table_has_every_group_and_no_formula() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    let names = [
        "=1+1",
        "+1",
        "-1",
        "@x",
        "\tx",
        "\rx",
        "a,\"b\"\nc",
        "ok",
        "ä",
    ];
    for (index, name) in names.iter().enumerate() {
        let action = json!({"action": {"kind": "tool", "name": name}});
        app.post_event(name, "tenant:acme", 10 - index as i64, action)
            .await
            .expect(201);
    }
    let (rows, columns) = table(&app, "group_by=action_name").await;
    assert_eq!(
        columns,
        [
            "action_name",
            "other",
            "unit",
            "charged",
            "refunded",
            "count",
            "saturated"
        ]
    );
    let cells: Vec<_> = rows.iter().map(|row| row["action_name"].as_str()).collect();
    assert_eq!(
        cells,
        [
            "'=1+1",
            "'+1",
            "'-1",
            "'@x",
            "'\tx",
            "'\rx",
            "a,\"b\"\nc",
            "ok",
            "ä"
        ]
    );
    assert_eq!(
        [&rows[0]["unit"], &rows[0]["charged"], &rows[0]["count"]],
        ["TOKENS", "10", "1"]
    );
    for query in ["limit=5", "cursor=x"] {
        let request = app.request(Method::GET, &format!("/v1/usage?{query}"));
        let refused = app
            .send(
                request
                    .header("Accept", "text/csv")
                    .header("X-Service-API-Key", &app.keys[0]),
            )
            .await;
        refused.refused(400, "INVALID_REQUEST");
    }
}

#[tokio::test]
async fn csv_is_for_clients_that_accept_it_first() {
    let app = TestApp::spawn().await;
    for (accept, is_csv) in [
        ("text/csv", true),
        ("text/html, text/csv; charset=utf-8, */*", true),
        ("application/json, text/csv;q=0.1", false),
        ("*/*", false),
    ] {
        let request = app.request(Method::GET, "/v1/usage");
        let request = request.header("X-Service-API-Key", &app.keys[0]);
        let response = request.header("Accept", accept).send().await;
        let response = response.expect("a response");
        let content_type = response.headers()["content-type"].to_str().expect("text");
        assert_eq!(content_type.starts_with("text/csv"), is_csv, "{accept}");
    }
}

/// Whether a cell is what its column may have.
type IsRight = fn(&str) -> bool;

/// The rules of the published columns that this table has: name, whether it may be empty, and what a value must be.
const RULES: [(&str, bool, IsRight); 21] = [
    ("BilledCost", false, is_decimal),
    ("BillingAccountId", false, |_| true),
    ("BillingAccountName", true, |_| true),
    ("BillingCurrency", false, |text| text == "USD"),
    ("BillingPeriodEnd", false, is_time),
    ("BillingPeriodStart", false, is_time),
    ("ChargeCategory", false, |text| {
        ["Usage", "Purchase", "Tax", "Credit", "Adjustment"].contains(&text)
    }),
    ("ChargeClass", true, |text| text == "Correction"),
    ("ChargeDescription", true, |_| true),
    ("ChargePeriodEnd", false, is_time),
    ("ChargePeriodStart", false, is_time),
    ("ContractedCost", false, is_decimal),
    ("EffectiveCost", false, is_decimal),
    ("InvoiceIssuerName", false, |_| true),
    ("ListCost", false, is_decimal),
    ("PricingQuantity", true, is_decimal),
    ("PricingUnit", true, |_| true),
    ("ProviderName", false, |_| true),
    ("PublisherName", false, |_| true),
    ("ServiceCategory", false, |text| {
        text == "AI and Machine Learning"
    }),
    ("ServiceName", false, |_| true),
];

fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty()
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn is_time(text: &str) -> bool {
    budget_authority::domain::moment::Moment::parse(text).is_some()
}

#[tokio::test]
async fn focus_has_the_published_columns_and_exact_dollars() {
    let app = TestApp::spawn().await;
    app.budget_in("tenant:acme", Unit::UsdMicrocents, i64::MAX, 0)
        .await;
    app.budget("tenant:acme/app:none", 100, 0).await;
    let largest = json!({"unit": "USD_MICROCENTS", "amount": i64::MAX - 250_000_001});
    let dollars = json!({"unit": "USD_MICROCENTS", "amount": 250_000_001});
    let mut ids = Vec::new();
    for (key, scope, amount) in [
        ("a", "tenant:acme/app:mail", &largest),
        ("b", "tenant:acme/app:chat", &dollars),
    ] {
        let posted = app.post_event(key, scope, 0, json!({"actual": amount}));
        ids.push(posted.await.expect(201).text("/event_id").to_owned());
    }
    app.set_tenant(&[("name", "Acme Inc.")]).await;
    // Tokens are no money.
    app.post_event("t", "tenant:acme/app:none", 7, json!({}))
        .await
        .expect(201);
    let refund = json!({"idempotency_key": "r", "amount": {"unit": "USD_MICROCENTS", "amount": 1}, "reason": "wrong"});
    app.post(&format!("/v1/usage-events/{}/refund", ids[1]), refund)
        .await
        .expect(200);
    let (rows, columns) = table(&app, "format=focus&group_by=app").await;
    let names: Vec<_> = RULES
        .iter()
        .map(|(name, ..)| *name)
        .chain(["x_App"])
        .collect();
    assert_eq!(columns, names);
    for row in &rows {
        for (name, may_be_empty, is_right) in RULES {
            let cell = row[name].as_str();
            assert!(
                if cell.is_empty() {
                    may_be_empty
                } else {
                    is_right(cell)
                },
                "{name}: {cell}"
            );
        }
        // A usage has a quantity, and every cost of a row is the same.
        let is_usage = row["ChargeCategory"] == "Usage";
        assert_eq!(
            (
                row["PricingQuantity"].is_empty(),
                row["PricingUnit"].is_empty()
            ),
            (!is_usage, !is_usage)
        );
        for cost in ["ContractedCost", "EffectiveCost", "ListCost"] {
            assert_eq!(row[cost], row["BilledCost"]);
        }
        let start = row["ChargePeriodStart"].clone();
        assert!(
            row["BillingPeriodStart"] <= start && start < row["ChargePeriodEnd"],
            "{row:?}"
        );
        assert!(row["ChargePeriodEnd"] <= row["BillingPeriodEnd"], "{row:?}");
    }
    let costs: Vec<_> = rows
        .iter()
        .map(|row| [&row["x_App"], &row["ChargeCategory"], &row["BilledCost"]])
        .collect();
    assert_eq!(
        costs,
        [
            ["mail", "Usage", "92233720366.04775806"],
            ["chat", "Usage", "2.50000001"],
            ["chat", "Credit", "-0.00000001"],
        ]
    );
    assert_eq!(rows[0]["BillingAccountName"], "Acme Inc.");
    for query in [
        "format=focus&unit=TOKENS",
        "format=focus&group_by=month",
        "format=focus&limit=1",
    ] {
        app.get(&format!("/v1/usage?{query}"))
            .await
            .refused(400, "INVALID_REQUEST");
    }
}

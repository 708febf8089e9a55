//! `GET /v1/balances`: which ledgers are listed, in which order, page by page.

use budget_authority::domain::amount::Unit;
use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::response::Response;

const PROD: &str = "tenant:acme/workspace:prod";
const BOT: &str = "tenant:acme/workspace:prod/agent:bot";

/// Ledgers of acme at several places and units, and others that must never be seen.
async fn with_ledgers() -> TestApp {
    let mut app = TestApp::spawn().await;
    for (scope, unit) in [
        ("tenant:acme", Unit::Tokens),
        ("tenant:acme", Unit::UsdMicrocents),
        (PROD, Unit::RiskPoints),
        (PROD, Unit::Tokens),
        (BOT, Unit::Credits),
        ("tenant:acme/agent:bot", Unit::Tokens),
        ("tenant:acme/workspace:prod-2", Unit::Tokens),
    ] {
        app.budget_in(scope, unit, 1_000, 0).await;
    }
    let corp = app.add_tenant("acme-corp").await;
    for (tenant, scope) in [(1, "tenant:bolt"), (corp, "tenant:acme-corp")] {
        app.budget_of(tenant, scope, 1).await;
    }
    app
}

/// Scope path and unit of each row.
fn places(response: &Response) -> Vec<String> {
    let rows = response.at("/balances").as_array().expect("rows");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    rows.iter()
        .map(|row| {
            format!(
                "{} {}",
                text(&row["scope_path"]),
                text(&row["remaining"]["unit"])
            )
        })
        .collect()
}

async fn get(app: &TestApp, query: &str) -> Response {
    let response = app.get(&format!("/v1/balances?{query}")).await;
    assert_eq!(response.status, 200, "{query}: {response:?}");
    let next = !response.at("/next_cursor").is_null();
    assert_eq!(response.at("/has_more"), &json!(next), "{query}");
    response
}

#[tokio::test]
async fn balances_are_ordered_by_scope_path_and_unit() {
    let app = with_ledgers().await;
    let all = [
        "tenant:acme USD_MICROCENTS".to_owned(),
        "tenant:acme TOKENS".to_owned(),
        "tenant:acme/agent:bot TOKENS".to_owned(),
        format!("{PROD} TOKENS"),
        format!("{PROD} RISK_POINTS"),
        "tenant:acme/workspace:prod-2 TOKENS".to_owned(),
        format!("{BOT} CREDITS"),
    ];
    let listed = places(&get(&app, "tenant=acme").await);
    let mut sorted = all.to_vec();
    let key = |place: &String| {
        let (scope, unit) = place.split_once(' ').expect("a place");
        let unit = Unit::parse(unit).expect("a unit");
        (scope.to_owned(), unit.index())
    };
    sorted.sort_by_key(key);
    assert_eq!(listed, sorted);
}

#[tokio::test]
async fn a_filter_matches_whole_segments_at_any_level_in_any_case() {
    let app = with_ledgers().await;
    for (query, found) in [
        ("tenant=acme", 7),
        ("workspace=prod", 3),
        ("workspace=PROD", 3),
        ("agent=bot", 2),
        ("agent=bot&workspace=prod", 1),
        ("tenant=acme&agent=bot", 2),
        ("workspace=pro", 0),
        ("workspace=prod*", 0),
        ("agent=bot/x", 0),
        ("app=prod", 0),
        ("toolset=%00", 0),
        ("agent=bot&agent=", 2),
        ("workspace=prod&include_children=false", 3),
        ("workspace=prod&include_children=true", 3),
        (
            "workspace=prod&unit=TOKENS&scope_prefix=x&tenant_id=bolt",
            3,
        ),
    ] {
        let places = places(&get(&app, query).await);
        assert_eq!(places.len(), found, "{query}: {places:?}");
        assert!(places.iter().all(|place| !place.contains("corp")));
    }
}

#[tokio::test]
async fn a_filter_is_required_and_must_not_name_another_tenant() {
    let app = with_ledgers().await;
    for query in [
        "",
        "?",
        "?tenant=",
        "?tenant=%20&agent=",
        "?limit=1",
        "?include_children=true",
    ] {
        let response = app.get(&format!("/v1/balances{query}")).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{query}");
        assert!(response.text("/message").contains("tenant, workspace, app"));
    }
    for other in ["other", "acme-corp", "ACME", "bolt", "acme%00"] {
        let response = app.get(&format!("/v1/balances?tenant={other}")).await;
        assert_eq!(response.error(), (403, "FORBIDDEN"), "{other}");
        assert_eq!(response.header(app.names.tenant), Some("acme"));
    }
}

#[tokio::test]
async fn wrong_parameters_are_named() {
    let app = with_ledgers().await;
    for (query, named) in [
        ("limit=0", "Invalid limit: 0"),
        ("limit=201", "Invalid limit: 201"),
        ("limit=-1", "Invalid limit: -1"),
        ("limit=abc", "Invalid limit: abc"),
        ("limit=1e1", "Invalid limit: 1e1"),
        ("limit=99999999999999999999", "Invalid limit: 99"),
        ("limit=%D9%A1", "Invalid limit: "),
        ("limit=1&limit=2", "Invalid limit: "),
        ("include_children=yes", "Invalid include_children: yes"),
        ("include_children=TRUE", "Invalid include_children: TRUE"),
        ("cursor=x", "Invalid cursor"),
        ("cursor=%F0%9F%92%A5%00", "Invalid cursor"),
    ] {
        let response = app.get(&format!("/v1/balances?agent=bot&{query}")).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{query}");
        let message = response.text("/message");
        assert!(message.starts_with(named), "{query}: {message}");
    }
    let blank = get(&app, "agent=bot&limit=&cursor=&include_children=").await;
    assert_eq!(places(&blank).len(), 2);
}

#[tokio::test]
async fn pages_of_any_size_show_each_ledger_once_and_the_last_has_no_cursor() {
    let app = with_ledgers().await;
    for filter in ["tenant=acme", "workspace=prod"] {
        let all = places(&get(&app, filter).await);
        for limit in 1..=all.len() {
            let (mut seen, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
            loop {
                let query = format!("{filter}&limit={limit}&cursor={cursor}");
                let response = get(&app, &query).await;
                seen.extend(places(&response));
                pages += 1;
                match response.at("/next_cursor").as_str() {
                    Some(next) => next.clone_into(&mut cursor),
                    None => break,
                }
            }
            assert_eq!(seen, all, "{filter} by {limit}");
            assert_eq!(pages, all.len().div_ceil(limit), "{filter} by {limit}");
        }
    }
}

#[tokio::test]
async fn a_cursor_is_bound_to_its_list_tenant_and_filters_but_not_to_the_limit() {
    let app = with_ledgers().await;
    let first = get(&app, "workspace=prod&limit=1").await;
    let cursor = first.text("/next_cursor");
    for query in [
        "limit=2",
        "",
        "limit=200&include_children=true",
        "tenant=acme",
    ] {
        let response = get(&app, &format!("workspace=prod&{query}&cursor={cursor}")).await;
        assert!(!places(&response).contains(&places(&first)[0]), "{query}");
    }
    for query in [
        "workspace=prod-2",
        "agent=bot&workspace=prod",
        "tenant=acme",
    ] {
        let path = format!("/v1/balances?{query}&cursor={cursor}");
        let response = app.get(&path).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{query}");
        assert!(response.text("/message").contains("filters have changed"));
    }
    let path = format!("/v1/balances?workspace=prod&cursor={cursor}");
    app.get_as(1, &path).await.refused(400, "INVALID_REQUEST");
    app.get(&format!("/v1/reservations?cursor={cursor}"))
        .await
        .refused(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn a_balance_omits_zero_debt_limit_and_flag() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    app.budget("tenant:acme/agent:bot", 0, i64::MAX).await;
    let response = get(&app, "tenant=acme").await;
    let tokens = |amount: i64| json!({"unit": "TOKENS", "amount": amount});
    assert_eq!(
        response.at("/balances/0"),
        &json!({"scope": "tenant:acme", "scope_path": "tenant:acme", "remaining": tokens(1_000),
            "reserved": tokens(0), "spent": tokens(0), "allocated": tokens(1_000)})
    );
    assert_eq!(
        response.at("/balances/1"),
        &json!({"scope": "agent:bot", "scope_path": "tenant:acme/agent:bot",
            "remaining": tokens(0), "reserved": tokens(0), "spent": tokens(0),
            "allocated": tokens(0), "overdraft_limit": tokens(i64::MAX)})
    );
    let event = json!({"idempotency_key": "e", "subject": {"tenant": "acme", "agent": "bot"},
        "action": {"kind": "k", "name": "n"}, "actual": tokens(1_001),
        "overage_policy": "ALLOW_IF_AVAILABLE"});
    app.post("/v1/events", event).await.expect(201);
    let response = get(&app, "tenant=acme").await;
    assert_eq!(response.at("/balances/0/is_over_limit"), &json!(true));
}

#[tokio::test]
async fn a_closed_tenant_can_read_balances() {
    let app = with_ledgers().await;
    let caller = &app.callers[0];
    let keys = app.store.keys();
    let record = keys.tenant(caller.partition, caller.tenant.as_str());
    for status in ["CLOSED", "SUSPENDED", "closed", ""] {
        app.run::<()>(&["HSET", &record, "status", status]).await;
        get(&app, "tenant=acme").await;
    }
}

#[tokio::test]
async fn a_tenant_without_ledgers_gets_an_empty_page() {
    let app = TestApp::spawn().await;
    let response = get(&app, "tenant=acme").await;
    assert_eq!(response.body, json!({"balances": [], "has_more": false}));
}

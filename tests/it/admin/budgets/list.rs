//! Listing budgets: every filter, every sort, by tenant, page by page.

use std::cmp::Ordering;

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, TENANTS};
use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::TestApp;
use crate::harness::redis::shared;
use crate::harness::response::Response;

pub(crate) async fn list(app: &TestApp, key: Option<&str>, query: &str) -> Response {
    let path = format!("{BUDGETS}?{query}");
    app.by_either(key, Method::GET, &path, &Value::Null).await
}

pub(crate) fn rows(response: &Response) -> Vec<Value> {
    assert_eq!(response.status, 200, "{response:?}");
    let rows = response.at("/ledgers").as_array().expect("rows").clone();
    assert_eq!(
        response.at("/has_more").as_bool(),
        Some(response.at("/next_cursor").is_string())
    );
    rows
}

pub(crate) fn ids(rows: &[Value]) -> Vec<String> {
    let id = |row: &Value| row["ledger_id"].as_str().expect("an id").to_owned();
    rows.iter().map(id).collect()
}

pub(crate) fn scopes(response: &Response) -> Vec<String> {
    let scope = |row: &Value| row["scope"].as_str().expect("a scope").to_owned();
    rows(response).iter().map(scope).collect()
}

/// All pages of a list.
pub(crate) async fn walked(app: &TestApp, key: Option<&str>, query: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = list(app, key, &format!("{query}{cursor}")).await;
        found.extend(rows(&page));
        match page.at("/next_cursor").as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

pub(crate) async fn tenant(app: &TestApp, id: &str) {
    app.post_as_admin(TENANTS, json!({"tenant_id": id, "name": id}))
        .await
        .expect(201);
}

pub(crate) async fn budget(app: &TestApp, tenant: &str, scope: &str, unit: &str, allocated: i64) {
    let amount = json!({"unit": unit, "amount": allocated});
    let body = json!({"tenant_id": tenant, "scope": scope, "unit": unit, "allocated": amount});
    app.post_as_admin(BUDGETS, body).await.expect(201);
}

/// Changes fields of a ledger's record.
pub(crate) async fn change(
    app: &TestApp,
    tenant: &str,
    unit: &str,
    scope: &str,
    fields: &[(&str, &str)],
) {
    let partition = crate::harness::admin_fixture::tenant_id(tenant).partition();
    let key = app.store.keys().budget(partition, tenant, unit, scope);
    let mut words = vec!["HSET", &key];
    words.extend(fields.iter().flat_map(|(name, value)| [*name, *value]));
    app.run::<()>(&words).await;
}

pub(crate) const UNITS: [&str; 4] = ["USD_MICROCENTS", "TOKENS", "CREDITS", "RISK_POINTS"];

/// Thirty ledgers of `umbra` in all states.
async fn thirty(app: &TestApp) {
    tenant(app, "umbra").await;
    for number in 0..30_usize {
        let (unit, statuses) = (UNITS[number % 3], ["ACTIVE", "FROZEN", "CLOSED"]);
        let scope = match number % 5 {
            0 => format!("tenant:umbra/app:a{}", number / 5),
            _ => format!("tenant:umbra/workspace:w{}/agent:x{}", number % 4, number),
        };
        let allocated = [0, 10, 1_000, i64::MAX / 2][number % 4];
        budget(app, "umbra", &scope, unit, allocated).await;
        let spent = if allocated == 0 {
            5
        } else {
            allocated / 10 * (number as i64 % 12)
        };
        let spent = spent.max(0).to_string();
        let debt = if number % 7 == 0 {
            number.to_string()
        } else {
            "0".to_owned()
        };
        let over = if number % 6 == 0 { "1" } else { "0" };
        let status = statuses[number % 8 % 3];
        let mut fields = vec![
            ("spent", &*spent),
            ("debt", &debt),
            ("is_over_limit", over),
            ("status", status),
        ];
        if number % 3 == 1 {
            fields.push((
                "commit_overage_policy",
                ["REJECT", "ALLOW_WITH_OVERDRAFT"][number % 2],
            ));
        }
        change(app, "umbra", unit, &scope, &fields).await;
    }
}

fn figure(row: &Value, name: &str) -> i64 {
    row[name]["amount"].as_i64().expect("a figure")
}

fn utilization(row: &Value) -> f64 {
    match figure(row, "allocated") {
        0 => 0.0,
        allocated => figure(row, "spent") as f64 / allocated as f64,
    }
}

#[tokio::test]
async fn every_filter_selects_its_rows_and_filters_combine() {
    let app = TestApp::spawn().await;
    thirty(&app).await;
    let all = rows(&list(&app, None, "tenant_id=umbra&limit=100").await);
    assert_eq!(all.len(), 30);
    type Test = fn(&Value) -> bool;
    let filters: [(&str, Test); 17] = [
        ("scope_prefix=tenant:umbra/app", |row| {
            row["scope"]
                .as_str()
                .unwrap()
                .starts_with("tenant:umbra/app")
        }),
        ("scope_prefix=tenant:umbra/workspace:w1", |row| {
            row["scope"]
                .as_str()
                .unwrap()
                .starts_with("tenant:umbra/workspace:w1")
        }),
        ("scope_prefix=tenant:UMBRA", |_| false),
        ("scope_prefix=umbra", |_| false),
        ("unit=TOKENS", |row| row["unit"] == "TOKENS"),
        ("status=FROZEN", |row| row["status"] == "FROZEN"),
        ("over_limit=true", |row| row["is_over_limit"] == true),
        ("over_limit=false", |row| row["is_over_limit"] == false),
        ("has_debt=true", |row| figure(row, "debt") > 0),
        ("has_debt=false", |row| figure(row, "debt") == 0),
        ("utilization_min=0.5", |row| utilization(row) >= 0.5),
        ("utilization_max=1", |row| utilization(row) <= 1.0),
        ("utilization_min=0.3&utilization_max=0.7", |row| {
            (0.3..=0.7).contains(&utilization(row))
        }),
        ("search=AGENT:X1", |row| {
            row["scope"].as_str().unwrap().contains("agent:x1")
        }),
        ("search=%20mbr%20", |_| true),
        ("search=%20", |_| true),
        ("search=nothing", |_| false),
    ];
    for (filter, test) in &filters {
        let mut expected: Vec<_> = all.iter().filter(|row| test(row)).cloned().collect();
        let trivial = expected.is_empty() || expected.len() == 30;
        assert!(
            !trivial || filter.contains("search") || filter.contains("prefix"),
            "{filter}"
        );
        let found = walked(&app, None, &format!("tenant_id=umbra&limit=7&{filter}")).await;
        assert_eq!(ids(&found), ids(&expected), "{filter}");
        // Along the index as well as gathered.
        let mut found = ids(&walked(
            &app,
            None,
            &format!("tenant_id=umbra&limit=7&sort_by=scope&{filter}"),
        )
        .await);
        found.sort();
        expected.sort_by_key(|row| row["ledger_id"].as_str().unwrap().to_owned());
        assert_eq!(found, ids(&expected), "{filter} by scope");
        for (other, and) in filters
            .iter()
            .filter(|(other, _)| other.split('=').next() != filter.split('=').next())
        {
            let repeated = filter.contains("utilization") && other.contains("utilization");
            let expected: Vec<_> = all
                .iter()
                .filter(|row| test(row) && and(row))
                .cloned()
                .collect();
            if !repeated {
                let found = rows(
                    &list(
                        &app,
                        None,
                        &format!("tenant_id=umbra&limit=100&{filter}&{other}"),
                    )
                    .await,
                );
                assert_eq!(ids(&found), ids(&expected), "{filter}&{other}");
            }
        }
    }
}

/// The order that a sort asks for, ascending.
pub(crate) fn ordered(by: &str, a: &Value, b: &Value) -> Ordering {
    let unit = |row: &Value| UNITS.iter().position(|unit| row["unit"] == **unit);
    let text = |row: &Value| row[by].as_str().map(str::to_owned);
    let by_value = match by {
        "scope" | "tenant_id" => {
            return text_of(a, "tenant_id")
                .cmp(&text_of(b, "tenant_id"))
                .then(text_of(a, "scope").cmp(&text_of(b, "scope")))
                .then(unit(a).cmp(&unit(b)));
        }
        "utilization" => utilization(a).total_cmp(&utilization(b)),
        "debt" => figure(a, "debt").cmp(&figure(b, "debt")),
        // Absent values come last.
        _ => text(a)
            .is_none()
            .cmp(&text(b).is_none())
            .then(text(a).cmp(&text(b))),
    };
    by_value.then(text_of(a, "ledger_id").cmp(&text_of(b, "ledger_id")))
}

fn text_of(row: &Value, name: &str) -> String {
    row[name].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn every_sort_has_its_order_both_ways_over_all_pages() {
    let app = TestApp::spawn().await;
    thirty(&app).await;
    let all = rows(&list(&app, None, "tenant_id=umbra&limit=100").await);
    for by in [
        "tenant_id",
        "scope",
        "unit",
        "status",
        "commit_overage_policy",
        "utilization",
        "debt",
    ] {
        for direction in ["asc", "desc", "DESC"] {
            let mut expected = all.clone();
            expected.sort_by(|a, b| ordered(by, a, b));
            if direction != "asc" {
                expected.reverse();
            }
            for limit in [1, 7, 30] {
                let query =
                    format!("tenant_id=umbra&sort_by={by}&sort_dir={direction}&limit={limit}");
                assert_eq!(
                    ids(&walked(&app, None, &query).await),
                    ids(&expected),
                    "{query}"
                );
            }
        }
    }
    let mut default = all.clone();
    default.sort_by(|a, b| ordered("utilization", b, a));
    assert_eq!(ids(&all), ids(&default), "the most utilized come first");
}

#[tokio::test]
async fn a_cursor_is_bound_to_its_filters_order_and_tenant() {
    let app = TestApp::spawn().await;
    thirty(&app).await;
    let invalid = (400, "INVALID_REQUEST");
    for (sort, others) in [
        (
            "sort_by=scope&",
            ["sort_by=debt&", "sort_by=scope&sort_dir=asc&"],
        ),
        ("", ["sort_by=scope&", "sort_dir=asc&"]),
    ] {
        let first = list(&app, None, &format!("{sort}tenant_id=umbra&limit=2")).await;
        let cursor = first.text("/next_cursor").to_owned();
        let again = list(
            &app,
            None,
            &format!("tenant_id=umbra&limit=28&cursor={cursor}"),
        )
        .await;
        assert_eq!(rows(&again).len(), 28, "the cursor has the order");
        assert_eq!(again.at("/has_more"), &json!(false));
        for other in others {
            let response = list(
                &app,
                None,
                &format!("{other}tenant_id=umbra&cursor={cursor}"),
            )
            .await;
            assert_eq!(response.error(), invalid, "{other}");
        }
        for filter in [
            "tenant_id=acme",
            "tenant_id=umbra&unit=TOKENS",
            "tenant_id=umbra&search=x",
        ] {
            let response = list(&app, None, &format!("{sort}{filter}&cursor={cursor}")).await;
            assert_eq!(response.error(), invalid, "{filter}");
        }
        let own = list(&app, Some(&app.keys[0]), &format!("cursor={cursor}")).await;
        assert_eq!(own.error(), invalid);
    }
    assert_eq!(
        list(&app, None, "tenant_id=umbra&cursor=x").await.error(),
        invalid
    );
}

#[tokio::test]
async fn wrong_parameters_are_named() {
    let app = TestApp::spawn().await;
    for (query, part) in [
        (
            "unit=tokens",
            "'unit': tokens; allowed: USD_MICROCENTS, TOKENS, CREDITS, RISK_POINTS",
        ),
        (
            "status=active",
            "'status': active; allowed: ACTIVE, FROZEN, CLOSED",
        ),
        ("over_limit=1", "'over_limit': 1; allowed: true, false"),
        ("has_debt=yes", "'has_debt': yes; allowed: true, false"),
        (
            "utilization_min=-0.1",
            "'utilization_min': -0.1; it must be a number from 0 to 1",
        ),
        (
            "utilization_max=1.1",
            "'utilization_max': 1.1; it must be a number from 0 to 1",
        ),
        ("utilization_max=nan", "'utilization_max': nan"),
        (
            "sort_by=spent",
            "'sort_by': spent; allowed: tenant_id, scope, unit",
        ),
        ("sort_dir=up", "'sort_dir': up; allowed: asc, desc"),
    ] {
        let response = list(&app, None, &format!("tenant_id=acme&{query}")).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{query}");
        assert!(
            response.text("/message").contains(part),
            "{query}: {response:?}"
        );
    }
    let long = "s".repeat(129);
    list(&app, None, &format!("tenant_id=acme&search={long}"))
        .await
        .expect(400);
    for query in ["observe_mode=x", "unknown=1", "cursor=", "sort_dir=%20"] {
        assert_eq!(
            list(&app, None, &format!("tenant_id=acme&{query}"))
                .await
                .status,
            200,
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_damaged_index_fails_the_list_of_its_tenant_and_leaves_it_out_of_that_of_all() {
    let app = TestApp::spawn_on(&shared().url(), &["--allow-cross-tenant-list"]).await;
    for id in ["umbra", "volt"] {
        tenant(&app, id).await;
        budget(&app, id, &format!("tenant:{id}"), "TOKENS", 5).await;
    }
    let index = app
        .store
        .keys()
        .budgets(tenant_id("umbra").partition(), "umbra");
    app.run::<()>(&["SET", &index, "?"]).await;
    for sort in ["scope", "utilization"] {
        let own = list(&app, None, &format!("tenant_id=umbra&sort_by={sort}")).await;
        assert_eq!(own.error(), (500, "INTERNAL_ERROR"), "{sort}");
        let all = list(&app, None, &format!("sort_by={sort}")).await;
        assert_eq!(rows(&all).len(), 1, "{sort}");
    }
}

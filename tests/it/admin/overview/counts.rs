//! The overview: its counts match the records.

use std::collections::BTreeMap;

use budget_authority::admin::{BudgetFilter, BudgetQuery, BudgetSort};
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, TENANTS, umbra_on};
use crate::admin::webhooks::subscriptions::{HOOKS, URL, hook};
use crate::harness::admin_fixture::{AdminFixture, admin_key, tenant_id};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::event_log::{EventLog, follow};
use crate::harness::receiver::public_names;
use crate::harness::redis::{RedisCluster, shared};
use crate::harness::{eventually, patient, store_with};

const OVERVIEW: &str = "/v1/admin/overview";

/// The overview, computed by a replica without a cached one.
async fn get_overview(app: &TestApp) -> Value {
    let response = app
        .replica(&[])
        .await
        .get_as_admin(OVERVIEW)
        .await
        .expect(200);
    response.body
}

/// A hash of the deployment.
type Stored = BTreeMap<String, String>;

/// Every record of a kind, by key.
async fn records(app: &TestApp, kind: &str) -> Vec<Stored> {
    let store = &app.store;
    let pattern = format!("{}:{{???}}:{kind}:*", store.keys().prefix());
    let mut keys = Vec::new();
    let scanned = store.scan(&pattern, None, |key| keys.push(key.to_owned()));
    scanned.await.expect("Redis answers");
    let mut found = Vec::new();
    for key in keys {
        found.push(app.run(&["HGETALL", &key]).await);
    }
    found
}

fn count(records: &[Stored], field: &str, value: &str) -> usize {
    let has = |record: &&Stored| record.get(field).is_some_and(|found| found == value);
    records.iter().filter(has).count()
}

fn number(record: &Stored, field: &str) -> i64 {
    record[field].parse().expect("an integer")
}

/// The counts of the overview, computed from the records.
async fn recounted(app: &TestApp) -> Value {
    let (tenants, budgets, webhooks) = (
        records(app, "tenant").await,
        records(app, "budget").await,
        records(app, "webhook").await,
    );
    let mut by_unit = BTreeMap::<&str, usize>::new();
    for budget in &budgets {
        *by_unit.entry(&budget["unit"]).or_default() += 1;
    }
    let worst = |mut rows: Vec<&Stored>, figures: &[&str]| {
        rows.sort_by_key(|row| (-number(row, "debt"), row["scope"].clone()));
        rows.truncate(10);
        let row = |row: &&Stored| {
            let mut object = json!({"scope": row["scope"], "unit": row["unit"]});
            for name in figures {
                object[*name] = json!(number(row, name));
            }
            object
        };
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let over: Vec<_> = budgets
        .iter()
        .filter(|b| b["is_over_limit"] == "1")
        .collect();
    let owing: Vec<_> = budgets.iter().filter(|b| number(b, "debt") > 0).collect();
    json!({
        "tenant_counts": {
            "total": tenants.len(),
            "active": count(&tenants, "status", "ACTIVE"),
            "suspended": count(&tenants, "status", "SUSPENDED"),
            "closed": count(&tenants, "status", "CLOSED"),
        },
        "budget_counts": {
            "total": budgets.len(),
            "active": count(&budgets, "status", "ACTIVE"),
            "frozen": count(&budgets, "status", "FROZEN"),
            "closed": count(&budgets, "status", "CLOSED"),
            "over_limit": over.len(),
            "with_debt": owing.len(),
            "by_unit": by_unit,
        },
        "over_limit_scopes": worst(over, &["allocated", "remaining", "debt"]),
        "debt_scopes": worst(owing, &["debt", "overdraft_limit"]),
        "webhook_counts": {
            "total": webhooks.len(),
            "active": count(&webhooks, "status", "ACTIVE"),
            "disabled": count(&webhooks, "status", "DISABLED"),
            "with_failures": webhooks.iter().filter(|w| number(w, "consecutive_failures") > 0).count(),
        },
    })
}

pub(crate) async fn check(app: &TestApp, what: &str) -> Value {
    let overview = get_overview(app).await;
    let counted = recounted(app).await;
    for (member, expected) in counted.as_object().expect("an object") {
        assert_eq!(&overview[member], expected, "{member} {what}");
    }
    overview
}

#[tokio::test]
async fn the_ten_highest_debts_come_first() {
    let app = umbra_on(TestApp::spawn().await).await;
    let (_, key) = crate::admin::http::key(&app, &["reservations:commit"]).await;
    for number in 0..12 {
        let scope = format!("tenant:umbra/agent:x{number}");
        let body = json!({"tenant_id": "umbra", "scope": scope, "unit": "CREDITS",
            "allocated": {"unit": "CREDITS", "amount": 1}, "overdraft_limit": {"unit": "CREDITS", "amount": 100}});
        app.post_as_admin(BUDGETS, body).await.expect(201);
        let body = json!({"idempotency_key": format!("k{number}"), "subject": {"tenant": "umbra", "agent": format!("x{number}")},
            "action": {"kind": "llm", "name": "m"}, "actual": {"unit": "CREDITS", "amount": 2 + number},
            "overage_policy": "ALLOW_WITH_OVERDRAFT"});
        app.post_with(&key, "/v1/events", &body).await.expect(201);
    }
    // Six go beyond their limit by its reduction.
    for number in 0..6 {
        let path = format!("{BUDGETS}?scope=tenant:umbra/agent:x{number}&unit=CREDITS");
        let body = json!({"overdraft_limit": {"unit": "CREDITS", "amount": 0}});
        app.as_admin(Method::PATCH, &path, &body).await.expect(200);
    }
    let overview = check(&app, "of twelve").await;
    let debts: Vec<_> = overview["debt_scopes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["debt"].as_i64().unwrap())
        .collect();
    assert_eq!(debts, [12, 11, 10, 9, 8, 7, 6, 5, 4, 3]);
    assert_eq!(overview["budget_counts"]["with_debt"], 12);
    assert_eq!(overview["budget_counts"]["over_limit"], 6);
    assert_eq!(
        overview["over_limit_scopes"][0],
        json!({"scope": "tenant:umbra/agent:x5", "unit": "CREDITS",
        "allocated": 1, "remaining": -6, "debt": 6})
    );
}

#[tokio::test]
async fn failing_webhooks_are_listed_until_they_are_resumed() {
    let app = umbra_on(TestApp::spawn_reaching(public_names(), &[]).await).await;
    let mut ids = Vec::new();
    let store = app.store.clone();
    let failing = store.keys().failing(tenant_id("umbra").partition());
    for number in 1..=12 {
        let id = crate::admin::webhooks::subscriptions::made(&app, hook(URL)).await;
        // As a delivery leaves it.
        let partition = tenant_id("umbra").partition();
        let record = store.keys().webhook(partition, &id);
        let failures = number.to_string();
        app.run::<()>(&[
            "HSET",
            &record,
            "consecutive_failures",
            &failures,
            "last_failure_at_ms",
            "1700000000000",
        ])
        .await;
        app.run::<()>(&["ZADD", &failing, &failures, &id]).await;
        ids.push(id);
    }
    let overview = check(&app, "while they fail").await;
    let rows = overview["failing_webhooks"].as_array().expect("rows");
    let failures: Vec<_> = rows
        .iter()
        .map(|row| row["consecutive_failures"].as_i64().unwrap())
        .collect();
    assert_eq!(failures, [12, 11, 10, 9, 8, 7, 6, 5, 4, 3]);
    assert_eq!(
        rows[0],
        json!({"subscription_id": ids[11], "url": URL, "consecutive_failures": 12,
        "last_failure_at": "2023-11-14T22:13:20.000Z"})
    );
    for id in &ids[..6] {
        let body = json!({"status": "ACTIVE"});
        app.as_admin(Method::PATCH, &format!("{HOOKS}/{id}"), &body)
            .await
            .expect(200);
    }
    app.as_admin(Method::DELETE, &format!("{HOOKS}/{}", ids[11]), &json!({}))
        .await;
    let overview = check(&app, "after the change").await;
    assert_eq!(
        overview["webhook_counts"],
        json!({"total": 11, "active": 11, "disabled": 0, "with_failures": 5})
    );
    assert_eq!(overview["failing_webhooks"][0]["consecutive_failures"], 11);
}

#[tokio::test]
async fn events_of_the_last_hour_are_counted_and_denials_by_reason() {
    let app = umbra_on(TestApp::spawn().await).await;
    let mut event_log = EventLog::on(&app.store);
    let now = event_log.now_ms().await;
    let denied = |reason: &'static str| {
        vec![
            ("type", "reservation.denied"),
            ("scope", "tenant:zinc"),
            ("data.reason_code", reason),
            ("data.unit", "TOKENS"),
            ("data.requested_amount", "5"),
            ("data.action_kind", "llm"),
            ("data.action_name", "m"),
        ]
    };
    // Too old, then twelve that count, one of which stands for many.
    event_log
        .emit("zinc", now - 3_661_000, &denied("DEBT_OUTSTANDING"))
        .await;
    for back in (0..11).rev() {
        event_log
            .emit(
                "zinc",
                now - back * 60_000 - 1_000,
                &denied("BUDGET_EXCEEDED"),
            )
            .await;
    }
    let mut sum = denied("BUDGET_FROZEN");
    sum.push(("metadata.count", "700"));
    event_log.emit("iron", now, &sum).await;
    follow(&app.store).await;
    let overview = get_overview(&app).await;
    assert_eq!(overview["event_window_seconds"], 3600);
    assert_eq!(
        overview["event_counts"]["by_category"],
        json!({"budget": 1, "reservation": 12, "tenant": 1})
    );
    assert_eq!(overview["event_counts"]["total_recent"], 14);
    assert_eq!(
        overview["recent_denials_by_reason"],
        json!({"BUDGET_EXCEEDED": 11, "BUDGET_FROZEN": 700})
    );
    let rows = overview["recent_denials"].as_array().expect("rows");
    assert_eq!(rows.len(), 10);
    assert_eq!(rows[0]["tenant_id"], "iron");
    assert_eq!(rows[0]["metadata"], json!({"count": 700}));
    let times: Vec<_> = rows
        .iter()
        .map(|row| row["timestamp"].as_str().unwrap())
        .collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    assert_eq!(overview["recent_expiries"], json!([]));
    // After the outbox is followed again from the former cursor, nothing counts twice.
    follow(&app.store).await;
    assert_eq!(
        get_overview(&app).await["recent_denials_by_reason"],
        overview["recent_denials_by_reason"]
    );
}

#[tokio::test]
async fn the_overview_needs_the_admin_key_and_is_cached_for_a_moment() {
    let app = umbra_on(TestApp::spawn().await).await;
    let key = app.add_key(0, &[("permissions", " admin:read ")]).await;
    app.by_key(&key, Method::GET, OVERVIEW, &Value::Null)
        .await
        .refused(401, "UNAUTHORIZED");
    let mut first = app.get_as_admin(OVERVIEW).await;
    assert_eq!(
        first.at("/tenant_counts"),
        &json!({"total": 3, "active": 3, "suspended": 0, "closed": 0})
    );
    assert!(
        first.at("/recent_denials_by_reason").is_null(),
        "left out when empty"
    );
    let mut made = 0;
    // On a busy machine the moment may be over before the next request: then the next overview shows it.
    loop {
        made += 1;
        let tenant = json!({"tenant_id": format!("zinc-{made}"), "name": "Zinc"});
        app.post_as_admin(TENANTS, tenant).await.expect(201);
        let second = app.get_as_admin(OVERVIEW).await;
        // Its `as_of` is the time of the overview.
        if second.body == first.body {
            break;
        }
        assert!(made < 10, "never cached: {second:?}");
        first = second;
    }
    eventually("the tenants are counted anew", || async {
        let overview = app.get_as_admin(OVERVIEW).await;
        let total = overview.at("/tenant_counts/total");
        (total == &json!(3 + made))
            .then_some(())
            .ok_or(total.clone())
    })
    .await;
    let ignored = app
        .request(Method::GET, &format!("{OVERVIEW}?x=1"))
        .header("X-Admin-API-Key", ADMIN_KEY);
    app.send(ignored).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_of_a_cluster_covers_all_nodes() {
    let cluster = RedisCluster::start();
    let fixture = AdminFixture::on(store_with(patient(&cluster.url())));
    for number in 0..9 {
        let tenant = format!("tenant{number}");
        fixture.tenant(&tenant).await;
        for scope in [
            format!("tenant:{tenant}"),
            format!("tenant:{tenant}/agent:x"),
        ] {
            fixture.budget(&tenant, &scope, 10).await;
        }
    }
    let overview = fixture.admin.overview_now().await.expect("an overview");
    assert_eq!(overview.tenant_counts.active, 9);
    assert_eq!(
        (
            overview.budget_counts.active,
            overview.budget_counts.by_unit["TOKENS"]
        ),
        (18, 18)
    );
    let admin = fixture.admin.clone().cross_tenant_list(true);
    for sort in [BudgetSort::Scope, BudgetSort::Utilization] {
        let query = BudgetQuery::new(BudgetFilter::default(), sort, false, 20);
        let page = admin
            .list_budgets(&admin_key(), &query)
            .await
            .expect("a page");
        assert_eq!((page.rows.len(), page.next), (18, None));
    }
    follow(&fixture.store).await;
    let overview = fixture.admin.overview_now().await.expect("an overview");
    assert_eq!(
        (
            overview.event_counts.total_recent,
            overview.event_counts.by_category["budget"]
        ),
        (27, 18)
    );
}

#[tokio::test]
async fn missing_counts_of_an_earlier_release_never_become_negative() {
    let app = umbra_on(TestApp::spawn_on(&shared().url(), &[]).await).await;
    let counts = app.store.keys().counts(tenant_id("umbra").partition());
    app.run::<()>(&["DEL", &counts]).await;
    let path = format!("{BUDGETS}/freeze?scope=tenant:umbra&unit=TOKENS");
    app.post_as_admin(&path, json!({"reason": "r"}))
        .await
        .expect(200);
    let overview = get_overview(&app).await;
    assert_eq!(overview["budget_counts"]["active"], 0);
    assert_eq!(overview["budget_counts"]["frozen"], 1);
}

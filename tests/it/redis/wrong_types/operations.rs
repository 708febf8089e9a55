//! Operations beside those of the examples: what spends, denies, expires, ends, and what a dispatcher does later.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, KEYS, TENANTS};
use crate::admin::webhooks::subscriptions::HOOKS;
use crate::console::reader::Reader;
use crate::dispatcher::retention::{retention, run};
use crate::evidence::fixture::{EvidenceFixture, ON, signer};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::bulk_calls;
use crate::harness::past_day::{End, PastDay};
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::response::Response;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::{ask_body, tokens, with};
use crate::harness::store;

const ROOT: &str = "tenant:acme";
const POLICIES: &str = "/v1/admin/policies";
const LEDGER: &str = "scope=tenant:acme&unit=TOKENS";

/// An admin request under an idempotency key of its own.
async fn change(app: &TestApp, method: Method, path: &str, body: Value) -> Response {
    let request = app
        .request(method, path)
        .header("X-Admin-API-Key", ADMIN_KEY);
    let key = format!("{:016x}", rand::random::<u64>());
    let request = request.header("X-Idempotency-Key", key);
    let response = app.send(request.json(&body)).await;
    assert!(response.is_success(), "{path}: {response:?}");
    response
}

/// Reservations and usage events that emit events, lack funds, and leave a debt.
pub async fn spend(app: &TestApp) {
    Reader::with_key(app, ADMIN_KEY).await;
    let budget =
        json!({"tenant_id": "acme", "scope": ROOT, "unit": "TOKENS", "allocated": tokens(1_000)});
    change(app, Method::POST, BUDGETS, budget).await;
    let policy = json!({"tenant_id": "acme", "name": "p", "scope_pattern": ROOT,
        "rate_limits": {"max_reservations_per_minute": 90, "max_commits_per_minute": 90}});
    let policy = change(app, Method::POST, POLICIES, policy).await;
    let id = app.held(ROOT, 900, json!({})).await;
    // So long ago that a fall below a threshold is announced.
    app.announced_at(ROOT, 1_000).await;
    app.release(&id, "r").await.expect(200);
    app.decide("allowed", ROOT, 5).await.expect(200);
    let large = json!({"metadata": {"note": "x".repeat(2_000)}});
    let id = app.create("again", ROOT, 900, large.clone()).await;
    let id = id.text("/reservation_id").to_owned();
    app.reserve("denied", 200).await.expect(409);
    app.dry_run("dry", ROOT, 50).await.expect(200);
    app.decide("d", ROOT, 200).await.expect(200);
    app.extend(&id, "x", 1_000).await.expect(200);
    app.commit(&id, "c", 950).await.expect(200);
    app.commit(&id, "c", 950).await.expect(200);
    let graceless = json!({"grace_period_ms": 0});
    let id = app.create("g", ROOT, 40, graceless.clone()).await;
    let id = id.text("/reservation_id").to_owned();
    app.extend(&id, "x", 1_000).await.expect(200);
    app.admin_release(&id, "r").await.expect(200);
    let id = app.create("i", ROOT, 1, graceless.clone()).await;
    app.commit(id.text("/reservation_id"), "c", 1)
        .await
        .expect(200);
    let id = app.create("h", ROOT, 49, graceless).await;
    let id = id.text("/reservation_id").to_owned();
    app.release(&id, "r").await.expect(200);
    let path = format!("{BUDGETS}?{LEDGER}");
    change(
        app,
        Method::PATCH,
        &path,
        json!({"overdraft_limit": tokens(200)}),
    )
    .await;
    let overdraft = with(large, json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"}));
    let id = app.create("o", ROOT, 10, overdraft.clone()).await;
    let id = id.text("/reservation_id").to_owned();
    app.commit(&id, "c", 80).await.expect(200);
    app.post_event("e", ROOT, 50, overdraft).await.expect(201);
    change(
        app,
        Method::PATCH,
        &path,
        json!({"overdraft_limit": tokens(10)}),
    )
    .await;
    let path = format!("{BUDGETS}/fund?{LEDGER}&tenant_id=acme");
    change(
        app,
        Method::POST,
        &path,
        json!({"operation": "REPAY_DEBT", "amount": tokens(81)}),
    )
    .await;
    change(
        app,
        Method::POST,
        &path,
        json!({"operation": "CREDIT", "amount": tokens(9_000)}),
    )
    .await;
    let id = app.create("next minute", ROOT, 10, json!({})).await;
    let rates = app.store.keys().rates(app.callers[0].partition, "acme");
    app.run::<()>(&["HSET", &rates, "minute_ms", "0"]).await;
    app.commit(id.text("/reservation_id"), "c", 1)
        .await
        .expect(200);
    let id = app.create("late", ROOT, 10, json!({})).await;
    app.backdate(id.text("/reservation_id"), 60_000).await;
    assert_eq!(app.sweep().await, 1);
    let path = format!("{POLICIES}/{}", policy.text("/policy_id"));
    change(app, Method::PATCH, &path, json!({"name": "q"})).await;
    app.reserve("changed", 5).await.expect(200);
    app.get("/v1/reservations?tenant=acme&include=metadata&sort_by=status")
        .await
        .expect(200);
    app.post("/v1/decide", json!({"subject": {}}))
        .await
        .expect(400);
}

/// Subscriptions of a tenant and of the operator that watch, pause, and end.
pub async fn watch(app: &TestApp) -> Receiver {
    let receiver = Receiver::start(Reply::Status(503, "")).await;
    let hook = json!({"url": receiver.url("/in"), 
        "event_types": ["budget.funded", "budget.threshold_crossed", "budget.burn_rate_anomaly"],
        "thresholds": {"budget_utilization": [0.5], "burn_rate_window_seconds": 60}, "disable_after_failures": 1});
    for owner in ["?tenant_id=acme", "?tenant_id=umbra", ""] {
        let made = change(app, Method::POST, &format!("{HOOKS}{owner}"), hook.clone()).await;
        let path = format!("{HOOKS}/{}", made.text("/subscription/subscription_id"));
        for status in ["PAUSED", "ACTIVE"] {
            change(app, Method::PATCH, &path, json!({"status": status})).await;
        }
        let made = change(app, Method::POST, &format!("{HOOKS}{owner}"), hook.clone()).await;
        let path = format!("{HOOKS}/{}", made.text("/subscription/subscription_id"));
        change(app, Method::DELETE, &path, Value::Null).await;
    }
    receiver
}

/// API keys, and the end of a tenant that has one of everything.
pub async fn end(app: &TestApp) {
    let until = json!({"tenant_id": "umbra", "name": "ci", "expires_at": "2099-01-01T00:00:00Z"});
    let made = change(app, Method::POST, KEYS, until).await;
    let path = format!("{KEYS}/{}", made.text("/key_id"));
    change(app, Method::PATCH, &path, json!({"name": "cd"})).await;
    change(app, Method::DELETE, &path, Value::Null).await;
    let path = format!("{BUDGETS}/freeze?scope=tenant:umbra&unit=TOKENS");
    change(app, Method::POST, &path, json!({})).await;
    let path = path.replace("freeze", "unfreeze");
    change(app, Method::POST, &path, json!({})).await;
    let spender = json!({"tenant_id": "umbra", "name": "spender"});
    let made = change(app, Method::POST, KEYS, spender).await;
    let body = ask_body("k", "tenant:umbra", 10);
    let held = app
        .post_with(made.text("/key_secret"), "/v1/reservations", &body)
        .await;
    held.expect(200);
    for tenant in ["bulk", "sol"] {
        change(
            app,
            Method::POST,
            TENANTS,
            json!({"tenant_id": tenant, "name": tenant}),
        )
        .await;
    }
    change(
        app,
        Method::PATCH,
        &format!("{TENANTS}/sol"),
        json!({"status": "SUSPENDED"}),
    )
    .await;
    change(
        app,
        Method::PATCH,
        &format!("{TENANTS}/umbra"),
        json!({"status": "CLOSED"}),
    )
    .await;
    let tenants = |action: &str| json!({"filter": {"search": "bulk"}, "action": action, "idempotency_key": action});
    for action in ["SUSPEND", "CLOSE"] {
        app.post_as_admin(bulk_calls::TENANTS, tenants(action))
            .await
            .expect(200);
    }
    let hooks = json!({"filter": {"tenant_id": "acme"}, "action": "PAUSE", "idempotency_key": "p"});
    app.post_as_admin(bulk_calls::WEBHOOKS, hooks)
        .await
        .expect(200);
    let fund = bulk_calls::fund("acme", "REPAY_DEBT", 5, "b");
    app.post_as_admin(bulk_calls::BUDGETS, fund)
        .await
        .expect(200);
}

/// Makes due what a dispatcher does later: rollups of a past minute, an expired API key, judgements of rates, and the adoption of
/// a subscription that an earlier release made.
pub async fn come_due(app: &TestApp) {
    let (keys, caller) = (app.store.keys(), &app.callers[0]);
    let (partition, key_id) = (caller.partition, caller.key_id.as_str());
    let key = keys.api_key(partition, key_id);
    let denials = keys.denials(partition, "acme");
    let failures = keys.audit_failures(partition, "acme");
    let own = format!("acme:{key_id}");
    let refused = keys.auth_failures(partition, &own);
    let hooks = keys.webhooks(partition, "acme");
    let ids: Vec<String> = app.run(&["ZRANGE", &hooks, "0", "0"]).await;
    app.run::<i64>(&["HDEL", &keys.webhook(partition, &ids[0]), "since"])
        .await;
    let past = ["minute_ms", "60000", "count", "9"];
    for (key, fields) in [
        (&key, &["expires_at_ms", "1"][..]),
        (
            &denials,
            &["suppressed", "2", "scope", ROOT, "context", "request_id r"],
        ),
        (&failures, &["suppressed", "2", "operation", "x"]),
        (
            &refused,
            &["context", "request_id r", "reason", "key_revoked"],
        ),
    ] {
        let past = if fields[0] == "expires_at_ms" {
            &past[..0]
        } else {
            &past
        };
        app.run::<i64>(&[&["HSET", key], past, fields].concat())
            .await;
    }
    let charged = format!("acme TOKENS {ROOT}");
    for (index, member) in [
        (keys.denials_due(partition), "acme"),
        (keys.audit_failures_due(partition), "acme"),
        (keys.auth_failures_due(partition), &own),
        (keys.expiring(partition), &own),
        (keys.traffic_due(partition), "acme"),
        (keys.burning(partition), &charged),
    ] {
        app.run::<i64>(&["ZADD", &index, "1", member]).await;
    }
}

/// Records that retention deletes, and their day.
pub async fn forget(url: &str) {
    let mut past = PastDay::new(&store(url), 40).await;
    let long_ago = past.day.start_ms() + 3_600_000;
    for end in [
        End::Committed {
            charged: 5,
            debt: 0,
        },
        End::Released,
    ] {
        past.record(end, long_ago).await;
    }
    let (store, partition) = (&past.tenant.store, past.lease.partition);
    let (keys, now) = (store.keys(), past.now_ms.to_string());
    let entry = keys.idempotency(partition, "acme", "x");
    past.tenant.run::<i64>(&["HSET", &entry, "hash", "x"]).await;
    let due = ["ZADD", &keys.idempotency_due(partition), &now, &entry];
    past.tenant.run::<i64>(&due).await;
    let pass = run(&retention(store), past.lease).await;
    assert_eq!((pass.reservations, pass.idempotency), (2, 1));
}

/// Decisions of which evidence is signed.
pub async fn attest(url: &str) {
    let app = TestApp::spawn_on(url, &[ON, LONG_REDIS_TIMEOUT].concat()).await;
    app.budget(ROOT, 1_000, 0).await;
    let id = app.held(ROOT, 10, json!({})).await;
    app.commit(&id, "c", 5).await.expect(200);
    let id = app.create("r", ROOT, 10, json!({})).await;
    app.release(id.text("/reservation_id"), "r")
        .await
        .expect(200);
    for end in ["commit", "release"] {
        let id = app
            .create(end, ROOT, 10, json!({"grace_period_ms": 0}))
            .await;
        let id = id.text("/reservation_id");
        match end {
            "commit" => app.commit(id, "c", 5).await.expect(200),
            _ => app.release(id, "r").await.expect(200),
        };
    }
    app.decide("d", ROOT, 10).await.expect(200);
    app.post_event("e", ROOT, 10, json!({})).await.expect(201);
    for number in 0..2 {
        app.reserve(&format!("denied{number}"), 5_000)
            .await
            .expect(409);
        app.decide(&format!("denied{number}"), ROOT, 5_000)
            .await
            .expect(200);
    }
    let mut issued = EvidenceFixture {
        signer: signer(&app, ON),
        settings: ON.to_vec(),
        app,
    };
    issued.sign().await;
}

//! Templates: a scope that a policy's template is for and that has no budget is judged by it, and gets its budget when something is held or
//! charged there, once.

use budget_authority::tools::verify::verify;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::task::block_in_place;

use super::round_trips::Monitor;
use crate::harness::admin_calls::POLICIES;
use crate::harness::app::TestApp;
use crate::harness::redis::RedisServer;
use crate::harness::response::Response;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::{Event, ask_body, tokens, with};

pub(super) const ROOT: &str = "tenant:acme";
pub(super) const AGENTS: &str = "tenant:acme/agent:*";
const BOT: &str = "tenant:acme/agent:bot";

pub(super) async fn template(app: &TestApp, pattern: &str, template: Value, more: Value) -> String {
    let template = with(json!({"unit": "TOKENS"}), template);
    let policy = json!({
        "tenant_id": "acme", "name": format!("{:x}", rand::random::<u64>()), "scope_pattern": pattern,
        "budget_templates": [template],
    });
    let made = app.post_as_admin(POLICIES, with(policy, more)).await;
    made.expect(201).text("/policy_id").to_owned()
}

async fn lookup(app: &TestApp, scope: &str) -> Response {
    app.get_as_admin(&format!(
        "/v1/admin/budgets/lookup?scope={scope}&unit=TOKENS"
    ))
    .await
}

async fn created(app: &TestApp) -> Vec<Event> {
    let mut events = app.events().await;
    events.retain(|event| event.get("type") == "budget.created");
    events
}

pub(super) async fn is_right(app: &TestApp) {
    let report = verify(&app.store, None, |_| {})
        .await
        .expect("Redis answers");
    assert!(report.is_right(), "{}", report.table(true));
}

#[tokio::test]
async fn an_agent_that_nobody_has_seen_gets_its_budget() {
    for app in TestApp::spawn_both().await {
        app.budget(ROOT, 1_000, 0).await;
        let terms = json!({
            "allocated": tokens(100), "overdraft_limit": tokens(5), "commit_overage_policy": "REJECT",
            "rollover_policy": "CARRY_FORWARD", "period": {"every": "P1D", "time_zone": "Europe/Berlin"},
            "limits": [{"every": "PT1H", "amount": tokens(60)}, {"every": "P1W", "time_zone": "Europe/Berlin", "amount": tokens(90)}],
        });
        let policy_id = template(&app, AGENTS, terms, json!({})).await;
        let held = app.create("k", BOT, 40, json!({})).await.expect(200);
        assert_eq!(held.at("/balances/1/remaining"), &tokens(60));
        assert_eq!(app.figures(ROOT).await, (960, 40, 0, 0));
        let budget = lookup(&app, BOT).await.expect(200);
        for (member, value) in [
            ("/allocated", tokens(100)),
            ("/remaining", tokens(60)),
            ("/overdraft_limit", tokens(5)),
            ("/commit_overage_policy", json!("REJECT")),
            ("/rollover_policy", json!("CARRY_FORWARD")),
            ("/period/every", json!("P1D")),
            ("/period/allocated", tokens(100)),
            ("/limits/0/amount", tokens(60)),
            ("/limits/1/every", json!("P1W")),
        ] {
            assert_eq!(budget.at(member), &value, "{member}");
        }
        let events = created(&app).await;
        let event = events.last().expect("an event");
        assert_eq!(
            event.line(&["data.policy_id", "actor"]),
            format!("budget.created {BOT} {policy_id} system")
        );
        assert_eq!(
            event.get("request_id"),
            held.header("x-request-id").expect("an id")
        );
        let audit = app
            .get_as_admin("/v1/admin/audit/logs?tenant_id=acme&operation=createBudget")
            .await;
        let audit = audit.expect(200);
        let entry = audit.at("/logs/0");
        assert_eq!(entry["metadata"]["policy_id"], policy_id.as_str());
        assert_eq!(entry["metadata"]["actor_type"], "system");
        assert_eq!(
            entry["request_id"],
            held.header("x-request-id").expect("an id")
        );
        // The same again, and another agent.
        app.create("k", BOT, 40, json!({})).await.expect(200);
        app.create("l", BOT, 21, json!({}))
            .await
            .refused(409, "BUDGET_EXCEEDED");
        app.create("m", "tenant:acme/agent:other", 60, json!({}))
            .await
            .expect(200);
        assert_eq!(created(&app).await.len(), 2);
        is_right(&app).await;
    }
}

#[tokio::test]
async fn what_would_not_be_held_creates_nothing() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let terms =
        json!({"allocated": tokens(100), "limits": [{"every": "PT1H", "amount": tokens(60)}]});
    template(&app, AGENTS, terms, json!({})).await;
    let short = app
        .create("a", BOT, 101, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
    assert_eq!(short.at("/details/scope"), BOT);
    assert_eq!(short.at("/details/remaining"), &json!(100));
    let full = app
        .create("b", BOT, 61, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
    assert_eq!(full.at("/details/limit/every"), "PT1H");
    for (key, amount, decision) in [("c", 61, "DENY"), ("d", 60, "ALLOW")] {
        let decided = app.decide(key, BOT, amount).await.expect(200);
        assert_eq!(decided.at("/decision"), decision);
        let tried = app
            .dry_run(&format!("dry-{key}"), BOT, amount)
            .await
            .expect(200);
        assert_eq!(tried.at("/decision"), decision);
        if decision == "ALLOW" {
            let balances = tried.at("/balances").as_array().expect("balances");
            assert_eq!(balances.len(), 1, "without the one that is not there");
        }
    }
    let overage = json!({"overage_policy": "REJECT"});
    app.post_event("e", BOT, 61, overage)
        .await
        .refused(409, "BUDGET_EXCEEDED");
    // What the root refuses, creates nothing either.
    app.set_ledger(ROOT, &[("status", "FROZEN")]).await;
    app.create("f", BOT, 1, json!({}))
        .await
        .refused(409, "BUDGET_FROZEN");
    lookup(&app, BOT).await.refused(404, "BUDGET_NOT_FOUND");
    assert!(created(&app).await.is_empty());
    app.set_ledger(ROOT, &[("status", "ACTIVE")]).await;
    is_right(&app).await;
}

#[tokio::test]
async fn a_usage_event_creates_and_follows_the_overage_policy_of_the_template() {
    let app = TestApp::spawn().await;
    let terms = json!({"allocated": tokens(100), "commit_overage_policy": "REJECT"});
    template(&app, AGENTS, terms, json!({})).await;
    let charged = app.post_event("a", BOT, 101, json!({})).await;
    charged.refused(409, "BUDGET_EXCEEDED");
    let charged = app.post_event("b", BOT, 90, json!({})).await.expect(201);
    assert_eq!(charged.at("/balances/0/spent"), &tokens(90));
    // Now the budget is asked, whose policy is the same.
    app.post_event("c", BOT, 11, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
    let overage = json!({"overage_policy": "ALLOW_IF_AVAILABLE"});
    let charged = app
        .post_event("d", "tenant:acme/agent:x", 101, overage)
        .await
        .expect(201);
    assert_eq!(charged.at("/charged"), &tokens(100));
    is_right(&app).await;
}

#[tokio::test]
async fn where_nobody_names_an_overage_policy_the_tenants_counts() {
    for root in [None, Some(1_000)] {
        let app = TestApp::spawn().await;
        if let Some(allocated) = root {
            app.budget(ROOT, allocated, 0).await;
        }
        let terms = json!({"allocated": tokens(100)});
        template(&app, AGENTS, terms, json!({})).await;
        let charged = app.post_event("a", BOT, 101, json!({})).await.expect(201);
        assert_eq!(charged.at("/charged"), &tokens(100));
        app.set_tenant(&[("default_commit_overage_policy", "REJECT")])
            .await;
        let other = "tenant:acme/agent:other";
        app.post_event("b", other, 101, json!({}))
            .await
            .refused(409, "BUDGET_EXCEEDED");
        lookup(&app, other).await.refused(404, "BUDGET_NOT_FOUND");
        app.post_event("c", other, 100, json!({})).await.expect(201);
        is_right(&app).await;
    }
}

#[tokio::test]
async fn many_clients_create_once() {
    let app = std::sync::Arc::new(TestApp::spawn().await);
    app.budget(ROOT, 1_000, 0).await;
    template(&app, AGENTS, json!({"allocated": tokens(50)}), json!({})).await;
    template(
        &app,
        "tenant:acme/agent:bot/toolset:web",
        json!({"allocated": tokens(40)}),
        json!({}),
    )
    .await;
    let scope = format!("{BOT}/toolset:web");
    let mut clients = JoinSet::new();
    for number in 0..64 {
        let (app, scope) = (app.clone(), scope.clone());
        clients.spawn(async move {
            let response = app
                .create(&format!("k{number}"), &scope, 1, json!({}))
                .await;
            response.status
        });
    }
    let ended = clients.join_all().await;
    let held = ended.iter().filter(|status| **status == 200).count();
    assert_eq!((held, ended.len()), (40, 64), "{ended:?}");
    assert_eq!(app.figures(&scope).await, (0, 40, 0, 0));
    assert_eq!(app.figures(BOT).await, (10, 40, 0, 0));
    assert_eq!(app.figures(ROOT).await, (960, 40, 0, 0));
    assert_eq!(created(&app).await.len(), 2);
    is_right(&app).await;
}

#[tokio::test]
async fn a_tenant_has_so_many_budgets_and_no_more() {
    let url = crate::harness::redis::shared().url();
    let app = TestApp::spawn_on(&url, &["--budgets-per-tenant", "2"]).await;
    for scope in [ROOT, BOT] {
        let new = json!({"tenant_id": "acme", "scope": scope, "unit": "TOKENS", "allocated": tokens(100)});
        app.post_as_admin("/v1/admin/budgets", new)
            .await
            .expect(201);
    }
    template(&app, AGENTS, json!({"allocated": tokens(50)}), json!({})).await;
    app.create("a", BOT, 1, json!({})).await.expect(200);
    let refused = app.create("b", "tenant:acme/agent:new", 1, json!({})).await;
    let refused = refused.refused(400, "LIMIT_EXCEEDED");
    assert_eq!(
        (refused.at("/details/limit"), refused.at("/details/present")),
        (&json!(2), &json!(3))
    );
    assert_eq!(app.figures(ROOT).await, (99, 1, 0, 0));
    // It is still judged.
    let decided = app
        .decide("c", "tenant:acme/agent:new", 51)
        .await
        .expect(200);
    assert_eq!(decided.at("/decision"), "DENY");
    is_right(&app).await;
}

#[tokio::test]
async fn templates_apply_to_what_their_pattern_matches_exactly_and_to_their_unit() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    template(&app, AGENTS, json!({"allocated": tokens(50)}), json!({})).await;
    // Deeper than the level, another level, another unit: as without a template.
    for scope in ["tenant:acme/app:a/agent:b", "tenant:acme/app:a"] {
        app.create(scope, scope, 60, json!({})).await.expect(200);
    }
    let credits = json!({"unit": "CREDITS", "amount": 1});
    let other = with(ask_body("u", BOT, 1), json!({"estimate": credits}));
    app.post("/v1/reservations", other)
        .await
        .refused(400, "UNIT_MISMATCH");
    assert!(created(&app).await.is_empty());
    // A scope below: the template of its parent applies.
    app.create("t", &format!("{BOT}/toolset:x"), 10, json!({}))
        .await
        .expect(200);
    assert_eq!(app.figures(BOT).await, (40, 10, 0, 0));
    // A unit that no budget counts, but a template.
    let terms = json!({"unit": "CREDITS", "allocated": {"unit": "CREDITS", "amount": 5}});
    template(&app, AGENTS, terms, json!({"priority": 9})).await;
    let other = with(ask_body("v", BOT, 1), json!({"estimate": credits}));
    app.post("/v1/reservations", other).await.expect(200);
}

#[tokio::test]
async fn of_several_templates_the_policy_of_the_highest_rank_counts_and_budgets_stay() {
    let app = TestApp::spawn().await;
    let low = template(
        &app,
        AGENTS,
        json!({"allocated": tokens(50)}),
        json!({"priority": 1}),
    )
    .await;
    let high = template(
        &app,
        BOT,
        json!({"allocated": tokens(70)}),
        json!({"priority": 2}),
    )
    .await;
    let path = format!("{POLICIES}/{high}");
    let off = json!({"status": "DISABLED"});
    app.create("a", BOT, 60, json!({})).await.expect(200);
    app.patch_as_admin(&path, &off).await.expect(200);
    app.create("b", "tenant:acme/agent:x", 50, json!({}))
        .await
        .expect(200);
    app.create("c", "tenant:acme/agent:y", 51, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
    let more = json!({"budget_templates": [{"unit": "TOKENS", "allocated": tokens(500)}]});
    app.patch_as_admin(&format!("{POLICIES}/{low}"), &more)
        .await
        .expect(200);
    app.create("d", "tenant:acme/agent:y", 51, json!({}))
        .await
        .expect(200);
    app.create("e", "tenant:acme/agent:x", 1, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
    assert_eq!(app.figures(BOT).await, (10, 60, 0, 0));
    for none in [json!([]), Value::Null] {
        app.patch_as_admin(&format!("{POLICIES}/{low}"), &more)
            .await
            .expect(200);
        let body = json!({"budget_templates": none});
        let changed = app
            .patch_as_admin(&format!("{POLICIES}/{low}"), &body)
            .await
            .expect(200);
        assert_eq!(changed.at("/budget_templates"), &Value::Null);
        app.create("f", "tenant:acme/agent:z", 1, json!({}))
            .await
            .refused(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn a_template_that_observes_reports_and_holds() {
    let app = TestApp::spawn().await;
    let terms = json!({"allocated": tokens(50), "enforcement": "OBSERVE"});
    template(&app, AGENTS, terms, json!({})).await;
    let held = app.create("a", BOT, 80, json!({})).await.expect(200);
    assert_eq!(held.at("/observed/0/scope"), BOT);
    assert_eq!(app.figures(BOT).await, (-30, 80, 0, 0));
    is_right(&app).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_reserve_of_an_agent_takes_three_round_trips_and_the_next_one() {
    let server = block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&server.url(), LONG_REDIS_TIMEOUT).await;
    app.budget(ROOT, 1_000, 0).await;
    let terms = json!({"allocated": tokens(100), "period": {"every": "P1M"}, "limits": [{"every": "P1D", "amount": tokens(60)}]});
    template(&app, AGENTS, terms, json!({})).await;
    // Twice: requests take turns on two connections, and each opens with its first.
    for key in ["a", "b"] {
        app.create(key, "tenant:acme/agent:warm", 1, json!({}))
            .await
            .expect(200);
    }
    let mut monitor = Monitor::on(&server);
    for (key, expected) in [("c", 3), ("d", 1)] {
        app.create(key, BOT, 1, json!({})).await.expect(200);
        let seen = block_in_place(|| monitor.seen());
        assert_eq!(seen.len(), expected, "{seen:?}");
    }
}

//! A tenant from its first day to its last.

use budget_authority::api::operations::OperationId as O;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::Recorder;
use crate::harness::app::TestApp;
use crate::harness::deliveries::{RunningDispatcher, reached};
use crate::harness::eventually;
use crate::harness::evidence_keys::{issuers, listed, settings, signed};
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::redis_fixture::now_ms;
use crate::harness::runtime_calls::tokens;

const TENANT: &str = "acme-inc";
const ROOT: &str = "tenant:acme-inc";
const APP: &str = "tenant:acme-inc/app:chat";
const UNIT: (&str, &str) = ("unit", "TOKENS");
const LEDGER: [(&str, &str); 2] = [("scope", APP), UNIT];

/// Every operation once, on a service of [`here`](crate::harness::deliveries::here); the examples.
pub async fn run(app: TestApp) -> Map<String, Value> {
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let mut story = Recorder::new(app);
    let dispatcher = RunningDispatcher::start(&story.app);
    begin(&mut story).await;
    spend(&mut story).await;
    govern(&mut story).await;
    let hooks = subscribe(&mut story, &receiver).await;
    look(&mut story).await;
    end(&mut story, &hooks).await;
    dispatcher.stop().await;
    attest(&mut story).await;
    story.examples
}

fn subject() -> Value {
    json!({"tenant": TENANT, "app": "chat", "agent": "writer"})
}

fn action() -> Value {
    json!({"kind": "llm.completion", "name": "any-model"})
}

async fn begin(story: &mut Recorder) {
    let tenant = json!({"tenant_id": TENANT, "name": "Acme Inc."});
    story.call(O::CreateTenant, &[], tenant).await;
    let root = json!({"tenant_id": TENANT, "scope": ROOT, "unit": "TOKENS", "allocated": tokens(1_000_000)});
    story.prepare(Method::POST, "/v1/admin/budgets", root).await;
    let agent = json!({
        "tenant_id": TENANT, "name": "writer", "scope_filter": [format!("{APP}/agent:writer")],
        "permissions": ["reservations:create", "reservations:commit", "reservations:release", "balances:read"],
    });
    story.call(O::CreateApiKey, &[], agent).await;
    let manager = json!({"tenant_id": TENANT, "name": "manager", "permissions": ["admin:write", "admin:read",
        "reservations:create", "reservations:commit", "reservations:release", "reservations:extend",
        "reservations:list", "balances:read", "events:read", "webhooks:read", "webhooks:write"]});
    let manager = story
        .prepare(Method::POST, "/v1/admin/api-keys", manager)
        .await;
    story.key = manager.text("/key_secret").to_owned();
    let budget = json!({"scope": APP, "unit": "TOKENS", "allocated": tokens(250_000)});
    story.call(O::CreateBudget, &[], budget).await;
    let policy = json!({
        "name": "chat agents", "scope_pattern": format!("{APP}/agent:*"), "caps": {"max_tokens": 4_000},
        "commit_overage_policy": "REJECT", "rate_limits": {"max_reservations_per_minute": 30},
        "budget_templates": [{"unit": "TOKENS", "allocated": tokens(50_000), "period": {"every": "P1D"}}],
    });
    let policy = story.call(O::CreatePolicy, &[], policy).await;
    let id = policy.text("/policy_id");
    story
        .call(
            O::UpdatePolicy,
            &[("policy_id", id)],
            json!({"priority": 10}),
        )
        .await;
    story.call(O::ListPolicies, &[], Value::Null).await;
}

async fn spend(story: &mut Recorder) {
    let ask = |key: &str| json!({"idempotency_key": key, "subject": subject(), "action": action(), "estimate": tokens(1_000)});
    story.call(O::Decide, &[], ask("step-1-decide")).await;
    let released = story.call(O::CreateReservation, &[], ask("step-0")).await;
    let path = [("reservation_id", released.text("/reservation_id"))];
    let release = json!({"idempotency_key": "step-0-release", "reason": "cancelled"});
    story.call(O::ReleaseReservation, &path, release).await;
    let mut create = ask("step-1");
    create["ttl_ms"] = json!(60_000);
    let held = story.call(O::CreateReservation, &[], create).await;
    let path = [("reservation_id", held.text("/reservation_id"))];
    let extend = json!({"idempotency_key": "step-1-extend", "extend_by_ms": 30_000});
    story.call(O::ExtendReservation, &path, extend).await;
    let commit = json!({
        "idempotency_key": "step-1-commit", "actual": tokens(400),
        "metrics": {"tokens_input": 300, "tokens_output": 100, "latency_ms": 850},
    });
    story.call(O::CommitReservation, &path, commit).await;
    let refund = json!({
        "idempotency_key": "step-1-refund", "amount": tokens(25), "reason": "cut off by the provider",
    });
    story
        .call(O::RefundReservation, &path, refund.clone())
        .await;
    story.call(O::GetReservation, &path, Value::Null).await;
    let list = [("status", "COMMITTED"), ("limit", "1")];
    story.call(O::ListReservations, &list, Value::Null).await;
    let charge = json!({
        "idempotency_key": "import-1", "subject": subject(), "action": action(), "actual": tokens(25),
    });
    let charged = story.call(O::CreateEvent, &[], charge).await;
    let path = [("event_id", charged.text("/event_id"))];
    story.call(O::RefundUsageEvent, &path, refund).await;
    story.call(O::GetUsageEvent, &path, Value::Null).await;
    story
        .call(O::ListUsageEvents, &[("limit", "1")], Value::Null)
        .await;
    story
        .call(O::GetBalances, &[("tenant", TENANT)], Value::Null)
        .await;
    let groups = [("group_by", "action_kind,action_name")];
    story.call(O::GetUsage, &groups, Value::Null).await;
    let groups = [("tenant_id", TENANT), ("group_by", "app,day")];
    story.call(O::GetTenantUsage, &groups, Value::Null).await;
}

async fn govern(story: &mut Recorder) {
    let credit = json!({
        "operation": "CREDIT", "amount": tokens(50_000), "reason": "top-up", "idempotency_key": "top-up-1",
    });
    story.call(O::FundBudget, &LEDGER, credit).await;
    let update = json!({
        "overdraft_limit": tokens(1_000), "period": {"every": "P1M", "time_zone": "Europe/Berlin"},
        "limits": [{"every": "PT1H", "amount": tokens(20_000)}],
    });
    story.call(O::UpdateBudget, &LEDGER, update).await;
    let increase = json!({
        "amount": tokens(100_000), "for": "P2D", "reason": "release weekend", "idempotency_key": "weekend-1",
    });
    let increase = story.call(O::CreateBudgetIncrease, &LEDGER, increase).await;
    story.call(O::LookupBudget, &LEDGER, Value::Null).await;
    let mut path = LEDGER.to_vec();
    path.push(("increase_id", increase.text("/increase_id")));
    story.call(O::EndBudgetIncrease, &path, Value::Null).await;
    story
        .call(O::ListBudgets, &[("limit", "1")], Value::Null)
        .await;
    let incident = json!({"reason": "incident"});
    story.call(O::FreezeBudget, &LEDGER, incident.clone()).await;
    story.call(O::UnfreezeBudget, &LEDGER, incident).await;
    let credit_all = json!({
        "filter": {"tenant_id": TENANT, "scope_prefix": APP}, "action": "CREDIT", "amount": tokens(1_000),
        "idempotency_key": "monthly-1",
    });
    story.call(O::BulkActionBudgets, &[], credit_all).await;
    story
        .call(O::ListTenants, &[("limit", "1")], Value::Null)
        .await;
    let tenant = [("tenant_id", TENANT)];
    story.call(O::GetTenant, &tenant, Value::Null).await;
    let update = json!({"default_commit_overage_policy": "REJECT"});
    story.call(O::UpdateTenant, &tenant, update).await;
    story
        .call(
            O::ListApiKeys,
            &[("tenant_id", TENANT), ("limit", "1")],
            Value::Null,
        )
        .await;
    story.call(O::IntrospectAuth, &[], Value::Null).await;
    let secret = json!({"key_secret": story.key});
    story.call(O::ValidateApiKey, &[], secret).await;
}

/// Makes a subscription of the operator for the tenant, and one of the tenant; their ids.
async fn subscribe(story: &mut Recorder, receiver: &Receiver) -> [String; 2] {
    let hook = json!({
        "name": "alerts", "url": receiver.url("/budget"), "event_types": ["budget.funded", "budget.exhausted"],
        "scope_filter": format!("{ROOT}/*"),
    });
    let of_tenant = [("tenant_id", TENANT)];
    let made = story
        .call(O::CreateWebhookSubscription, &of_tenant, hook.clone())
        .await;
    let own = story.call(O::CreateTenantWebhook, &[], hook).await;
    let ids = [&made, &own].map(|made| made.text("/subscription/subscription_id").to_owned());
    let [id, own] = ids.each_ref().map(|id| [("subscription_id", id.as_str())]);
    let credit = json!({"operation": "CREDIT", "amount": tokens(1)});
    let path = format!("/v1/admin/budgets/fund?scope={APP}&unit=TOKENS&tenant_id={TENANT}");
    story.prepare(Method::POST, &path, credit).await;
    for id in &ids {
        reached(&story.app, id, "SUCCESS", 1).await;
    }
    // Before one of them is changed, since either may be the first.
    for list in [O::ListWebhookSubscriptions, O::ListTenantWebhooks] {
        story.call(list, &[("limit", "1")], Value::Null).await;
    }
    for (get, update, test, deliveries, path) in [
        (
            O::GetWebhookSubscription,
            O::UpdateWebhookSubscription,
            O::TestWebhookSubscription,
            O::ListWebhookDeliveries,
            &id,
        ),
        (
            O::GetTenantWebhook,
            O::UpdateTenantWebhook,
            O::TestTenantWebhook,
            O::ListTenantWebhookDeliveries,
            &own,
        ),
    ] {
        story.call(get, path, Value::Null).await;
        let change = json!({"disable_after_failures": 20});
        story.call(update, path, change).await;
        story.call(test, path, json!({})).await;
        let first = [path[0], ("limit", "1")];
        story.call(deliveries, &first, Value::Null).await;
    }
    let window =
        json!({"from": "2026-01-01T00:00:00Z", "to": "2099-01-01T00:00:00Z", "max_events": 10});
    story.call(O::ReplayEvents, &id, window.clone()).await;
    story.call(O::ReplayTenantEvents, &own, window).await;
    story
        .call(O::GetWebhookSecurityConfig, &[], Value::Null)
        .await;
    let rules = json!({"allow_http": false, "blocked_cidr_ranges": ["10.0.0.0/8"]});
    story.call(O::UpdateWebhookSecurityConfig, &[], rules).await;
    ids
}

async fn look(story: &mut Recorder) {
    eventually("the overview has seen all", || async {
        let overview = story.app.get_as_admin("/v1/admin/overview").await;
        let kinds = overview.at("/event_counts/by_category").as_object()?.len();
        (kinds == 6).then_some(())
    })
    .await;
    story.call(O::GetAdminOverview, &[], Value::Null).await;
    let of_tenant = [("tenant_id", TENANT), ("limit", "1")];
    story.call(O::ListAuditLogs, &of_tenant, Value::Null).await;
    let funded = [("event_type", "budget.funded"), ("limit", "1")];
    let events = [("tenant_id", TENANT), funded[0], funded[1]];
    let events = story.call(O::ListEvents, &events, Value::Null).await;
    let event = [("event_id", events.text("/events/0/event_id"))];
    story.call(O::GetEvent, &event, Value::Null).await;
    story.call(O::ListTenantEvents, &funded, Value::Null).await;
}

async fn end(story: &mut Recorder, [hook, own]: &[String; 2]) {
    let pause =
        json!({"filter": {"tenant_id": TENANT}, "action": "PAUSE", "idempotency_key": "pause-1"});
    story.call(O::BulkActionWebhooks, &[], pause).await;
    for (delete, id) in [
        (O::DeleteWebhookSubscription, hook),
        (O::DeleteTenantWebhook, own),
    ] {
        story
            .call(delete, &[("subscription_id", id)], Value::Null)
            .await;
    }
    let keys = story
        .app
        .get_as_admin(&format!("/v1/admin/api-keys?tenant_id={TENANT}"))
        .await;
    let keys = keys.at("/keys").as_array().expect("keys").clone();
    let writer = keys
        .iter()
        .find(|key| key["name"] == "writer")
        .expect("it was made");
    let path = [("key_id", writer["key_id"].as_str().expect("an id"))];
    let change = json!({"name": "writer, until July"});
    story.call(O::UpdateApiKey, &path, change).await;
    let reason = [path[0], ("reason", "lost")];
    story.call(O::RevokeApiKey, &reason, Value::Null).await;
    let suspend =
        json!({"filter": {"search": TENANT}, "action": "SUSPEND", "idempotency_key": "suspend-1"});
    story.call(O::BulkActionTenants, &[], suspend).await;
}

/// Evidence needs other settings, so another service records its examples.
async fn attest(story: &mut Recorder) {
    let own = settings('a');
    let words: Vec<&str> = own.iter().map(String::as_str).collect();
    story.app = TestApp::spawn_on(&story.app.redis_url, &words).await;
    let now = now_ms(&story.app.store).await;
    let (id, bytes) = signed(&issuers(&[listed('a', 0, None)]), 'a', now);
    let envelopes = [(id.clone(), bytes)];
    let kept = story.app.store.write_envelopes(&envelopes, None).await;
    kept.expect("it is stored");
    story
        .call(O::GetEvidence, &[("evidence_id", id.as_str())], Value::Null)
        .await;
    story.call(O::GetEvidenceJwks, &[], Value::Null).await;
}

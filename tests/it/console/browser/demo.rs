//! A company with two products, whose agents spend money: what each page shows is there.

use budget_authority::store::Day;
use reqwest::Method;
use serde_json::{Value, json};

use crate::dispatcher::fan_out::leases;
use crate::evidence::fixture::{ON, signer};
use crate::harness::app::TestApp;
use crate::harness::event_log::follow;
use crate::harness::receiver::public_names;
use crate::harness::runtime_calls::{subject, with};

pub const TENANT: &str = "northwind";
pub const SUPPORT: &str = "tenant:northwind/app:support-chat";
const RESEARCH: &str = "tenant:northwind/app:research";
const DOLLAR: i64 = 100_000_000;

/// Scope of each budget, dollars, and further members.
fn budgets() -> [(&'static str, i64, Value); 6] {
    let monthly = json!({"period": {"every": "P1M"}});
    let hourly =
        json!({"period": {"every": "P1M"}, "limits": [{"every": "PT1H", "amount": money(25)}]});
    [
        ("tenant:northwind", 2_000, monthly.clone()),
        (SUPPORT, 900, hourly),
        (
            "tenant:northwind/app:support-chat/agent:triage",
            60,
            json!({}),
        ),
        (
            "tenant:northwind/app:support-chat/agent:refunds",
            40,
            json!({}),
        ),
        (RESEARCH, 500, monthly),
        (
            "tenant:northwind/app:research/agent:web-reader",
            12,
            json!({}),
        ),
    ]
}

/// App, API key, action, and dollars a day.
const USED: [(&str, usize, &str, i64); 4] = [
    (
        "app:support-chat/agent:triage",
        0,
        "14 llm.completion claude-haiku",
        11,
    ),
    (
        "app:support-chat/agent:refunds",
        0,
        "14 llm.completion claude-sonnet",
        7,
    ),
    (
        "app:research/agent:web-reader",
        1,
        "14 llm.completion gpt-4o-mini",
        4,
    ),
    ("app:research/agent:web-reader", 1, "11 tool.search web", 1),
];

pub fn money(dollars: i64) -> Value {
    cents(dollars * 100)
}

fn cents(cents: i64) -> Value {
    json!({"unit": "USD_MICROCENTS", "amount": cents * (DOLLAR / 100)})
}

/// The company, and the service that has its data.
pub struct Demo {
    pub app: TestApp,
    /// The secret of the key of the support chat, which may read everything of its tenant.
    pub key: String,
    pub ids: Ids,
}

/// Ids of what it has, of which paths are made.
#[derive(Default)]
pub struct Ids {
    /// A reservation that is active.
    pub held: String,
    /// A reservation that was committed.
    pub charged: String,
    /// A usage event.
    pub charge: String,
    /// An event of its budgets.
    pub event: String,
    /// The key of the support chat.
    pub key: String,
    pub webhook: String,
    /// Of the committed reservation.
    pub evidence: String,
}

impl Demo {
    pub async fn new() -> Self {
        let app = TestApp::spawn_reaching(public_names(), ON).await;
        for (id, name) in [
            (TENANT, "Northwind Traders"),
            ("contoso", "Contoso Robotics"),
        ] {
            let tenant = json!({"tenant_id": id, "name": name});
            app.post_as_admin("/v1/admin/tenants", tenant)
                .await
                .expect(201);
        }
        for (tenant, name) in ["Acme", "Bolt Logistics"].iter().enumerate() {
            let caller = &app.callers[tenant];
            let record = app
                .store
                .keys()
                .tenant(caller.partition, caller.tenant.as_str());
            let now_ms = app.now_ms().await.to_string();
            app.set(&record, &[("name", name), ("created_at_ms", &now_ms)])
                .await;
        }
        let (key_id, key) = new_key(&app, "support chat, production", &[]).await;
        let (research_id, research) = new_key(&app, "research", &["app:research"]).await;
        for (scope, dollars, more) in budgets() {
            let unit = "USD_MICROCENTS";
            let body = json!({"tenant_id": TENANT, "scope": scope, "unit": unit, "allocated": money(dollars)});
            app.post_as_admin("/v1/admin/budgets", with(body, more))
                .await
                .expect(201);
        }
        policies(&app).await;
        past(&app, [&key_id, &research_id]).await;
        let (held, charged) = calls(&app, &key, &research).await;
        let webhook = webhooks(&app).await;
        let frozen = "/v1/admin/budgets/freeze?scope=tenant:northwind/app:support-chat/agent:refunds&unit=USD_MICROCENTS";
        app.post_as_admin(frozen, json!({"reason": "refunds are looked into"}))
            .await
            .expect(200);
        let mut signer = signer(&app, ON);
        while signer
            .run_once(&leases())
            .await
            .expect("Redis answers")
            .signed
            > 0
        {}
        let reservation = app
            .get_with(&key, &format!("/v1/reservations/{charged}"))
            .await;
        let events = format!("/v1/admin/events?tenant_id={TENANT}&category=budget");
        let events = app.get_as_admin(&events).await.expect(200);
        let ids = Ids {
            held,
            charged,
            charge: search(&app, &research).await,
            event: events.text("/events/0/event_id").to_owned(),
            key: key_id,
            webhook,
            evidence: reservation.text("/evidence/commit/evidence_id").to_owned(),
        };
        follow(&app.store).await;
        // One that reads since when usage is counted.
        let app = app.replica(ON).await;
        Self { app, key, ids }
    }
}

/// A key of the tenant that may read all that it has; its id and its secret.
async fn new_key(app: &TestApp, name: &str, scopes: &[&str]) -> (String, String) {
    let words = "reservations:create reservations:commit reservations:release reservations:extend reservations:list \
        balances:read budgets:read budgets:write policies:read webhooks:read events:read";
    let permissions: Vec<_> = words.split_whitespace().collect();
    let key = json!({"tenant_id": TENANT, "name": name, "permissions": permissions, "scope_filter": scopes});
    let made = app
        .post_as_admin("/v1/admin/api-keys", key)
        .await
        .expect(201);
    (
        made.text("/key_id").to_owned(),
        made.text("/key_secret").to_owned(),
    )
}

async fn policies(app: &TestApp) {
    let daily =
        json!({"unit": "USD_MICROCENTS", "allocated": money(3), "period": {"every": "P1D"}});
    for (name, pattern, more) in [
        (
            "a budget for each research agent",
            "tenant:northwind/app:research/agent:*",
            json!({"budget_templates": [daily]}),
        ),
        (
            "support may finish what it began",
            "tenant:northwind/app:support-chat",
            json!({"commit_overage_policy": "ALLOW_WITH_OVERDRAFT"}),
        ),
    ] {
        let body = json!({"tenant_id": TENANT, "name": name, "scope_pattern": pattern});
        app.post_as_admin("/v1/admin/policies", with(body, more))
            .await
            .expect(201);
    }
}

/// Usage of the last two weeks, as the scripts count it.
async fn past(app: &TestApp, keys: [&str; 2]) {
    let tenant = budget_authority::domain::ids::TenantId::parse(TENANT).expect("an id");
    let partition = tenant.partition();
    let names = app.store.keys();
    let mut from = app.store.today();
    for ago in 1..=13 {
        let day: Day = app.store.today().plus(-ago);
        from = day;
        let hash = names.usage(partition, TENANT, day);
        let (mut words, mut bytes) = (vec!["HSET".to_owned(), hash], 0);
        for (place, (scope, key, action, dollars)) in (1..).zip(USED) {
            let count = 40 + (ago * 17 * place) % 90;
            let charged = dollars * DOLLAR * count / 60 + place * 1_234_567;
            let field = format!("USD_MICROCENTS {scope} {} {action}", keys[key]);
            bytes += field.len();
            words.extend([field, format!("{charged} {count}")]);
        }
        words.extend(["combinations".to_owned(), format!("{} {bytes}", USED.len())]);
        app.run::<()>(&words).await;
        let (start, member) = (day.start_ms().to_string(), format!("{TENANT}:{day}"));
        app.run::<()>(&["ZADD", &names.days(partition), &start, &member])
            .await;
    }
    let from_ms = (from.start_ms() - 1).to_string();
    app.run::<()>(&["HSET", &names.meta(), "usage_from_ms", &from_ms])
        .await;
}

/// What the agents do today; the ids of a reservation that is held and of one that was charged.
async fn calls(app: &TestApp, support: &str, research: &str) -> (String, String) {
    let ask = |scope: &str, model: &str, estimate: Value| {
        json!({
            "idempotency_key": uuid::Uuid::new_v4().to_string(), "subject": subject(scope), "ttl_ms": 600_000,
            "action": {"kind": "llm.completion", "name": model}, "estimate": estimate,
        })
    };
    let triage = "tenant:northwind/app:support-chat/agent:triage";
    let mut charged = String::new();
    for amount in [190, 45, 260, 130] {
        let body = ask(triage, "claude-haiku", cents(amount));
        let made = app
            .post_with(support, "/v1/reservations", &body)
            .await
            .expect(200);
        charged = made.text("/reservation_id").to_owned();
        let commit = json!({"idempotency_key": charged, "actual": cents(amount - 12)});
        let path = format!("/v1/reservations/{charged}/commit");
        app.post_with(support, &path, &commit).await.expect(200);
    }
    let body = ask(triage, "claude-sonnet", cents(85));
    let held = app
        .post_with(support, "/v1/reservations", &body)
        .await
        .expect(200);
    let reader = "tenant:northwind/app:research/agent:web-reader";
    let body = ask(reader, "gpt-4o-mini", cents(940));
    app.post_with(research, "/v1/reservations", &body)
        .await
        .expect(200);
    let body = ask(reader, "gpt-4o-mini", cents(450));
    app.post_with(research, "/v1/reservations", &body)
        .await
        .expect(409);
    (held.text("/reservation_id").to_owned(), charged)
}

/// A charge without a reservation; its id.
async fn search(app: &TestApp, research: &str) -> String {
    let body = json!({
        "idempotency_key": "search", "subject": subject(RESEARCH), "actual": cents(3),
        "action": {"kind": "tool.search", "name": "web"},
    });
    let made = app
        .post_with(research, "/v1/events", &body)
        .await
        .expect(201);
    made.text("/event_id").to_owned()
}

/// Two subscriptions, one of which is paused; the id of the other.
async fn webhooks(app: &TestApp) -> String {
    let path = format!("/v1/admin/webhooks?tenant_id={TENANT}");
    let mut ids = Vec::new();
    for (name, url, types) in [
        (
            "alerts to the on-call channel",
            "https://hooks.northwind.example/budgets",
            ["budget.exhausted", "reservation.denied"],
        ),
        (
            "nightly cost report",
            "https://finance.northwind.example/in",
            ["budget.funded", "budget.period_started"],
        ),
    ] {
        let hook = json!({"url": url, "name": name, "event_types": types});
        let made = app.post_as_admin(&path, hook).await.expect(201);
        ids.push(made.text("/subscription/subscription_id").to_owned());
    }
    let path = format!("/v1/admin/webhooks/{}", ids[1]);
    app.as_admin(Method::PATCH, &path, &json!({"status": "PAUSED"}))
        .await
        .expect(200);
    ids.swap_remove(0)
}

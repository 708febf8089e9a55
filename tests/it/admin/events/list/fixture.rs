//! A service with tenants whose events are listed over HTTP.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::event_log::EventLog;
use crate::harness::redis::shared;
use crate::harness::response::Response;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

pub const EVENTS: &str = "/v1/admin/events";
const DAY_MS: i64 = 86_400_000;
const TENANTS: [&str; 3] = ["alpha", "beta", "beta-corp"];

/// A service with tenants that were made over HTTP, and a key of the first that may read events.
pub struct EventsFixture {
    pub app: TestApp,
    pub key: String,
    pub event_log: EventLog,
}

impl EventsFixture {
    pub async fn new() -> Self {
        Self::on(&shared().url()).await
    }

    pub async fn on(url: &str) -> Self {
        let app = TestApp::spawn_on(url, LONG_REDIS_TIMEOUT).await;
        for tenant in TENANTS {
            let body = json!({"tenant_id": tenant, "name": tenant});
            app.as_admin(Method::POST, "/v1/admin/tenants", &body)
                .await
                .expect(201);
        }
        let key = Self::key(&app, "alpha", json!({"permissions": ["events:read"]})).await;
        let event_log = EventLog::on(&app.store);
        Self {
            app,
            key,
            event_log,
        }
    }

    /// A key of a tenant.
    pub async fn key(app: &TestApp, tenant: &str, more: Value) -> String {
        let mut body = json!({"tenant_id": tenant, "name": "reader"});
        for (name, value) in more.as_object().expect("members") {
            body[name] = value.clone();
        }
        let made = app
            .as_admin(Method::POST, "/v1/admin/api-keys", &body)
            .await
            .expect(201);
        made.text("/key_secret").to_owned()
    }

    pub async fn admin(&self, query: &str) -> Response {
        self.app.get_as_admin(&format!("{EVENTS}?{query}")).await
    }

    pub async fn own(&self, query: &str) -> Response {
        self.app
            .get_with(&self.key, &format!("/v1/events?{query}"))
            .await
    }

    /// All pages of a list of the operator, or of the tenant.
    pub async fn walk(&self, own: bool, query: &str) -> Vec<Value> {
        self.walk_from(own, query, "").await
    }

    /// The same from a cursor on.
    pub async fn walk_from(&self, own: bool, query: &str, from: &str) -> Vec<Value> {
        let (mut events, mut cursor) = (Vec::new(), format!("&cursor={from}"));
        loop {
            let query = format!("{query}{cursor}");
            let page = match own {
                true => self.own(&query).await,
                false => self.admin(&query).await,
            };
            events.extend(rows(&page));
            assert_eq!(
                page.at("/has_more"),
                &json!(page.body.get("next_cursor").is_some())
            );
            match page.at("/next_cursor").as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return events,
            }
        }
    }

    /// Events of several kinds of all tenants, on several days, many of them at the same time.
    pub async fn emit_many(&mut self) {
        let now = self.event_log.now_ms().await;
        // The logs of today have begun, and those of yesterday if midnight has just passed: only later times can follow.
        let rounds = [-40 * DAY_MS, -3 * DAY_MS, -2 * DAY_MS, 1, 20];
        for (round, later) in rounds.iter().enumerate() {
            for number in 0..4 {
                let at = now + later + number as i64;
                for (index, tenant) in TENANTS.into_iter().enumerate() {
                    let trace = format!("{:032x}", 1 + number + index);
                    let request = format!("req_{round}_{number}");
                    let agent = format!("tenant:{tenant}/agent:a{number}");
                    let ids = [("trace_id", trace.as_str()), ("request_id", &request)];
                    let debt = [
                        ("type", "budget.debt_incurred"),
                        ("scope", &agent),
                        ("data.scope", &agent),
                        ("data.unit", "TOKENS"),
                        ("data.debt_incurred", "5"),
                        ("data.total_debt", "5"),
                        ("data.overdraft_limit", "9"),
                        ("data.overage_policy", "ALLOW_WITH_OVERDRAFT"),
                        ("kind", "model.call"),
                    ];
                    let debt = [&debt[..], &ids].concat();
                    self.event_log.emit(tenant, at, &debt).await;
                    let policy = [
                        ("type", "policy.created"),
                        ("scope", &agent),
                        ("data.policy_id", "pol_1"),
                        ("data.name", "p"),
                        ("data.scope_pattern", &agent),
                        ("data.changed_fields", ""),
                    ];
                    self.event_log
                        .emit(tenant, at, &[&policy[..], &ids].concat())
                        .await;
                    let bulk = format!("tenant_bulk_action:Suspend:{request}");
                    let bulk = [("correlation_id", bulk.as_str())];
                    self.event_log
                        .emit(tenant, at, &[&bulk[..], &ids].concat())
                        .await;
                }
                let webhook = [
                    ("type", "webhook.created"),
                    ("data.subscription_id", "whsub_1"),
                    ("data.changed_fields", ""),
                ];
                self.event_log.emit("__system__", at, &webhook).await;
            }
        }
        self.event_log.until_ms(now + 40).await;
    }

    /// More events of now, which no follower has read.
    pub async fn emit_more(&mut self) {
        let now = self.event_log.now_ms().await + 1;
        for tenant in TENANTS {
            for _ in 0..12 {
                let ids = [
                    ("request_id", "req_2_1"),
                    ("correlation_id", "tenant_bulk_action:Suspend:req_1_2"),
                ];
                self.event_log.emit(tenant, now, &ids).await;
            }
        }
        self.event_log.until_ms(now + 1).await;
    }

    /// The content of the logs, in order of time.
    pub async fn model(&self) -> Vec<Value> {
        let mut events = self.event_log.events().await;
        events.sort_by_key(|event| {
            (
                event.facts.integer("at_ms").expect("a time"),
                event.row.member(),
            )
        });
        events.iter().map(|event| event.envelope()).collect()
    }
}

pub fn rows(response: &Response) -> Vec<Value> {
    assert_eq!(response.status, 200, "{response:?}");
    response.at("/events").as_array().expect("events").clone()
}

pub fn text<'v>(event: &'v Value, name: &str) -> &'v str {
    event[name].as_str().unwrap_or_default()
}

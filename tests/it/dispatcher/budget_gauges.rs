//! Gauges of the budgets of listed tenants: tenants, dispatcher and number.

use std::time::Duration;

use budget_authority::config::TenantList;
use budget_authority::dispatcher::BudgetGauges;
use budget_authority::domain::amount::Unit;
use budget_authority::store::{Lease, Store};
use prometheus::{Registry, TextEncoder};
use serde_json::json;

use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::TestApp;
use crate::harness::event_log::everywhere;
use crate::harness::ledger_fixture::LedgerFixture;
use crate::runtime::turns::{age, hourly};

/// A worker of a dispatcher, and what it shows.
struct Gauges {
    worker: BudgetGauges,
    registry: Registry,
}

impl Gauges {
    /// Reads at every pass.
    fn of(store: &Store, tenants: &[&str], series_max: usize) -> Self {
        let registry = Registry::new();
        let tenants = TenantList(tenants.iter().map(|name| tenant_id(name)).collect());
        let worker = BudgetGauges::new(store.clone(), tenants, &registry);
        let worker = worker.expect("a fresh registry");
        Self {
            worker: worker.limited(Duration::ZERO, series_max),
            registry,
        }
    }

    /// The series after a pass, as names and labels.
    async fn after_pass(&mut self, leases: &[Lease]) -> Vec<String> {
        self.worker.run_once(leases).await.expect("Redis responds");
        let text = TextEncoder::new().encode_to_string(&self.registry.gather());
        let text = text.expect("metrics");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.replace('"', "")).collect()
    }
}

fn key_of(fixture: &LedgerFixture, scope: &str) -> String {
    let caller = &fixture.callers[0];
    let (partition, tenant) = (caller.partition, caller.tenant.as_str());
    fixture
        .store
        .keys()
        .budget(partition, tenant, "TOKENS", scope)
}

const NONE: [&str; 1] = ["budget_gauges_left_out_total 0"];

#[tokio::test]
async fn only_budgets_of_listed_tenants_have_gauges() {
    let fixture = LedgerFixture::new().await;
    fixture.seed(0, "tenant:acme", Unit::Tokens, 100, 0).await;
    fixture.seed(1, "tenant:bolt", Unit::Tokens, 7, 0).await;
    let key = key_of(&fixture, "tenant:acme");
    let figures = [("reserved", "30"), ("remaining", "-10"), ("debt", "80")];
    fixture.set(&key, &figures).await;
    let mut none = Gauges::of(&fixture.store, &[], 1_000);
    assert_eq!(none.after_pass(&everywhere()).await, NONE);
    let mut gauges = Gauges::of(&fixture.store, &["acme"], 1_000);
    let labels = "{scope=tenant:acme,tenant=acme,unit=TOKENS}";
    assert_eq!(
        gauges.after_pass(&everywhere()).await,
        [
            format!("budget_allocated{labels} 100"),
            format!("budget_debt{labels} 80"),
            "budget_gauges_left_out_total 0".to_owned(),
            format!("budget_remaining{labels} -10"),
            format!("budget_reserved{labels} 30"),
        ]
    );
}

#[tokio::test]
async fn gauges_show_the_period_that_has_begun() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({})).await;
    app.post_event("e", "tenant:acme", 60, json!({}))
        .await
        .expect(201);
    age(&app, 1).await;
    let mut gauges = Gauges::of(&app.store, &["acme"], 1_000);
    let series = gauges.after_pass(&everywhere()).await;
    let labels = "{scope=tenant:acme,tenant=acme,unit=TOKENS}";
    assert!(
        series.contains(&format!("budget_remaining{labels} 100")),
        "{series:?}"
    );
}

#[tokio::test]
async fn exactly_one_dispatcher_has_the_gauges_of_a_tenant() {
    let fixture = LedgerFixture::new().await;
    fixture.seed(0, "tenant:acme", Unit::Tokens, 100, 0).await;
    let partition = fixture.callers[0].partition;
    let (its, rest): (Vec<_>, Vec<_>) = everywhere()
        .into_iter()
        .partition(|lease| lease.partition == partition);
    let mut one = Gauges::of(&fixture.store, &["acme"], 1_000);
    let mut other = Gauges::of(&fixture.store, &["acme"], 1_000);
    assert_eq!(one.after_pass(&its).await.len(), 5);
    assert_eq!(other.after_pass(&rest).await, NONE);
    // The lease passes on.
    assert_eq!(one.after_pass(&[]).await, NONE);
    assert_eq!(other.after_pass(&its).await.len(), 5);
}

#[tokio::test]
async fn a_deleted_or_closed_budget_has_no_gauges() {
    let fixture = LedgerFixture::new().await;
    for app in ["a", "b", "c"] {
        let scope = format!("tenant:acme/app:{app}");
        fixture.seed(0, &scope, Unit::Tokens, 100, 0).await;
    }
    let mut gauges = Gauges::of(&fixture.store, &["acme"], 1_000);
    assert_eq!(gauges.after_pass(&everywhere()).await.len(), 13);
    let gone = key_of(&fixture, "tenant:acme/app:a");
    fixture.run::<i64>(&["DEL", &gone]).await;
    let closed = key_of(&fixture, "tenant:acme/app:b");
    fixture.set(&closed, &[("status", "CLOSED")]).await;
    let left = gauges.after_pass(&everywhere()).await;
    assert_eq!(left.len(), 5);
    assert!(left[0].contains("app:c"), "{left:?}");
}

#[tokio::test]
async fn series_are_bounded_and_the_rest_is_counted() {
    let fixture = LedgerFixture::new().await;
    // More than a page.
    for number in 0..120 {
        let scope = format!("tenant:acme/app:n{number:03}");
        fixture.seed(0, &scope, Unit::Tokens, 100, 0).await;
    }
    fixture.seed(1, "tenant:bolt", Unit::Tokens, 7, 0).await;
    let mut all = Gauges::of(&fixture.store, &["acme", "bolt"], 1_000);
    assert_eq!(all.after_pass(&everywhere()).await.len(), 4 * 121 + 1);
    let mut some = Gauges::of(&fixture.store, &["acme", "bolt"], 4 * 110 + 3);
    for pass in 1..=2 {
        let series = some.after_pass(&everywhere()).await;
        assert_eq!(series.len(), 4 * 110 + 1);
        // Ten of the first tenant, and the one of the second.
        let left_out = format!("budget_gauges_left_out_total {}", 11 * pass);
        assert!(series.contains(&left_out), "{left_out}");
        assert!(!series.iter().any(|line| line.contains("bolt")));
    }
}

//! What must be right in the end: the figures that the API shows, and the events that arrived.

use std::collections::BTreeSet;

use super::deployment::{ALLOCATED, EVENTS, TENANTS};
use crate::dispatcher::process_fixture::{LIMIT, text};
use crate::harness::app::TestApp;
use crate::harness::client_audit::Totals;
use crate::harness::ledger_audit::LedgerAudit;
use crate::harness::receiver::Receiver;
use crate::harness::within;

/// The balances of a tenant are what its clients were granted, and what was funded.
pub(super) async fn check_balances(app: &TestApp, tenant: usize, totals: &Totals, credits: i64) {
    let (name, _) = TENANTS[tenant];
    let path = format!("/v1/balances?tenant={name}&limit=200");
    let page = app.get_as(tenant, &path).await.expect(200);
    let rows = page.at("balances").as_array().expect("rows");
    assert!(rows.len() >= 4, "{rows:?}");
    for row in rows {
        let scope = text(row, "scope_path");
        let figure = |name: &str| row[name]["amount"].as_i64().unwrap_or(0);
        let charged = totals.charged.get(&scope).copied().unwrap_or(0);
        let figures = ["spent", "reserved", "debt"].map(figure);
        assert_eq!(figures, [charged, 0, 0], "{row}");
        if scope == format!("tenant:{name}") {
            assert_eq!(figure("allocated"), ALLOCATED + credits, "{row}");
        }
    }
}

/// Waits until this many increases of a tenant have ended, each once.
pub(super) async fn ended(app: &TestApp, tenant: usize, increases: usize) {
    let counts = within(LIMIT, "the increases end", || async {
        let recorded = LedgerAudit::read(app, tenant).await;
        let count = |what| recorded.events_of(&format!("budget.increase_{what}"));
        let counts = (count("started"), count("ended"));
        (counts.1 >= increases).then_some(counts).ok_or(counts)
    });
    assert_eq!(counts.await, (increases, increases));
}

/// The ids of a tenant's events, once the API lists all that are recorded.
pub(super) async fn events_of(app: &TestApp, tenant: usize) -> BTreeSet<String> {
    let recorded = LedgerAudit::read(app, tenant).await;
    let (name, _) = TENANTS[tenant];
    let mut ids = BTreeSet::new();
    for event_type in EVENTS {
        let path = format!("/v1/admin/events?tenant_id={name}&event_type={event_type}&");
        let count = recorded.events_of(event_type);
        let listed = within(LIMIT, "the events are listed", || async {
            let rows = app.all_as_admin(&path, "/events").await;
            match rows.len() == count {
                true => Ok(rows),
                false => Err((rows.len(), count)),
            }
        })
        .await;
        ids.extend(listed.iter().map(|row| text(row, "event_id")));
    }
    ids
}

/// Waits until all of these events have arrived.
pub(super) async fn arrived(receiver: &Receiver, events: &BTreeSet<String>) {
    within(LIMIT, "all events arrive", || async {
        let requests = receiver.arrived();
        let id = |name: Option<&str>| name.expect("an id").to_owned();
        let ids = requests
            .iter()
            .map(|one| id(one.header("x-service-event-id")));
        let ids: BTreeSet<_> = ids.collect();
        let missing = events.difference(&ids).count();
        (missing == 0).then_some(()).ok_or(missing)
    })
    .await;
}

//! The list of all pages.

use url::form_urlencoded::byte_serialize;

use super::demo::{Ids, SUPPORT, TENANT};

/// A page with what it needs to show something.
pub struct PageOf {
    /// Also of its pictures.
    pub name: &'static str,
    pub path: String,
}

/// The pages of operators, of which pictures are taken. A new page of the console belongs here.
pub fn of_operators(ids: &Ids) -> Vec<PageOf> {
    let (tenant, budget) = (TENANT, budget());
    let page = |name, path: String| PageOf { name, path };
    vec![
        page("overview", "/console".to_owned()),
        page("spend", "/console/spend".to_owned()),
        page("tenants", "/console/tenants".to_owned()),
        page("tenant", format!("/console/tenants/{tenant}")),
        page("budget", format!("/console/budget?{budget}")),
        page(
            "change",
            format!("/console/budget/change?{budget}&change=increase"),
        ),
        page("denials", format!("/console/denials?tenant={tenant}")),
        page(
            "usage",
            format!("/console/usage?tenant={tenant}&group_by=app"),
        ),
        page("reservation", format!("/console/reservations/{}", ids.held)),
        page("charged", format!("/console/reservations/{}", ids.charged)),
        page(
            "reservations",
            format!("/console/reservations?tenant={tenant}"),
        ),
        page("charge", format!("/console/charges/{}", ids.charge)),
        page("charges", format!("/console/charges?tenant={tenant}")),
        page("event", format!("/console/events/{}", ids.event)),
        page("evidence", format!("/console/evidence/{}", ids.evidence)),
        page("webhook", format!("/console/webhooks/{}", ids.webhook)),
        page("key", format!("/console/keys/{}", ids.key)),
        page("events", format!("/console/events?tenant={tenant}")),
        page("webhooks", "/console/webhooks".to_owned()),
        page("policies", format!("/console/policies?tenant={tenant}")),
        page("keys", format!("/console/keys?tenant={tenant}")),
        page("audit", format!("/console/audit?tenant={tenant}")),
    ]
}

/// The pages of a tenant, among which are all that differ from those of operators.
pub fn of_tenants(ids: &Ids) -> Vec<PageOf> {
    let theirs = [
        "tenant", "budget", "denials", "usage", "charged", "events", "webhooks", "policies",
    ];
    let mut pages = of_operators(ids);
    pages.retain(|page| theirs.contains(&page.name));
    pages
}

/// The query of a budget.
fn budget() -> String {
    let scope: String = byte_serialize(SUPPORT.as_bytes()).collect();
    format!("scope={scope}&unit=USD_MICROCENTS")
}

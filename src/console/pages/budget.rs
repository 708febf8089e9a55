//! One budget: its figures, what holds on it, what was denied, and what happened to it.

use axum::response::Response;
use serde_json::{Value, json};

use super::super::forms::Form;
use super::super::operations::Refused;
use super::super::session::Reader;
use super::{ROWS, rows, text};
use crate::api::operations::OperationId;

pub(in crate::console) async fn show(reader: Reader, query: Form) -> Result<Response, Response> {
    let (scope, unit) = (&query["scope"], &query["unit"]);
    let budget = of(&reader, scope, unit).await?;
    let tenant = text(&budget, "tenant_id");
    let events = async |name, value| {
        let wanted = [
            ("tenant_id", reader.naming(tenant)),
            ("scope", scope),
            (name, value),
            ("limit", "20"),
        ];
        reader.operations.part(reader.events(), "", &wanted).await
    };
    let (above, holds, denials, events) = tokio::join!(
        above(&reader, &budget),
        holds(&reader, &budget, ROWS),
        events("event_type", "reservation.denied"),
        events("category", "budget"),
    );
    let context = json!({
        "title": title(&budget), "budget": budget, "above": above, "holds": holds, "denials": denials, "events": events, "done": &query["done"],
    });
    Ok(reader.page("budget.html", context))
}

/// What it is called: a scope may have a budget in each unit.
pub(super) fn title(budget: &Value) -> String {
    let unit = text(budget, "unit").to_lowercase().replace('_', " ");
    format!("{}, {unit}", text(budget, "scope"))
}

/// The budgets above it, which a request needs as well, as far as the reader may see them.
async fn above(reader: &Reader, budget: &Value) -> Vec<Value> {
    let (scope, tenant) = (text(budget, "scope"), text(budget, "tenant_id"));
    let mut found = Vec::new();
    for (at, _) in scope.match_indices('/') {
        let budget = find(reader, tenant, &scope[..at], text(budget, "unit")).await;
        found.extend(budget.ok().flatten());
    }
    found
}

/// The budget of a scope and unit.
pub(super) async fn of(reader: &Reader, scope: &str, unit: &str) -> Result<Value, Refused> {
    let wanted = [("scope", scope), ("unit", unit)];
    reader
        .operations
        .get(OperationId::LookupBudget, "", &wanted)
        .await
}

/// The active reservations that hold on a budget, as far as one page of them goes; those that expire first come first, because they
/// have an index.
pub(super) async fn holds(reader: &Reader, budget: &Value, limit: &str) -> Value {
    let (scope, unit) = (text(budget, "scope"), text(budget, "unit"));
    let mut wanted = vec![
        ("tenant", text(budget, "tenant_id")),
        ("status", "ACTIVE"),
        ("sort_by", "expires_at_ms"),
        ("sort_dir", "asc"),
        ("include", "key_id"),
        ("limit", limit),
    ];
    let segments = scope.split('/').skip(1);
    wanted.extend(segments.filter_map(|segment| segment.split_once(':')));
    let list = OperationId::ListReservations;
    let mut page = reader.operations.part(list, "", &wanted).await;
    // The API finds the segments anywhere in a path, and all units.
    if let Some(rows) = page["reservations"].as_array_mut() {
        rows.retain(|row| {
            let below = text(row, "scope_path").strip_prefix(scope);
            let is_within = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            is_within && row["reserved"]["unit"] == unit
        });
    }
    page
}

/// The budget of a scope and unit, if there is one: a list, because an operator's look-up in vain is an entry of the audit log.
pub(super) async fn find(
    reader: &Reader,
    tenant: &str,
    scope: &str,
    unit: &str,
) -> Result<Option<Value>, Refused> {
    let wanted = [
        ("tenant_id", tenant),
        ("scope_prefix", scope),
        ("unit", unit),
        ("sort_by", "scope"),
        ("sort_dir", "asc"),
        ("limit", "1"),
    ];
    let budgets = reader.operations.get(OperationId::ListBudgets, "", &wanted);
    let found = rows(budgets.await?, "ledgers").into_iter().next();
    Ok(found.filter(|budget| text(budget, "scope") == scope))
}

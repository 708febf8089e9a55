//! One budget: its figures, what holds on it, and what happened to it.

use axum::extract::RawQuery;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::forms::Form;
use super::super::operations::Refused;
use super::super::session::Reader;
use super::ROWS;
use crate::api::operations::OperationId;

pub(in crate::console) async fn show(
    reader: Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let query = Form::parse(query.unwrap_or_default().as_bytes());
    let (scope, unit) = (&query["scope"], &query["unit"]);
    let budget = of(&reader, scope, unit).await?;
    let tenant = budget["tenant_id"].as_str().unwrap_or_default();
    // A reader without the permission sees the rest of the page.
    let events = [
        ("tenant_id", reader.naming(tenant)),
        ("scope", scope),
        ("limit", ROWS),
    ];
    let events = reader.operations.get(reader.events(), "", &events).await;
    let mut holds = vec![
        ("tenant", tenant),
        ("status", "ACTIVE"),
        ("include", "key_id"),
        ("limit", ROWS),
    ];
    let segments = scope.split('/').skip(1);
    holds.extend(segments.filter_map(|segment| segment.split_once(':')));
    let holds = reader
        .operations
        .get(OperationId::ListReservations, "", &holds)
        .await;
    let or_message = |found: Result<Value, Refused>| {
        found.unwrap_or_else(|refused| json!({"message": refused.message}))
    };
    let context = json!({
        "title": scope, "budget": budget, "events": or_message(events), "holds": or_message(holds), "done": &query["done"],
    });
    Ok(reader.page("budget.html", context))
}

/// The budget of a scope and unit.
pub(super) async fn of(reader: &Reader, scope: &str, unit: &str) -> Result<Value, Refused> {
    let wanted = [("scope", scope), ("unit", unit)];
    reader
        .operations
        .get(OperationId::LookupBudget, "", &wanted)
        .await
}

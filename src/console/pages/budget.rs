//! One budget: its figures, what holds on it, what was denied, and what happened to it.

use axum::extract::RawQuery;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::forms::Form;
use super::super::operations::Refused;
use super::super::session::Reader;
use super::{ROWS, text};
use crate::api::operations::OperationId;

pub(in crate::console) async fn show(
    reader: Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let query = Form::parse(query.unwrap_or_default().as_bytes());
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
    let (holds, denials, events) = tokio::join!(
        holds(&reader, tenant, scope, ROWS),
        events("event_type", "reservation.denied"),
        events("category", "budget"),
    );
    let context = json!({
        "title": scope, "budget": budget, "holds": holds, "denials": denials, "events": events, "done": &query["done"],
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

/// The active reservations in a scope and below it, the newest first.
pub(super) async fn holds(reader: &Reader, tenant: &str, scope: &str, limit: &str) -> Value {
    let mut wanted = vec![
        ("tenant", tenant),
        ("status", "ACTIVE"),
        ("include", "key_id"),
        ("limit", limit),
    ];
    let segments = scope.split('/').skip(1);
    wanted.extend(segments.filter_map(|segment| segment.split_once(':')));
    let list = OperationId::ListReservations;
    reader.operations.part(list, "", &wanted).await
}

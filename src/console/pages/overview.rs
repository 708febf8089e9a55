//! The first page: for operators what needs attention, for others their tenant.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::Console;
use super::super::session::Reader;
use super::usage::in_order;
use super::{budget, text};
use crate::api::operations::OperationId;
use crate::domain::budget::ledger::BudgetStatus;
use crate::domain::moment::Moment;
use crate::store::dispatcher::views::View;

/// How long the parts that read more are cached, for all readers.
const AGE: Duration = Duration::from_secs(30);
/// Budgets of a list.
const BUDGETS_MAX: usize = 5;
/// Up to how many tenants the usage of all is summed up.
const TENANTS_MAX: &str = "20";
/// From which share on a budget is nearly used up, as one of the default thresholds is.
const NEARLY: f64 = 0.95;
/// How soon a key ends.
const KEY_DAYS: i64 = 14;

pub(in crate::console) async fn show(
    reader: Reader,
    State(console): State<Arc<Console>>,
) -> Result<Response, Response> {
    if let Some(tenant) = &reader.tenant {
        return Ok(Redirect::to(&format!("/console/tenants/{tenant}")).into_response());
    }
    let overview = reader
        .operations
        .get(OperationId::GetAdminOverview, "", &[]);
    let overview = overview.await?;
    let more = {
        let mut last = console.overview.lock().await;
        match &*last {
            Some((made, more)) if made.elapsed() < AGE => more.clone(),
            _ => {
                let more = more(&reader).await;
                *last = Some((Instant::now(), more.clone()));
                more
            }
        }
    };
    let store = &console.state.store;
    let watermark_ms = store.watermark(View::Events).await.unwrap_or(0);
    let lag_seconds = (watermark_ms > 0).then(|| (reader.now_ms - watermark_ms).max(0) / 1_000);
    let context = json!({
        "title": "Overview", "overview": overview, "more": more, "lag_seconds": lag_seconds,
        "memory_percent": store.fullest_share().percent(),
    });
    Ok(reader.page("overview.html", context))
}

/// The parts that read more: budgets, keys that end soon, and usage.
async fn more(reader: &Reader) -> Value {
    let crossed = events_of(reader, "budget.threshold_crossed").await;
    let rose = |event: &&Value| {
        event["data"]["threshold"].as_f64() >= Some(NEARLY)
            && event["data"]["direction"] == "rising"
    };
    let nearly = budgets_of(reader, crossed.iter().filter(rose), |budget| {
        let figure = |name: &str| budget[name]["amount"].as_i64().unwrap_or(0) as f64;
        figure("spent") + figure("reserved") >= NEARLY * figure("allocated")
    });
    let nearly = nearly.await;
    let frozen = events_of(reader, "budget.frozen").await;
    let frozen = budgets_of(reader, frozen.iter(), |budget| {
        budget["status"] == BudgetStatus::Frozen.as_str()
    });
    let frozen = frozen.await;
    json!({
        "nearly": nearly, "frozen": frozen, "keys": keys_that_end(reader).await, "usage": usage(reader).await,
    })
}

/// The latest events of a type.
async fn events_of(reader: &Reader, event_type: &str) -> Vec<Value> {
    let wanted = [("event_type", event_type), ("limit", "50")];
    let mut events = reader.operations.part(reader.events(), "", &wanted).await;
    match events["events"].take() {
        Value::Array(events) => events,
        _ => Vec::new(),
    }
}

/// The budgets of events, each once, as they are now.
async fn budgets_of(
    reader: &Reader,
    events: impl Iterator<Item = &Value>,
    still: impl Fn(&Value) -> bool,
) -> Vec<Value> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for event in events {
        let named = (text(&event["data"], "scope"), text(&event["data"], "unit"));
        if found.len() == BUDGETS_MAX || seen.len() == 2 * BUDGETS_MAX {
            break;
        }
        if seen.contains(&named) {
            continue;
        }
        seen.push(named);
        match budget::of(reader, named.0, named.1).await {
            Ok(budget) if still(&budget) => found.push(budget),
            _ => {}
        }
    }
    found
}

/// The active keys that end within days, the next one first.
async fn keys_that_end(reader: &Reader) -> Value {
    let wanted = [
        ("status", "ACTIVE"),
        ("sort_by", "expires_at"),
        ("sort_dir", "asc"),
        ("limit", "5"),
    ];
    let mut page = reader
        .operations
        .part(OperationId::ListApiKeys, "", &wanted)
        .await;
    let Value::Array(mut keys) = page["keys"].take() else {
        return page;
    };
    let end_ms = reader.now_ms + KEY_DAYS * 24 * 3_600_000;
    keys.retain(|key| {
        Moment::parse(text(key, "expires_at")).is_some_and(|end| end.as_ms() <= end_ms)
    });
    keys.into()
}

/// What all tenants used in the last 30 days: by day, and the scopes with the highest charges. `null` above so many tenants.
async fn usage(reader: &Reader) -> Value {
    let tenants = [("limit", TENANTS_MAX)];
    let tenants = reader
        .operations
        .part(OperationId::ListTenants, "", &tenants)
        .await;
    if tenants["has_more"] != false {
        return Value::Null;
    }
    let (mut days, mut scopes) = (Vec::new(), Vec::new());
    for tenant in tenants["tenants"].as_array().into_iter().flatten() {
        for (group, limit, rows) in [("day", "1000", &mut days), ("scope", "10", &mut scopes)] {
            let wanted = [
                ("tenant_id", text(tenant, "tenant_id")),
                ("group_by", group),
                ("limit", limit),
            ];
            let report = reader
                .operations
                .part(OperationId::GetTenantUsage, "", &wanted);
            if let Value::Array(found) = report.await["usage"].take() {
                rows.extend(found);
            }
        }
    }
    scopes.sort_by_key(|row: &Value| std::cmp::Reverse(row["charged"]["amount"].as_i64()));
    scopes.truncate(10);
    json!({"days": summed(days), "scopes": scopes})
}

/// One row for each day and unit.
fn summed(rows: Vec<Value>) -> Vec<Value> {
    let mut days: Vec<Value> = Vec::new();
    for row in rows {
        let same = |day: &&mut Value| {
            day["day"] == row["day"] && day["charged"]["unit"] == row["charged"]["unit"]
        };
        match days.iter_mut().find(same) {
            Some(day) => {
                let charged = |row: &Value| row["charged"]["amount"].as_i64().unwrap_or(0);
                day["charged"]["amount"] = charged(day).saturating_add(charged(&row)).into();
            }
            None => days.push(row),
        }
    }
    in_order(days)
}

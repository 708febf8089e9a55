//! The first page: for operators what needs attention, for others their tenant.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::{Value, json};

use super::super::Console;
use super::super::operations::Refused;
use super::super::session::Reader;
use super::{budget, rows, text};
use crate::api::operations::OperationId;
use crate::domain::budget::ledger::BudgetStatus;
use crate::domain::moment::Moment;
use crate::store::dispatcher::views::View;

/// Budgets of a list, and how many are looked up for them.
const BUDGETS_MAX: usize = 5;
const LOOKUPS_MAX: usize = 10;
/// From which share on a budget is nearly used up, in percent; one of the default thresholds.
const NEARLY_PERCENT: i128 = 95;
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
    let more = console.attention.or_read(attention(&reader)).await;
    let store = &console.state.store;
    let watermark_ms = store.watermark(View::Events).await.unwrap_or(0);
    let lag_seconds = (watermark_ms > 0).then(|| (reader.now_ms - watermark_ms).max(0) / 1_000);
    let context = json!({
        "title": "Overview", "overview": overview, "lag_seconds": lag_seconds,
        "more": more.unwrap_or_else(|refused| json!({"message": refused.message})),
        "memory_percent": store.fullest_share().percent(),
    });
    Ok(reader.page("overview.html", context))
}

/// Budgets and keys that need attention, beside what the API's overview has.
async fn attention(reader: &Reader) -> Result<Value, Refused> {
    let nearly = async {
        let crossed = events_of(reader, "budget.threshold_crossed").await?;
        let rose = |event: &&Value| {
            event["data"]["threshold"].as_f64() >= Some(NEARLY_PERCENT as f64 / 100.0)
                && event["data"]["direction"] == "rising"
        };
        let nearly = budgets_of(reader, crossed.iter().filter(rose), |budget| {
            let figure = |name: &str| i128::from(budget[name]["amount"].as_i64().unwrap_or(0));
            let (used, allocated) = (figure("spent") + figure("reserved"), figure("allocated"));
            allocated > 0 && used * 100 >= allocated * NEARLY_PERCENT
        });
        nearly.await
    };
    let frozen = async {
        let frozen = events_of(reader, "budget.frozen").await?;
        let frozen = budgets_of(reader, frozen.iter(), |budget| {
            budget["status"] == BudgetStatus::Frozen.as_str()
        });
        frozen.await
    };
    let (nearly, frozen, keys) = tokio::try_join!(nearly, frozen, keys_that_end(reader))?;
    Ok(json!({"nearly": nearly, "frozen": frozen, "keys": keys}))
}

/// The latest events of a type.
async fn events_of(reader: &Reader, event_type: &str) -> Result<Vec<Value>, Refused> {
    let wanted = [("event_type", event_type), ("limit", "100")];
    let events = reader.operations.get(reader.events(), "", &wanted).await?;
    Ok(rows(events, "events"))
}

/// The budgets of events, each once, as they are now.
async fn budgets_of(
    reader: &Reader,
    events: impl Iterator<Item = &Value>,
    still: impl Fn(&Value) -> bool,
) -> Result<Vec<Value>, Refused> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for event in events {
        let (tenant, data) = (text(event, "tenant_id"), &event["data"]);
        let named = (text(data, "scope"), text(data, "unit"));
        if found.len() == BUDGETS_MAX || seen.len() == LOOKUPS_MAX {
            break;
        }
        if seen.contains(&named) {
            continue;
        }
        seen.push(named);
        let budget = budget::find(reader, tenant, named.0, named.1).await?;
        found.extend(budget.filter(&still));
    }
    Ok(found)
}

/// The active keys that end within days, the next one first.
async fn keys_that_end(reader: &Reader) -> Result<Vec<Value>, Refused> {
    let wanted = [
        ("status", "ACTIVE"),
        ("sort_by", "expires_at"),
        ("sort_dir", "asc"),
        ("limit", "5"),
    ];
    let page = reader.operations.get(OperationId::ListApiKeys, "", &wanted);
    let mut keys = rows(page.await?, "keys");
    let end_ms = reader.now_ms + KEY_DAYS * 24 * 3_600_000;
    keys.retain(|key| {
        Moment::parse(text(key, "expires_at")).is_some_and(|end| end.as_ms() <= end_ms)
    });
    Ok(keys)
}

//! What all tenants used in the last 30 days. A page of its own, which the overview shows as a part once it is there.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::Console;
use super::super::operations::{Refused, for_operators};
use super::super::session::Reader;
use super::usage::in_order;
use super::{rows, text};
use crate::api::operations::OperationId;

/// Up to how many tenants their usage is summed up: the API reports that of one at a time.
const TENANTS_MAX: &str = "10";
/// How long that may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Scopes of each unit.
const SCOPES_MAX: usize = 5;

pub(in crate::console) async fn show(
    reader: Reader,
    State(console): State<Arc<Console>>,
) -> Result<Response, Response> {
    // What was read last is there for any reader, so it is not the operations that refuse others.
    if reader.tenant.is_some() {
        return Err(for_operators().into());
    }
    let spend = console.spend.or_read(async {
        let spend = timeout(LIMIT, spend(&reader)).await;
        spend.unwrap_or_else(|_| {
            Err(Refused {
                status: StatusCode::SERVICE_UNAVAILABLE,
                message: "The reports of usage took too long.".to_owned(),
            })
        })
    });
    let context = json!({"title": "Used in the last 30 days", "spend": spend.await?});
    Ok(reader.page("spend.html", context))
}

/// By day, and the scopes with the highest charges of each unit; `null` above so many tenants.
async fn spend(reader: &Reader) -> Result<Value, Refused> {
    let operations = &reader.operations;
    let tenants = [("limit", TENANTS_MAX)];
    let tenants = operations
        .get(OperationId::ListTenants, "", &tenants)
        .await?;
    if tenants["has_more"] == true {
        return Ok(Value::Null);
    }
    let (mut days, mut scopes) = (Vec::new(), Vec::new());
    for tenant in rows(tenants, "tenants") {
        for (group, limit, found) in [("day", "1000", &mut days), ("scope", "20", &mut scopes)] {
            let wanted = [
                ("tenant_id", text(&tenant, "tenant_id")),
                ("group_by", group),
                ("limit", limit),
            ];
            let report = operations.get(OperationId::GetTenantUsage, "", &wanted);
            found.extend(rows(report.await?, "usage"));
        }
    }
    scopes.sort_by_key(|row: &Value| Reverse(row["charged"]["amount"].as_i64()));
    let mut highest: Vec<Value> = Vec::new();
    for row in scopes {
        let same = |other: &&Value| other["charged"]["unit"] == row["charged"]["unit"];
        if row["other"] != true && highest.iter().filter(same).count() < SCOPES_MAX {
            highest.push(row);
        }
    }
    Ok(json!({"days": in_order(summed(days)), "scopes": highest}))
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
    days
}

//! The first page: for operators what needs attention, for others their tenant.

use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::{Value, json};

use super::super::session::Reader;
use crate::api::operations::OperationId;

pub(in crate::console) async fn show(reader: Reader) -> Result<Response, Response> {
    if let Some(tenant) = &reader.tenant {
        return Ok(Redirect::to(&format!("/console/tenants/{tenant}")).into_response());
    }
    let operations = &reader.operations;
    let overview = operations
        .get(OperationId::GetAdminOverview, "", &[])
        .await?;
    let nearly = [
        ("utilization_min", "0.95"),
        ("status", "ACTIVE"),
        ("sort_by", "utilization"),
        ("limit", "10"),
    ];
    // Without a tenant, where this deployment allows that.
    let nearly = operations.get(OperationId::ListBudgets, "", &nearly).await;
    let nearly = nearly.map_or(Value::Null, |mut page| page["ledgers"].take());
    Ok(reader.page(
        "overview.html",
        json!({"title": "Overview", "overview": overview, "nearly": nearly}),
    ))
}

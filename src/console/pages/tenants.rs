//! Tenants, and the budgets of one.

use axum::extract::{Path, RawQuery};
use axum::response::Response;
use serde_json::{Value, json};

use super::super::forms::Form;
use super::super::session::Reader;
use super::ROWS;
use crate::api::operations::OperationId;

pub(in crate::console) async fn list(
    reader: Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let query = Form::parse(query.unwrap_or_default().as_bytes());
    let wanted = [
        ("search", &query["search"]),
        ("status", &query["status"]),
        ("cursor", &query["cursor"]),
        ("limit", ROWS),
    ];
    let page = reader
        .operations
        .get(OperationId::ListTenants, "", &wanted)
        .await?;
    Ok(reader.page(
        "tenants.html",
        json!({"title": "Tenants", "page": page, "query": query.json()}),
    ))
}

pub(in crate::console) async fn show(
    reader: Reader,
    Path(named): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let query = Form::parse(query.unwrap_or_default().as_bytes());
    let tenant = reader.tenant_or(&named);
    let wanted = [
        ("tenant_id", tenant),
        ("scope_prefix", &query["scope"]),
        ("unit", &query["unit"]),
        ("status", &query["status"]),
        ("cursor", &query["cursor"]),
        ("limit", ROWS),
    ];
    let page = reader
        .operations
        .get(OperationId::ListBudgets, "", &wanted)
        .await?;
    let record = match reader.tenant {
        None => {
            reader
                .operations
                .get(OperationId::GetTenant, tenant, &[])
                .await?
        }
        Some(_) => Value::Null,
    };
    let context = json!({"title": tenant, "tenant": tenant, "record": record, "page": page, "query": query.json()});
    Ok(reader.page("tenant.html", context))
}

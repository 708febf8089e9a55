//! Tenants, and the budgets of one.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::forms::Form;
use super::super::render::refusal;
use super::super::session::Reader;
use super::ROWS;
use crate::api::operations::OperationId;

pub(in crate::console) async fn list(reader: Reader, query: Form) -> Result<Response, Response> {
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

/// Which budgets of a tenant a page lists: what a reader chooses, and the parameter that selects it.
const CHOICES: [(&str, &str, &str); 4] = [
    ("nearly", "utilization_min", "0.95"),
    ("over", "over_limit", "true"),
    ("debt", "has_debt", "true"),
    ("frozen", "status", "FROZEN"),
];

pub(in crate::console) async fn show(
    reader: Reader,
    Path(named): Path<String>,
    query: Form,
) -> Result<Response, Response> {
    let tenant = reader.tenant_or(&named);
    // Scopes in order are the tree; they have an index, so this order costs the same for any number of budgets.
    let order = match &query["sort_by"] {
        "" => ("scope", "asc"),
        order => (order, "desc"),
    };
    let mut wanted = vec![
        ("tenant_id", tenant),
        ("scope_prefix", &query["scope"]),
        ("search", &query["search"]),
        ("sort_by", order.0),
        ("sort_dir", order.1),
        ("cursor", &query["cursor"]),
        ("limit", ROWS),
    ];
    let choice = CHOICES.iter().find(|(name, ..)| *name == &query["show"]);
    match choice {
        Some((_, name, value)) => wanted.push((name, value)),
        None if query["show"].is_empty() => {}
        None => {
            let message = "show must be one of nearly, over, debt and frozen, or absent.";
            return Err(refusal(StatusCode::BAD_REQUEST, message));
        }
    }
    let budgets = reader.operations.get(OperationId::ListBudgets, "", &wanted);
    let page = budgets.await?;
    let record = match reader.tenant {
        None => {
            reader
                .operations
                .get(OperationId::GetTenant, tenant, &[])
                .await?
        }
        Some(_) => Value::Null,
    };
    let context = json!({
        "title": tenant, "tenant": tenant, "record": record, "page": page, "query": query.json(),
    });
    Ok(reader.page("tenant.html", context))
}

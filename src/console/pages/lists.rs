//! Lists that are only read: events, the audit log, webhooks, API keys, policies.

use axum::extract::{Path, RawQuery};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::forms::Form;
use super::super::render::refusal;
use super::super::session::Reader;
use super::ROWS;
use crate::api::operations::OperationId;

/// A list, a page for itself.
struct ListPage {
    /// Its path below `/console`, and the name of its template.
    name: &'static str,
    title: &'static str,
    /// For operators.
    all: OperationId,
    /// For the holder of an API key.
    own: Option<OperationId>,
    filters: &'static [&'static str],
}

static LISTS: [ListPage; 5] = [
    ListPage {
        name: "events",
        title: "Events",
        all: OperationId::ListEvents,
        own: Some(OperationId::ListTenantEvents),
        filters: &["event_type", "category", "scope"],
    },
    ListPage {
        name: "audit",
        title: "Audit log",
        all: OperationId::ListAuditLogs,
        own: None,
        filters: &["operation", "key_id", "resource_id", "error_code"],
    },
    ListPage {
        name: "webhooks",
        title: "Webhooks",
        all: OperationId::ListWebhookSubscriptions,
        own: Some(OperationId::ListTenantWebhooks),
        filters: &["status"],
    },
    ListPage {
        name: "keys",
        title: "API keys",
        all: OperationId::ListApiKeys,
        own: None,
        filters: &["status"],
    },
    ListPage {
        name: "policies",
        title: "Policies",
        all: OperationId::ListPolicies,
        own: Some(OperationId::ListPolicies),
        filters: &["status", "scope_pattern"],
    },
];

/// The list of this name; any other path below `/console` is no page.
pub(in crate::console) async fn show(
    reader: Reader,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let list = LISTS.iter().find(|list| list.name == name);
    let operation = |list: &ListPage| match reader.tenant {
        Some(_) => list.own,
        None => Some(list.all),
    };
    let Some((list, operation)) = list.and_then(|list| Some((list, operation(list)?))) else {
        let message = "There is no such page, or it is for operators.";
        return Ok(refusal(StatusCode::NOT_FOUND, message));
    };
    let query = Form::parse(query.unwrap_or_default().as_bytes());
    let mut wanted = vec![
        ("tenant_id", reader.naming(&query["tenant"])),
        ("cursor", &query["cursor"]),
        ("limit", ROWS),
    ];
    wanted.extend(list.filters.iter().map(|name| (*name, &query[name])));
    // The API lists the policies of one tenant alone.
    let has_tenant = list.name != "policies" || !reader.tenant_or(&query["tenant"]).is_empty();
    let page = match has_tenant {
        true => reader.operations.get(operation, "", &wanted).await?,
        false => Value::Null,
    };
    let context =
        json!({"title": list.title, "page": page, "query": query.json(), "filters": list.filters});
    Ok(reader.page(&format!("{}.html", list.name), context))
}

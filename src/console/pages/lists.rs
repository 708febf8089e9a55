//! Lists, a page each: events, the audit log, webhooks, API keys, policies, reservations, usage events.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::forms::Form;
use super::super::render::refusal;
use super::super::session::{Posted, Reader};
use super::{ROWS, keys, no_such_change, webhooks};
use crate::api::operations::OperationId;
use crate::domain::api_key::permission::Permission;

/// A list.
struct ListPage {
    /// Its path below `/console`, and the name of its template.
    name: &'static str,
    title: &'static str,
    /// For operators.
    all: OperationId,
    /// For the holder of an API key.
    own: Option<OperationId>,
    /// The parameter that names the tenant.
    tenant: &'static str,
    /// Whether the API lists those of one tenant alone.
    of_one: bool,
    filters: &'static [&'static str],
}

const SUBJECT: [&str; 5] = ["workspace", "app", "workflow", "agent", "toolset"];

static LISTS: [ListPage; 7] = [
    ListPage {
        name: "events",
        title: "Events",
        all: OperationId::ListEvents,
        own: Some(OperationId::ListTenantEvents),
        tenant: "tenant_id",
        of_one: false,
        filters: &[
            "event_type",
            "category",
            "scope",
            "search",
            "correlation_id",
        ],
    },
    ListPage {
        name: "audit",
        title: "Audit log",
        all: OperationId::ListAuditLogs,
        own: None,
        tenant: "tenant_id",
        of_one: false,
        filters: &[
            "operation",
            "key_id",
            "resource_id",
            "error_code",
            "request_id",
        ],
    },
    ListPage {
        name: "webhooks",
        title: "Webhooks",
        all: OperationId::ListWebhookSubscriptions,
        own: Some(OperationId::ListTenantWebhooks),
        tenant: "tenant_id",
        of_one: false,
        filters: &["status", "search"],
    },
    ListPage {
        name: "keys",
        title: "API keys",
        all: OperationId::ListApiKeys,
        own: None,
        tenant: "tenant_id",
        of_one: false,
        filters: &["status", "search"],
    },
    ListPage {
        name: "policies",
        title: "Policies",
        all: OperationId::ListPolicies,
        own: Some(OperationId::ListPolicies),
        tenant: "tenant_id",
        of_one: true,
        filters: &["status", "scope_pattern"],
    },
    ListPage {
        name: "reservations",
        title: "Reservations",
        all: OperationId::ListReservations,
        own: Some(OperationId::ListReservations),
        tenant: "tenant",
        of_one: true,
        filters: &[
            "status",
            "idempotency_key",
            SUBJECT[0],
            SUBJECT[1],
            SUBJECT[2],
            SUBJECT[3],
            SUBJECT[4],
        ],
    },
    ListPage {
        name: "charges",
        title: "Usage events",
        all: OperationId::ListUsageEvents,
        own: Some(OperationId::ListUsageEvents),
        tenant: "tenant",
        of_one: true,
        filters: &[
            "action_kind",
            "action_name",
            SUBJECT[0],
            SUBJECT[1],
            SUBJECT[2],
            SUBJECT[3],
            SUBJECT[4],
        ],
    },
];

/// The list of this name; any other path below `/console` is no page.
pub(in crate::console) async fn show(
    reader: Reader,
    Path(name): Path<String>,
    query: Form,
) -> Result<Response, Response> {
    show_with(&reader, &name, &query, json!({})).await
}

/// The list. `context`: what its form to create something shows besides.
async fn show_with(
    reader: &Reader,
    name: &str,
    query: &Form,
    mut context: Value,
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
    let tenant = match list.of_one {
        // Here, reservations have no tenant by themselves.
        true => reader.tenant_or(&query["tenant"]),
        false => reader.naming(&query["tenant"]),
    };
    let mut wanted = vec![
        (list.tenant, tenant),
        ("cursor", &query["cursor"]),
        ("limit", ROWS),
    ];
    if list.name == "reservations" {
        wanted.push(("include", "key_id"));
    }
    wanted.extend(list.filters.iter().map(|name| (*name, &query[name])));
    context["page"] = match (
        list.of_one && tenant.is_empty(),
        context["created"].is_null(),
    ) {
        (true, _) => Value::Null,
        (false, true) => reader.operations.get(operation, "", &wanted).await?,
        // The secret is shown this once, whether the list can be read or not.
        (false, false) => reader.operations.part(operation, "", &wanted).await,
    };
    context["title"] = list.title.into();
    context["query"] = query.json();
    context["filters"] = json!(list.filters);
    context["permissions"] = json!(Permission::WORDS);
    if context["key"].is_null() {
        context["key"] = query.key().into();
    }
    Ok(reader.page(&format!("{}.html", list.name), context))
}

/// Creates an API key or a webhook, and shows its secret, once.
pub(in crate::console) async fn create(
    reader: Reader,
    Path(name): Path<String>,
    Posted(form): Posted,
) -> Result<Response, Response> {
    let created = match name.as_str() {
        "keys" => keys::create(&reader, &form).await,
        "webhooks" => webhooks::create(&reader, &form).await,
        _ => return Ok(no_such_change()),
    };
    let context = match created {
        Ok((id, secret)) => json!({"created": id, "secret": secret}),
        Err(problem) => json!({
            "problem": problem, "form": form.json(), "key": form.key(),
            "selected": form.all("permissions").collect::<Vec<_>>(),
        }),
    };
    let query = Form::parse(b"");
    show_with(&reader, &name, &query, context).await
}

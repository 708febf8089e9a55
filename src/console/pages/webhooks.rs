//! Webhooks: one of them, its deliveries, what can be done with it, and new ones.

use axum::extract::Path;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::{Value, json};

use super::super::forms::Form;
use super::super::session::{Posted, Reader};
use super::{ROWS, no_such_change, text};
use crate::api::operations::OperationId;

pub(in crate::console) async fn show(
    reader: Reader,
    Path(id): Path<String>,
    query: Form,
) -> Result<Response, Response> {
    let context = json!({"done": &query["done"]});
    show_with(&reader, &id, &query, context).await
}

async fn show_with(
    reader: &Reader,
    id: &str,
    query: &Form,
    mut context: Value,
) -> Result<Response, Response> {
    let get = reader.may(
        OperationId::GetWebhookSubscription,
        OperationId::GetTenantWebhook,
    );
    let webhook = reader.operations.get(get, id, &[]).await?;
    let list = reader.may(
        OperationId::ListWebhookDeliveries,
        OperationId::ListTenantWebhookDeliveries,
    );
    let wanted = [
        ("status", &query["status"]),
        ("cursor", &query["cursor"]),
        ("limit", ROWS),
    ];
    context["page"] = reader.operations.part(list, id, &wanted).await;
    context["title"] = match text(&webhook, "name") {
        "" => text(&webhook, "url"),
        name => name,
    }
    .into();
    context["webhook"] = webhook;
    context["query"] = query.json();
    context["key"] = query.key().into();
    Ok(reader.page("webhook.html", context))
}

/// Tests it, pauses or resumes it, or delivers events again.
pub(in crate::console) async fn carry_out(
    reader: Reader,
    Path(id): Path<String>,
    Posted(form): Posted,
) -> Result<Response, Response> {
    let update = reader.may(
        OperationId::UpdateWebhookSubscription,
        OperationId::UpdateTenantWebhook,
    );
    let (operation, body) = match &form["change"] {
        "test" => (
            reader.may(
                OperationId::TestWebhookSubscription,
                OperationId::TestTenantWebhook,
            ),
            Value::Null,
        ),
        "pause" => (update, json!({"status": "PAUSED"})),
        "resume" => (update, json!({"status": "ACTIVE"})),
        "replay" => (
            reader.may(OperationId::ReplayEvents, OperationId::ReplayTenantEvents),
            window(&form),
        ),
        _ => return Ok(no_such_change()),
    };
    let sent = (form["key"].as_ref(), body);
    let outcome = reader.operations.send(operation, &id, &[], sent).await;
    let context = match (outcome, &form["change"]) {
        (Ok(outcome), "test" | "replay") => json!({"outcome": outcome}),
        (Ok(_), change) => {
            let to = format!("/console/webhooks/{id}?done={change}");
            return Ok(Redirect::to(&to).into_response());
        }
        (Err(refused), _) => json!({"problem": refused.message, "form": form.json()}),
    };
    show_with(&reader, &id, &Form::parse(b""), context).await
}

/// The times of a replay. The fields have no zone; the page says that they are in UTC.
fn window(form: &Form) -> Value {
    let mut body = json!({});
    for name in ["from", "to"] {
        if !form[name].is_empty() {
            body[name] = format!("{}:00Z", &form[name]).into();
        }
    }
    body
}

/// Creates one: its id and its signing secret.
pub(super) async fn create(reader: &Reader, form: &Form) -> Result<(String, String), String> {
    let types: Vec<&str> = form["event_types"].split_whitespace().collect();
    let mut body = json!({"url": form["url"], "event_types": types});
    if !form["name"].is_empty() {
        body["name"] = form["name"].into();
    }
    let operation = reader.may(
        OperationId::CreateWebhookSubscription,
        OperationId::CreateTenantWebhook,
    );
    let query = [("tenant_id", reader.naming(&form["tenant"]))];
    let sent = (form["key"].as_ref(), body);
    let created = reader.operations.send(operation, "", &query, sent).await;
    let created = created.map_err(|refused| refused.message)?;
    Ok((
        text(&created["subscription"], "subscription_id").to_owned(),
        text(&created, "signing_secret").to_owned(),
    ))
}

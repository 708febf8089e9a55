//! API keys: one of them, its end, and new ones.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::{Value, json};

use super::super::forms::{Form, query_of};
use super::super::operations::Refused;
use super::super::session::{Posted, Reader};
use super::text;
use crate::api::operations::OperationId;

pub(in crate::console) async fn show(
    reader: Reader,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Response> {
    show_with(&reader, &id, &form, "").await
}

async fn show_with(
    reader: &Reader,
    id: &str,
    form: &Form,
    problem: &str,
) -> Result<Response, Response> {
    // A key of a tenant is found among those of the tenant, however many there are.
    let wanted = [("search", id), ("tenant_id", &form["tenant"])];
    let page = reader.operations.get(OperationId::ListApiKeys, "", &wanted);
    let page = page.await?;
    let mut keys = page["keys"].as_array().into_iter().flatten();
    let Some(api_key) = keys.find(|key| text(key, "key_id") == id) else {
        return Err(Response::from(Refused {
            status: StatusCode::NOT_FOUND,
            message: "There is no such API key.".to_owned(),
        }));
    };
    let context = json!({
        "title": text(api_key, "name"), "api_key": api_key, "problem": problem, "done": &form["done"], "key": form.key(),
    });
    Ok(reader.page("key.html", context))
}

/// Revokes it.
pub(in crate::console) async fn revoke(
    reader: Reader,
    Path(id): Path<String>,
    Posted(form): Posted,
) -> Result<Response, Response> {
    let query = [("reason", form["reason"].trim())];
    let sent = (form["key"].as_ref(), Value::Null);
    let revoked = reader
        .operations
        .send(OperationId::RevokeApiKey, &id, &query, sent);
    match revoked.await {
        Ok(_) => {
            let query = query_of(&[("done", "revoke"), ("tenant", &form["tenant"])]);
            Ok(Redirect::to(&format!("/console/keys/{id}?{query}")).into_response())
        }
        Err(refused) => show_with(&reader, &id, &form, &refused.message).await,
    }
}

/// Creates one: its id and its secret.
pub(super) async fn create(reader: &Reader, form: &Form) -> Result<(String, String), String> {
    let mut body = json!({"tenant_id": form["tenant"], "name": form["name"]});
    let permissions: Vec<&str> = form.all("permissions").collect();
    if !permissions.is_empty() {
        body["permissions"] = json!(permissions);
    }
    let scopes: Vec<&str> = form["scope_filter"].split_whitespace().collect();
    if !scopes.is_empty() {
        body["scope_filter"] = json!(scopes);
    }
    if !form["expires_at"].is_empty() {
        body["expires_at"] = format!("{}T00:00:00Z", &form["expires_at"]).into();
    }
    let sent = (form["key"].as_ref(), body);
    let created = reader
        .operations
        .send(OperationId::CreateApiKey, "", &[], sent);
    let created = created.await.map_err(|refused| refused.message)?;
    Ok((
        text(&created, "key_id").to_owned(),
        text(&created, "key_secret").to_owned(),
    ))
}

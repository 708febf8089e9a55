//! One usage event: what was charged without a reservation, and giving it back.

use axum::extract::Path;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::json;

use super::super::forms::Form;
use super::super::session::{Posted, Reader};
use crate::api::operations::OperationId;

pub(in crate::console) async fn show(
    reader: Reader,
    Path(id): Path<String>,
    query: Form,
) -> Result<Response, Response> {
    show_with(&reader, &id, &query, "").await
}

async fn show_with(
    reader: &Reader,
    id: &str,
    form: &Form,
    problem: &str,
) -> Result<Response, Response> {
    let operations = &reader.operations;
    let charge = operations.get(OperationId::GetUsageEvent, id, &[]).await?;
    let context = json!({
        "title": id, "charge": charge, "form": form.json(), "problem": problem, "done": &form["done"], "key": form.key(),
    });
    Ok(reader.page("charge.html", context))
}

/// Refunds a part of it.
pub(in crate::console) async fn refund(
    reader: Reader,
    Path(id): Path<String>,
    Posted(form): Posted,
) -> Result<Response, Response> {
    let unit = &form["unit"];
    let amount = match form.amount("amount", unit) {
        Ok(amount) => json!({"unit": unit, "amount": amount}),
        Err(problem) => return show_with(&reader, &id, &form, &problem).await,
    };
    let body = json!({"reason": form["reason"], "amount": amount});
    let sent = (form["key"].as_ref(), body);
    let refund = OperationId::RefundUsageEvent;
    match reader.operations.send(refund, &id, &[], sent).await {
        Ok(_) => Ok(Redirect::to(&format!("/console/charges/{id}?done=refund")).into_response()),
        Err(refused) => show_with(&reader, &id, &form, &refused.message).await,
    }
}

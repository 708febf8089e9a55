//! One reservation: its life, and giving back what it holds or has charged.

use axum::extract::Path;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::json;

use super::super::forms::Form;
use super::super::session::{Posted, Reader};
use super::no_such_change;
use crate::api::operations::OperationId;

pub(in crate::console) async fn show(
    reader: Reader,
    Path(id): Path<String>,
    query: Form,
) -> Result<Response, Response> {
    preview_of(&reader, &id, &query, "").await
}

async fn preview_of(
    reader: &Reader,
    id: &str,
    form: &Form,
    problem: &str,
) -> Result<Response, Response> {
    let operations = &reader.operations;
    let reservation = operations.get(OperationId::GetReservation, id, &[]).await?;
    let context = json!({
        "title": id, "reservation": reservation, "form": form.json(), "problem": problem, "done": &form["done"],
        "key": form.key(),
    });
    Ok(reader.page("reservation.html", context))
}

/// Releases what it holds, or refunds a part of what it has charged.
pub(in crate::console) async fn carry_out(
    reader: Reader,
    Path(id): Path<String>,
    Posted(form): Posted,
) -> Result<Response, Response> {
    let mut body = json!({"reason": &form["reason"]});
    let operation = match &form["change"] {
        "release" => OperationId::ReleaseReservation,
        "refund" => match form.amount("amount", &form["unit"]) {
            Ok(amount) => {
                body["amount"] = json!({"unit": &form["unit"], "amount": amount});
                OperationId::RefundReservation
            }
            Err(problem) => return preview_of(&reader, &id, &form, &problem).await,
        },
        _ => return Ok(no_such_change()),
    };
    match reader
        .operations
        .send(operation, &id, &[], (&form["key"], body))
        .await
    {
        Ok(_) => {
            let to = format!("/console/reservations/{id}?done={}", &form["change"]);
            Ok(Redirect::to(&to).into_response())
        }
        Err(refused) => preview_of(&reader, &id, &form, &refused.message).await,
    }
}

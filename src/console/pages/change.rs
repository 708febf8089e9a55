//! Changes of a budget: first what will change, then the change.

use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::json;

use super::super::forms::{Form, query_of};
use super::super::render::refusal;
use super::super::session::{Posted, Reader};
use super::budget;
use crate::api::operations::OperationId;
use crate::domain::words::words;

words! {
    /// What can be done with a budget.
    Change: "snake_case" {
        /// More is allocated.
        Fund,
        /// More is allocated until a time.
        Increase,
        /// The present period ends and another one begins.
        Renew,
        /// Nothing can be reserved.
        Freeze,
        /// It can again.
        Unfreeze,
    }
}

/// Shows what a change will do, and asks for what it needs.
pub(in crate::console) async fn preview(
    reader: Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let form = Form::parse(query.unwrap_or_default().as_bytes());
    preview_of(&reader, &form, "").await
}

async fn preview_of(reader: &Reader, form: &Form, problem: &str) -> Result<Response, Response> {
    if Change::parse(&form["change"]).is_none() {
        return Ok(refusal(
            StatusCode::NOT_FOUND,
            "There is no such change of a budget.",
        ));
    }
    let budget = budget::of(reader, &form["scope"], &form["unit"]).await?;
    let amount = form.amount();
    let problem = match (problem, amount) {
        ("", None) if !form["amount"].is_empty() => "amount must be a whole number",
        _ => problem,
    };
    let figure = |name: &str| budget[name]["amount"].as_i64();
    let after = |name: &str| Some(figure(name)?.saturating_add(amount?));
    let context = json!({
        "title": form["scope"], "budget": budget, "form": form.json(), "problem": problem, "amount": amount,
        "allocated_after": after("allocated"), "remaining_after": after("remaining"),
        "key": form.key(),
    });
    Ok(reader.page("change.html", context))
}

/// Makes the change, and returns to the budget.
pub(in crate::console) async fn carry_out(
    reader: Reader,
    Posted(form): Posted,
) -> Result<Response, Response> {
    let (scope, unit, reason) = (&form["scope"], &form["unit"], form["reason"].trim());
    let amount = json!({"unit": unit, "amount": form.amount()});
    let (operation, mut body) = match Change::parse(&form["change"]) {
        Some(Change::Fund) => (
            OperationId::FundBudget,
            json!({"operation": "CREDIT", "amount": amount}),
        ),
        Some(Change::Renew) => (OperationId::FundBudget, json!({"operation": "RENEW"})),
        Some(Change::Increase) => (
            OperationId::CreateBudgetIncrease,
            json!({"amount": amount, "for": form["for"]}),
        ),
        Some(Change::Freeze) => (OperationId::FreezeBudget, json!({})),
        Some(Change::Unfreeze) => (OperationId::UnfreezeBudget, json!({})),
        None => {
            return Ok(refusal(
                StatusCode::NOT_FOUND,
                "There is no such change of a budget.",
            ));
        }
    };
    if !reason.is_empty() {
        body["reason"] = reason.into();
    }
    // Other operations find the tenant by the scope.
    let budget = budget::of(&reader, scope, unit).await?;
    let tenant = match operation {
        OperationId::FundBudget => reader.naming(budget["tenant_id"].as_str().unwrap_or_default()),
        _ => "",
    };
    let query = [("tenant_id", tenant), ("scope", scope), ("unit", unit)];
    match reader
        .operations
        .send(operation, "", &query, (&form["key"], body))
        .await
    {
        Ok(_) => {
            let query = query_of(&[("scope", scope), ("unit", unit), ("done", &form["change"])]);
            Ok(Redirect::to(&format!("/console/budget?{query}")).into_response())
        }
        Err(refused) => preview_of(&reader, &form, &refused.message).await,
    }
}

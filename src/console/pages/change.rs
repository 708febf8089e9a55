//! Changes of a budget: first what will change, then the change.

use axum::extract::RawQuery;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::{Value, json};

use super::super::forms::{Form, query_of};
use super::super::session::{Posted, Reader};
use super::{budget, no_such_change, text};
use crate::api::operations::OperationId;
use crate::domain::words::words;

words! {
    /// What can be done with a budget.
    Change: "snake_case" {
        /// More is allocated.
        Fund,
        /// More is allocated until a time.
        Increase,
        /// An increase ends before its time.
        EndIncrease,
        /// Debt is repaid.
        Repay,
        /// The present period ends and another one begins.
        Renew,
        /// From now on it renews itself in other periods, or not any more.
        Period,
        /// Nothing can be reserved.
        Freeze,
        /// It can again.
        Unfreeze,
    }
}

impl Change {
    /// Whether it needs more than a reason.
    fn asks(self) -> bool {
        !matches!(
            self,
            Self::EndIncrease | Self::Renew | Self::Freeze | Self::Unfreeze
        )
    }

    /// The operation and its body.
    ///
    /// # Errors
    /// Which field is wrong, and what would be right.
    fn request(self, form: &Form) -> Result<(OperationId, Value), String> {
        let unit = &form["unit"];
        let amount = |name| match form.amount(name, unit)? {
            Some(amount) => Ok(json!({"unit": unit, "amount": amount})),
            None => Err(format!("{name} is missing")),
        };
        let (operation, mut body) = match self {
            Self::Fund => (
                OperationId::FundBudget,
                json!({"operation": "CREDIT", "amount": amount("amount")?}),
            ),
            Self::Repay => (
                OperationId::FundBudget,
                json!({"operation": "REPAY_DEBT", "amount": amount("amount")?}),
            ),
            Self::Increase => (
                OperationId::CreateBudgetIncrease,
                json!({"amount": amount("amount")?, "for": form["for"]}),
            ),
            Self::EndIncrease => return Ok((OperationId::EndBudgetIncrease, Value::Null)),
            Self::Renew => (OperationId::FundBudget, json!({"operation": "RENEW"})),
            Self::Period => return Ok((OperationId::UpdateBudget, period(form, amount)?)),
            Self::Freeze => (OperationId::FreezeBudget, json!({})),
            Self::Unfreeze => (OperationId::UnfreezeBudget, json!({})),
        };
        let reason = form["reason"].trim();
        if !reason.is_empty() {
            body["reason"] = reason.into();
        }
        Ok((operation, body))
    }
}

/// The period of a form; `null` where its length is empty.
fn period(
    form: &Form,
    amount: impl Fn(&'static str) -> Result<Value, String>,
) -> Result<Value, String> {
    if form["every"].is_empty() {
        return Ok(json!({"period": null}));
    }
    let mut period = json!({"every": form["every"]});
    if !form["amount"].is_empty() {
        period["allocated"] = amount("amount")?;
    }
    for name in ["time_zone", "anchor"] {
        if !form[name].is_empty() {
            period[name] = form[name].into();
        }
    }
    if !form["carry_limit"].is_empty() {
        period["carry_limit"] = amount("carry_limit")?;
    }
    Ok(json!({"period": period}))
}

/// Shows what a change will do, and asks for what it needs.
pub(in crate::console) async fn preview(
    reader: Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let query = query.unwrap_or_default();
    let form = Form::parse(query.as_bytes());
    let is_ready = Change::parse(&form["change"]).is_some_and(|change| {
        (form.is_filled() || !change.asks()) && change.request(&form).is_ok()
    });
    if is_ready && form["key"].is_empty() {
        // The address of what is to be confirmed has the idempotency key: confirmed in two windows, it has one effect.
        let to = format!("/console/budget/change?{query}&key={}", form.key());
        return Ok(Redirect::to(&to).into_response());
    }
    preview_of(&reader, &form, "").await
}

async fn preview_of(reader: &Reader, form: &Form, problem: &str) -> Result<Response, Response> {
    let Some(change) = Change::parse(&form["change"]) else {
        return Ok(no_such_change());
    };
    let budget = budget::of(reader, &form["scope"], &form["unit"]).await?;
    let is_filled = form.is_filled();
    // A form that is not filled in yet has no mistakes.
    let (amount, mistake) = match form.amount("amount", &form["unit"]) {
        Err(mistake) => (None, mistake),
        Ok(amount) => {
            let request = change.request(form);
            (
                amount,
                request.err().filter(|_| is_filled).unwrap_or_default(),
            )
        }
    };
    let problem = if problem.is_empty() {
        &mistake
    } else {
        problem
    };
    let asks = change.asks();
    let figure = |name: &str| budget[name]["amount"].as_i64();
    let after = |name: &str| Some(figure(name)?.saturating_add(amount?));
    let context = json!({
        "title": budget::title(&budget), "budget": budget, "form": form.json(), "problem": problem, "amount": amount,
        "asks": asks, "ready": !asks || (is_filled && problem.is_empty()),
        "allocated_after": after("allocated"), "remaining_after": after("remaining"), "key": &form["key"],
    });
    Ok(reader.page("change.html", context))
}

/// Makes the change, and returns to the budget.
pub(in crate::console) async fn carry_out(
    reader: Reader,
    Posted(form): Posted,
) -> Result<Response, Response> {
    let (scope, unit) = (&form["scope"], &form["unit"]);
    let Some(change) = Change::parse(&form["change"]) else {
        return Ok(no_such_change());
    };
    let (operation, body) = match change.request(&form) {
        Ok(request) => request,
        Err(problem) => return preview_of(&reader, &form, &problem).await,
    };
    // Other operations find the tenant by the scope.
    let budget = budget::of(&reader, scope, unit).await?;
    let tenant = match operation {
        OperationId::FundBudget => reader.naming(text(&budget, "tenant_id")),
        _ => "",
    };
    let query = [("tenant_id", tenant), ("scope", scope), ("unit", unit)];
    let sent = (form["key"].as_ref(), body);
    let increase = match change {
        Change::EndIncrease => form["increase"].as_ref(),
        _ => "",
    };
    let sent = reader.operations.send(operation, increase, &query, sent);
    match sent.await {
        Ok(_) => {
            let query = query_of(&[("scope", scope), ("unit", unit), ("done", &form["change"])]);
            Ok(Redirect::to(&format!("/console/budget?{query}")).into_response())
        }
        Err(refused) => preview_of(&reader, &form, &refused.message).await,
    }
}

//! Bulk actions: one change of all tenants, budgets or webhooks that a filter selects.

use std::io::Write;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::output::{Output, plain};
use crate::api::operations::OperationId;
use crate::tools::call::{Call, given};
use crate::tools::client::Client;
use crate::tools::client_error::{CallError, Retry};

/// Columns of the rows that were not changed.
const COLUMNS: &str = "ID=id, OUTCOME=outcome, REASON=reason";

/// What confirms a bulk action.
#[derive(Debug, Args)]
pub(super) struct Confirmed {
    /// Change nothing unless so many match; a list with the same filters shows them
    #[arg(long, value_name = "N", required_unless_present = "yes")]
    expect: Option<i64>,
    /// Change whatever matches, up to 500
    #[arg(long, conflicts_with = "expect")]
    yes: bool,
    /// Makes the command safe to repeat, for 15 minutes
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

/// A bulk action that is to be made.
#[derive(Debug)]
pub(super) struct BulkCall(Call);

impl BulkCall {
    /// One `action` on what `filter` selects, with further members of the body.
    ///
    /// # Errors
    /// [`CallError::Usage`] without a filter.
    pub fn new(
        operation: OperationId,
        action: &str,
        filter: &impl Serialize,
        more: Value,
        confirmed: Confirmed,
    ) -> Result<Self, CallError> {
        let filter = given(filter);
        if filter.is_empty() {
            let text = "a bulk action needs a filter, such as --status or --search".to_owned();
            return Err(CallError::Usage(text));
        }
        let key = confirmed
            .idempotency_key
            .unwrap_or_else(|| Uuid::new_v4().to_string());
        let mut body = json!({
            "filter": filter, "action": action.to_uppercase(), "expected_count": confirmed.expect, "idempotency_key": key,
        });
        if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
            body.extend(more);
        }
        let call = Call::of(operation).body(&body);
        Ok(Self(call.retry(Retry::InBody(key))))
    }

    /// Makes the changes, and prints how many there were and the rows that were not changed.
    ///
    /// # Errors
    /// [`CallError::RowsFailed`] when a row failed.
    pub async fn run(
        &self,
        client: &Client,
        output: &mut Output<impl Write>,
    ) -> Result<(), CallError> {
        let outcome = client.send(&self.0).await?;
        let rows = |member: &str| outcome[member].as_array().cloned().unwrap_or_default();
        let failed = rows("failed").len();
        if output.is_json() {
            output.object(&outcome)?;
        } else {
            output.line(&format!(
                "{} matched: {} done, {} skipped, {failed} failed",
                plain(&outcome["total_matched"]),
                rows("succeeded").len(),
                rows("skipped").len(),
            ))?;
            let left = [("SKIPPED", rows("skipped")), ("FAILED", rows("failed"))];
            let left = left.into_iter().flat_map(|(word, rows)| {
                rows.into_iter().map(move |row| {
                    let reason = ["message", "reason", "error_code"].map(|name| row[name].clone());
                    let reason = reason.into_iter().find(Value::is_string);
                    json!({"id": row["id"], "outcome": word, "reason": reason})
                })
            });
            let left: Vec<Value> = left.collect();
            if !left.is_empty() {
                output.table(COLUMNS, &left, "")?;
            }
        }
        match failed {
            0 => Ok(()),
            _ => Err(CallError::RowsFailed),
        }
    }
}

//! `admin charges`: committed reservations and usage events as one list.

use std::io::Write;

use serde_json::Value;

use super::commands::CommandRow;
use super::{check_tenant, usage};
use crate::api::operations::OperationId;
use crate::tools::call::{Call, CallError};
use crate::tools::client::Client;
use crate::tools::output::{Output, plain};
use crate::tools::pages::PAGE;

/// Prints the newest charges, at most `limit`. Of both lists only the pages that are needed are read.
///
/// # Errors
/// As for [`Client::send`].
pub(super) async fn run(
    row: &CommandRow,
    events: &Call,
    limit: Option<usize>,
    client: &Client,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    let mut committed = events.clone();
    committed.operation = OperationId::ListReservations;
    // A list of reservations lacks these filters.
    committed
        .query
        .retain(|(name, _)| !name.starts_with("action_"));
    let is_wanted = |row: &Value| {
        let is = |name, member: &str| {
            let wanted = usage::value(events, name);
            wanted.is_none_or(|wanted| row["action"][member] == wanted)
        };
        is("action_kind", "kind") && is("action_name", "name")
    };
    let committed = committed.with("status", Some("COMMITTED"));
    let committed = committed.with("include", Some("key_id"));
    let limit = limit.unwrap_or(usize::MAX);
    let pages = |list| client.pages(list, None, limit.clamp(1, PAGE));
    let (mut reservations, mut usage_events) = (pages(&committed), pages(events));
    let mut charges = Vec::new();
    while charges.len() < limit {
        while reservations
            .peek()
            .await?
            .is_some_and(|row| !is_wanted(row))
        {
            reservations.next().await?;
        }
        let created = |row: Option<&Value>| row.and_then(|row| row["created_at_ms"].as_i64());
        let is_event = created(usage_events.peek().await?) > created(reservations.peek().await?);
        let (list, kind, id, charged) = match is_event {
            true => (&mut usage_events, "usage event", "event_id", "charged"),
            false => (
                &mut reservations,
                "reservation",
                "reservation_id",
                "committed",
            ),
        };
        let Some(mut charge) = list.next().await? else {
            break;
        };
        charge["kind"] = kind.into();
        (charge["id"], charge["charged"]) = (charge[id].clone(), charge[charged].clone());
        if !output.is_json {
            let action = ["kind", "name"].map(|member| plain(&charge["action"][member]));
            charge["action"] = action.join(" ").into();
        }
        charges.push(charge);
    }
    if charges.is_empty() {
        check_tenant(events, client).await?;
    }
    output.table(row.columns, &charges, row.nothing)
}

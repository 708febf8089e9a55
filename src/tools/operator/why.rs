//! `admin usage why`: what makes up the figures of a budget, from its record, the report of usage, the lists and the events.

use std::collections::BTreeMap;
use std::io::Write;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::usage;
use crate::api::operations::OperationId;
use crate::tools::call::{Call, CallError};
use crate::tools::client::Client;
use crate::tools::output::{Output, plain};
use crate::tools::pages::PAGE;

/// How many holds, changes and charges that made debt are printed at most.
const MOST: usize = 20;

/// Events of what changes the figures besides requests.
const CHANGES: &str = "budget.funded budget.debited budget.reset budget.debt_repaid budget.reset_spent budget.period_started";

const USAGE: &str =
    "ACTION KIND=action_kind, CHARGED=charged:amount, REFUNDED=refunded:amount, COUNT=count:number";
const HOLDS: &str = "AGE=age:text, RESERVED=reserved:amount, KEY=key_id, SCOPE=scope_path, RESERVATION=reservation_id";
const DEBTS: &str = "TIME=timestamp, DEBT=debt:amount, CHARGE=charge, EVENT=event_id";
const NO_HOLDS: &str = "they are not listed here: where the admin plane has an address of its own, `admin reservation list` at that of the API has them";
/// What else `spent` and `debt` have, or lack.
const BESIDES: &str =
    "it was charged before, repaid, or set by a new period, RENEW or RESET_SPENT since";

/// Prints it for the budget that `lookup` finds.
///
/// # Errors
/// As for [`Client::send`].
pub(super) async fn run(
    lookup: &Call,
    client: &Client,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    let budget = client.send(lookup).await?;
    let mut changes = Vec::new();
    for kind in CHANGES.split(' ') {
        changes.extend(events(client, &budget, kind).await?);
    }
    changes.sort_unstable_by(|a, b| text(&b["timestamp"]).cmp(text(&a["timestamp"])));
    let reset = |event: &&Value| event["event_type"] == "budget.reset_spent";
    let reset = changes.iter().find(reset).map(|event| &event["timestamp"]);
    let starts = [&budget["created_at"], &budget["period_start"]];
    let start = starts.into_iter().chain(reset).map(text).max();
    // Where the admin plane has an address of its own, reservations are not listed there.
    let holds = match holds(client, &budget).await {
        Err(CallError::Refused(refusal)) if refusal.status == 404 => Value::Null,
        holds => holds?,
    };
    let why = json!({
        "usage": charged(client, &budget, start.unwrap_or_default()).await?,
        "holds": holds,
        "debts": debts(client, &budget).await?,
        "changes": changes[..changes.len().min(MOST)],
        "budget": budget,
    });
    match output.is_json {
        true => output.line(&why.to_string()),
        false => print(&why, output),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn amount(of: &Value, name: &str) -> i64 {
    of[name]["amount"].as_i64().unwrap_or(0)
}

/// Whether the budget is charged by a subject with this scope.
fn includes(budget: &Value, scope: &Value) -> bool {
    let rest = text(scope).strip_prefix(text(&budget["scope"]));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A request about what has the segments of the budget's scope.
fn call(budget: &Value, operation: OperationId, tenant: &str) -> Call {
    let call = Call::of(operation).with(tenant, budget["tenant_id"].as_str());
    let segments = text(&budget["scope"]).split('/').skip(1);
    let segments = segments.filter_map(|segment| segment.split_once(':'));
    segments.fold(call, |call, (level, value)| call.with(level, Some(value)))
}

/// What was charged since a time, by kind of action, and the rest of `spent` and `debt`.
async fn charged(client: &Client, budget: &Value, start: &str) -> Result<Value, CallError> {
    let day = start.get(..10).unwrap_or_default();
    let report = call(budget, OperationId::GetTenantUsage, "tenant_id")
        .with("unit", budget["unit"].as_str())
        .with("group_by", Some("scope,action_kind"));
    let read = async |from: String| {
        let report = report.clone().with("from", Some(&from));
        let mut pages = client.pages(&report, None, usage::PAGE);
        Ok((from, pages.rest().await?, pages.page))
    };
    let (from, rows, page) = match read(day.to_owned()).await {
        // The days of an old month may be known together only.
        Err(CallError::Refused(refusal)) if refusal.status == 400 => {
            read(format!("{}-01", day.get(..7).unwrap_or_default())).await?
        }
        read => read?,
    };
    let (mut kinds, mut net) = (BTreeMap::<_, [i64; 3]>::new(), 0_i64);
    // What is known as a sum was charged to the tenant, in whatever scopes.
    let is_in = |row: &&Value| row["other"] == true || includes(budget, &row["scope"]);
    for row in rows.iter().filter(is_in) {
        let [charged, refunded] = ["charged", "refunded"].map(|name| amount(row, name));
        let count = row["count"].as_i64().unwrap_or(0);
        net = net.saturating_add(charged).saturating_sub(refunded);
        let totals = kinds.entry(row["action_kind"].as_str()).or_default();
        for (sum, figure) in totals.iter_mut().zip([charged, refunded, count]) {
            *sum = sum.saturating_add(figure);
        }
    }
    let of = |amount: i64| json!({"unit": budget["unit"], "amount": amount});
    let rows = kinds.into_iter().map(|(kind, [charged, refunded, count])| {
        let (kind, charged, refunded) = (kind.unwrap_or("(other)"), of(charged), of(refunded));
        json!({"action_kind": kind, "charged": charged, "refunded": refunded, "count": count})
    });
    let used = amount(budget, "spent").saturating_add(amount(budget, "debt"));
    Ok(json!({
        "from": from.max(text(&page["complete_from"]).to_owned()),
        "complete": page["complete"],
        "rows": rows.collect::<Vec<_>>(),
        "difference": of(used.saturating_sub(net)),
    }))
}

/// The largest active reservations, and how many others there are.
async fn holds(client: &Client, budget: &Value) -> Result<Value, CallError> {
    let active = call(budget, OperationId::ListReservations, "tenant")
        .with("status", Some("ACTIVE"))
        .with("include", Some("key_id"))
        .with("sort_by", Some("expires_at_ms"));
    let mut pages = client.pages(&active, None, PAGE);
    let (mut largest, mut count) = (Vec::new(), 0);
    while let Some(row) = pages.next().await? {
        if row["reserved"]["unit"] == budget["unit"] && includes(budget, &row["scope_path"]) {
            count += 1;
            let reserved = amount(&row, "reserved");
            let place = largest.partition_point(|other| amount(other, "reserved") >= reserved);
            largest.insert(place, row);
            largest.truncate(MOST);
        }
    }
    Ok(json!({"count": count, "largest": largest}))
}

/// The events of the charges that made debt since the budget had none, the newest ones.
async fn debts(client: &Client, budget: &Value) -> Result<Vec<Value>, CallError> {
    if amount(budget, "debt") == 0 {
        return Ok(Vec::new());
    }
    let mut events = events(client, budget, "budget.debt_incurred").await?;
    let is_first = |event: &Value| event["data"]["debt_incurred"] == event["data"]["total_debt"];
    let first = events.iter().position(is_first);
    events.truncate(first.map_or(MOST, |first| first + 1));
    Ok(events)
}

/// The newest events of a type about the budget.
async fn events(client: &Client, budget: &Value, kind: &str) -> Result<Vec<Value>, CallError> {
    let events = Call::of(OperationId::ListEvents)
        .with("tenant_id", budget["tenant_id"].as_str())
        .with("scope", budget["scope"].as_str())
        .with("event_type", Some(kind));
    let (mut pages, mut found) = (client.pages(&events, None, PAGE), Vec::new());
    while found.len() < MOST
        && let Some(event) = pages.next().await?
    {
        // The scopes of others begin like it.
        let is_same = |name: &&str| event["data"][*name] == budget[*name];
        if ["scope", "unit"].iter().all(is_same) {
            found.push(event);
        }
    }
    Ok(found)
}

fn print(why: &Value, output: &mut Output<impl Write>) -> Result<(), CallError> {
    let terminal = output.terminal;
    let readable = |value: &Value| {
        let dollars = terminal.dollars(value);
        dollars.unwrap_or_else(|| plain(&value["amount"]))
    };
    let rows = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (budget, usage, holds) = (&why["budget"], &why["usage"], &why["holds"]);
    let [scope, unit] = ["scope", "unit"].map(|name| plain(&budget[name]));
    let figures = ["remaining", "allocated", "spent", "reserved", "debt"];
    let [remaining, allocated, spent, reserved, debt] = figures.map(|name| readable(&budget[name]));
    output.line(&format!(
        "{scope} in {unit}\n{remaining} remaining = {allocated} allocated - {spent} spent - {reserved} held - {debt} debt"
    ))?;
    for increase in rows(&budget["increases"]) {
        let [until, reason] = ["until", "reason"].map(|name| plain(&increase[name]));
        let amount = readable(&increase["amount"]);
        output.line(&format!("{amount} of it allocated until {until}: {reason}"))?;
    }
    let change = &why["changes"][0];
    let operation = plain(&change["data"]["operation"]);
    if let Some(at) = change["timestamp"].as_str() {
        let allocated = &change["data"]["new_state"]["allocated"];
        let allocated = allocated.as_i64().map(|amount| {
            let amount = readable(&json!({"unit": unit, "amount": amount}));
            format!(", {amount} allocated then")
        });
        let reason = change["data"]["reason"]
            .as_str()
            .map(|reason| format!("; {reason}"));
        let [allocated, reason] = [allocated, reason].map(Option::unwrap_or_default);
        output.line(&format!(
            "last changed {at}: {operation}{allocated}{reason}"
        ))?;
    }

    output.line(&format!(
        "\ncharged since {}, in days of UTC:",
        text(&usage["from"])
    ))?;
    output.table(USAGE, &rows(&usage["rows"]), "nothing was charged")?;
    if usage["complete"] == false {
        output.line("incomplete: some usage of these days is only known as a sum of the tenant")?;
    }
    if usage["difference"]["amount"] != 0 {
        let difference = readable(&usage["difference"]);
        output.line(&format!(
            "{difference}: what {spent} spent and {debt} debt have besides these charges; {BESIDES}"
        ))?;
    }

    let count = plain(&holds["count"]);
    let mut largest = rows(&holds["largest"]);
    let many = match holds["count"].as_u64() > Some(MOST as u64) {
        true => format!(", of which the {MOST} largest"),
        false => String::new(),
    };
    output.line(&format!(
        "\n{reserved} held; active reservations: {count}{many}"
    ))?;
    for hold in &mut largest {
        let created = hold["created_at_ms"].as_i64().unwrap_or_default();
        let seconds = (Timestamp::now().as_millisecond() - created) / 1_000;
        hold["age"] = format!("{:#}", SignedDuration::from_secs(seconds.max(0))).into();
    }
    match (holds.is_null(), largest.is_empty()) {
        (true, _) => output.line(NO_HOLDS)?,
        (false, true) => {}
        (false, false) => output.table(HOLDS, &largest, "")?,
    }

    let mut debts = rows(&why["debts"]);
    for event in &mut debts {
        event["debt"] = json!({"unit": budget["unit"], "amount": event["data"]["debt_incurred"]});
        event["charge"] = event["data"]["reservation_id"].clone();
    }
    if !debts.is_empty() {
        output.line(&format!("\n{debt} debt, made by:"))?;
        output.table(DEBTS, &debts, "")?;
    }
    Ok(())
}

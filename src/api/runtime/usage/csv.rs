//! Reports of usage as CSV: the groups as they are, or in the columns of FOCUS 1.2.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};

use crate::api::errors::ApiError;
use crate::api::list::Parameters;
use crate::api::response::note_checked;
use crate::api::state::AppState;
use crate::domain::amount::Unit;
use crate::domain::ids::TenantId;
use crate::domain::usage::UsageGroup;
use crate::ledger::{UsageFilter, UsageReport, UsageSum};
use crate::store::Day;

/// What JSON has in `complete` and `complete_from`.
const COMPLETE: HeaderName = HeaderName::from_static("usage-complete");
const COMPLETE_FROM: HeaderName = HeaderName::from_static("usage-complete-from");

/// A table with a row for each group.
pub(super) fn table(report: UsageReport) -> Result<Response, ApiError> {
    let by = report.groups.by();
    let groups = by.iter().map(|group| group.as_str().to_owned());
    let figures = ["other", "unit", "charged", "refunded", "count", "saturated"].map(str::to_owned);
    let names = groups.chain(figures).collect();
    let row = |sum: UsageSum| {
        let used = sum.used;
        let mut row = texts(sum.values);
        row.extend([
            sum.is_other.to_string(),
            sum.unit.to_string(),
            used.charged.to_string(),
            used.refunded.to_string(),
            used.count.to_string(),
            used.is_saturated.to_string(),
        ]);
        [row]
    };
    written(names, report, row)
}

/// Asks for what FOCUS needs: days, and money alone.
///
/// # Errors
/// 400 where the request asks for something else.
pub(super) fn for_focus(
    filter: &mut UsageFilter,
    parameters: &Parameters<'_>,
) -> Result<(), ApiError> {
    if filter.unit.is_some_and(|unit| unit != Unit::UsdMicrocents) {
        return Err(parameters.refusal("unit", "FOCUS has USD_MICROCENTS alone; leave it out"));
    }
    if filter.groups.contains(&UsageGroup::Month) {
        return Err(parameters.refusal("group_by", "FOCUS has a row for each day; leave month out"));
    }
    filter.unit = Some(Unit::UsdMicrocents);
    if !filter.groups.contains(&UsageGroup::Day) {
        filter.groups.push(UsageGroup::Day);
    }
    Ok(())
}

/// The name of the service, where FOCUS asks who provides, publishes and invoices.
const SERVICE: &str = "Budget Authority Service";

/// The columns that FOCUS 1.2 requires, in its order. The members of the group follow, with names that begin with `x_`.
const FOCUS: &str = "BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory \
    ChargeClass ChargeDescription ChargePeriodEnd ChargePeriodStart ContractedCost EffectiveCost InvoiceIssuerName ListCost \
    PricingQuantity PricingUnit ProviderName PublisherName ServiceCategory ServiceName";

/// The columns of FOCUS: for each group and day a row of what was charged, and one of what was given back.
pub(super) async fn focus(
    state: &AppState,
    tenant: &TenantId,
    report: UsageReport,
) -> Result<Response, ApiError> {
    let account = state.store.get_tenant(tenant).await?;
    let account = account.and_then(|record| record.get("name").map(str::to_owned));
    let account = texts(vec![account])[0].replace(char::is_control, " ");
    let by = report.groups.by().to_owned();
    let custom = by.iter().filter(|group| **group != UsageGroup::Day);
    let custom = custom.map(|group| format!("x_{}", pascal(group.as_str())));
    let names = FOCUS
        .split_whitespace()
        .map(str::to_owned)
        .chain(custom)
        .collect();
    let day_place = by
        .iter()
        .position(|group| *group == UsageGroup::Day)
        .unwrap_or_default();
    let complete_from = report.complete_from;
    let rows = |mut sum: UsageSum| {
        let (used, day) = (sum.used, sum.values.remove(day_place));
        let day = day
            .as_deref()
            .and_then(Day::parse_date)
            .unwrap_or(complete_from);
        let [start, end, month, next] = [day, day.plus(1), day.month(0), day.month(1)].map(at);
        let custom = texts(sum.values);
        let note = if used.is_saturated {
            "; a sum went beyond 64 bits"
        } else {
            ""
        };
        let row = |category: &str, what: &str, cost: String, count: String| {
            let unit = if count.is_empty() { "" } else { "Requests" };
            let id = tenant.as_str();
            let cells = format!(
                "{cost}\n{id}\n{account}\nUSD\n{next}\n{month}\n{category}\n\n{what}{note}\n{end}\n{start}\n{cost}\n{cost}\n{SERVICE}\n{cost}\n\
                 {count}\n{unit}\n{SERVICE}\n{SERVICE}\nAI and Machine Learning\n{SERVICE}"
            );
            let cells = cells.split('\n').map(str::to_owned);
            cells.chain(custom.iter().cloned()).collect::<Vec<_>>()
        };
        let (charged, refunded) = (dollars("", used.charged), dollars("-", used.refunded));
        let charged = (used.count > 0).then(|| {
            row(
                "Usage",
                "Charges of agents",
                charged,
                used.count.to_string(),
            )
        });
        let refunded =
            (used.refunded > 0).then(|| row("Credit", "Refunds", refunded, String::new()));
        charged.into_iter().chain(refunded)
    };
    written(names, report, rows)
}

/// CSV of a report.
fn written<R: IntoIterator<Item = Vec<String>>>(
    names: Vec<String>,
    report: UsageReport,
    rows: impl Fn(UsageSum) -> R,
) -> Result<Response, ApiError> {
    let mut body = line(&names);
    for (_, sum) in report.groups.sorted() {
        rows(sum).into_iter().for_each(|row| body += &line(&row));
    }
    note_checked();
    let text = |text: &str| HeaderValue::from_str(text).map_err(ApiError::internal);
    let headers = [
        (
            header::CONTENT_TYPE,
            text("text/csv; charset=utf-8; header=present")?,
        ),
        (
            header::CONTENT_DISPOSITION,
            text("attachment; filename=\"usage.csv\"")?,
        ),
        (
            COMPLETE,
            text(if report.is_complete { "true" } else { "false" })?,
        ),
        (COMPLETE_FROM, text(&report.complete_from.date())?),
    ];
    Ok((headers, body).into_response())
}

/// A line of CSV (RFC 4180).
fn line(cells: &[String]) -> String {
    let cell = |cell: &String| match cell.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    cells.iter().map(cell).collect::<Vec<_>>().join(",") + "\r\n"
}

/// Texts of callers: one that a spreadsheet would take for a formula gets an apostrophe before it.
fn texts(values: Vec<Option<String>>) -> Vec<String> {
    let escaped = |text: String| match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}"),
        false => text,
    };
    values
        .into_iter()
        .map(|value| escaped(value.unwrap_or_default()))
        .collect()
}

/// `action_kind` as `ActionKind`.
fn pascal(word: &str) -> String {
    let capital = |part: &str| part[..1].to_ascii_uppercase() + &part[1..];
    word.split('_').map(capital).collect()
}

/// The beginning of a day.
fn at(day: Day) -> String {
    format!("{}T00:00:00Z", day.date())
}

/// An amount of money in dollars, exactly.
fn dollars(sign: &str, microcents: i64) -> String {
    format!(
        "{sign}{}.{:08}",
        microcents / 100_000_000,
        microcents % 100_000_000
    )
}

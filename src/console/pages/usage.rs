//! What a tenant used, as a table, a chart by day, and CSV.

use axum::response::Response;
use serde_json::{Value, json};

use super::super::forms::{Form, query_of};
use super::super::operations::Query;
use super::super::session::Reader;
use super::{ROWS, rows, text};
use crate::api::operations::OperationId;
use crate::domain::moment::Moment;
use crate::domain::usage::UsageGroup;

/// Filters of the report, which are those of the API.
const FILTERS: [&str; 11] = [
    "from",
    "to",
    "unit",
    "workspace",
    "app",
    "workflow",
    "agent",
    "toolset",
    "action_kind",
    "action_name",
    "key_id",
];

pub(in crate::console) async fn show(reader: Reader, query: Form) -> Result<Response, Response> {
    let group = match &query["group_by"] {
        "" => "app",
        group => group,
    };
    let tenant = reader.tenant_or(&query["tenant"]);
    let mut context = json!({
        "title": "Usage", "query": query.json(), "groups": UsageGroup::WORDS, "tenant": tenant, "group": group,
        "groups_of": group.split(',').collect::<Vec<_>>(), "filters": FILTERS[2..],
    });
    if tenant.is_empty() {
        return Ok(reader.page("usage.html", context));
    }
    let mut report = wanted(&reader, &query, group);
    report.extend([("cursor", &query["cursor"]), ("limit", ROWS)]);
    context["report"] = reader
        .operations
        .get(operation(&reader), "", &report)
        .await?;
    context["days"] = days(&reader, &wanted(&reader, &query, "day")).await;
    let mut link = wanted(&reader, &query, group);
    link[0] = ("tenant", reader.naming(tenant));
    context["csv"] = format!("/console/usage.csv?{}", query_of(&link)).into();
    Ok(reader.page("usage.html", context))
}

/// What was used on each day, for a chart. A month that was merged has no days, and no chart.
pub(super) async fn days(reader: &Reader, wanted: Query<'_>) -> Value {
    let mut report = wanted.to_vec();
    report.retain(|(name, _)| *name != "group_by");
    report.extend([("group_by", "day"), ("limit", "1000")]);
    let days = reader.operations.part(operation(reader), "", &report).await;
    in_order(rows(days, "usage")).into()
}

/// The rows by day, each with its distance from the first day.
pub(super) fn in_order(mut rows: Vec<Value>) -> Vec<Value> {
    const DAY_MS: i64 = 86_400_000;
    let day = |row: &Value| {
        let start = format!("{}T00:00:00Z", text(row, "day"));
        Moment::parse(&start).map_or(0, |start| start.as_ms() / DAY_MS)
    };
    rows.sort_by_key(day);
    let first = rows.first().map_or(0, day);
    for row in &mut rows {
        row["at"] = (day(row) - first).into();
    }
    rows
}

/// The same as CSV, or in the columns of FOCUS.
pub(in crate::console) async fn csv(reader: Reader, query: Form) -> Result<Response, Response> {
    let mut wanted = wanted(&reader, &query, &query["group_by"]);
    wanted.push(("format", &query["format"]));
    Ok(reader.operations.csv(operation(&reader), &wanted).await?)
}

fn operation(reader: &Reader) -> OperationId {
    reader.may(OperationId::GetTenantUsage, OperationId::GetUsage)
}

fn wanted<'a>(reader: &Reader, query: &'a Form, group: &'a str) -> Vec<(&'a str, &'a str)> {
    let fixed = [
        ("tenant_id", reader.naming(&query["tenant"])),
        ("group_by", group),
    ];
    let filters = FILTERS.map(|name| (name, &query[name]));
    fixed.into_iter().chain(filters).collect()
}

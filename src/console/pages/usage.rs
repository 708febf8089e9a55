//! What a tenant used, as a table, a chart by day, and CSV.

use axum::extract::RawQuery;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::super::forms::{Form, query_of};
use super::super::session::Reader;
use crate::api::operations::OperationId;
use crate::domain::usage::UsageGroup;

/// Filters of the report, which are those of the API.
const FILTERS: [&str; 12] = [
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
    "cursor",
];

pub(in crate::console) async fn show(
    reader: Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let query = Form::parse(query.unwrap_or_default().as_bytes());
    let mut link = wanted(&reader, &query, group_of(&query));
    link[0] = ("tenant", &query["tenant"]);
    let context = |reports: Value| {
        json!({
            "title": "Usage", "query": query.json(), "groups": UsageGroup::WORDS, "tenant": reader.tenant_or(&query["tenant"]),
            "group": group_of(&query), "report": reports[0], "days": reports[1],
            "csv": format!("/console/usage.csv?{}", query_of(&link)),
        })
    };
    if reader.tenant_or(&query["tenant"]).is_empty() {
        return Ok(reader.page("usage.html", context(Value::Null)));
    }
    let report = wanted(&reader, &query, group_of(&query));
    let report = reader
        .operations
        .get(operation(&reader), "", &report)
        .await?;
    let days = wanted(&reader, &query, "day");
    // A month that was merged has no days.
    let days = reader.operations.get(operation(&reader), "", &days).await;
    let mut days = days.map_or(Value::Null, |mut page| page["usage"].take());
    if let Some(days) = days.as_array_mut() {
        days.sort_by(|a, b| a["day"].as_str().cmp(&b["day"].as_str()));
    }
    Ok(reader.page("usage.html", context(json!([report, days]))))
}

/// The same as CSV, or in the columns of FOCUS.
pub(in crate::console) async fn csv(
    reader: Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let query = Form::parse(query.unwrap_or_default().as_bytes());
    let mut wanted = wanted(&reader, &query, &query["group_by"]);
    wanted.retain(|(name, _)| *name != "limit" && *name != "cursor");
    wanted.push(("format", &query["format"]));
    let csv = reader.operations.csv(operation(&reader), &wanted).await?;
    let kind = HeaderValue::from_static("text/csv; charset=utf-8; header=present");
    let name = HeaderValue::from_static("attachment; filename=\"usage.csv\"");
    Ok((
        [
            (header::CONTENT_TYPE, kind),
            (header::CONTENT_DISPOSITION, name),
        ],
        csv,
    )
        .into_response())
}

fn operation(reader: &Reader) -> OperationId {
    match reader.tenant {
        Some(_) => OperationId::GetUsage,
        None => OperationId::GetTenantUsage,
    }
}

fn group_of(query: &Form) -> &str {
    match &query["group_by"] {
        "" => "app",
        group => group,
    }
}

fn wanted<'a>(reader: &'a Reader, query: &'a Form, group: &'a str) -> Vec<(&'a str, &'a str)> {
    let tenant = match reader.tenant {
        Some(_) => "",
        None => &query["tenant"],
    };
    let fixed = [("tenant_id", tenant), ("group_by", group), ("limit", "100")];
    let filters = FILTERS.map(|name| (name, &query[name]));
    fixed.into_iter().chain(filters).collect()
}

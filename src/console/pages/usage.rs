//! What a tenant used, as a table, a chart by day, and CSV.

use axum::extract::RawQuery;
use axum::response::Response;
use serde_json::json;

use super::super::forms::{Form, query_of};
use super::super::session::Reader;
use crate::api::operations::OperationId;
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

pub(in crate::console) async fn show(
    reader: Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let query = Form::parse(query.unwrap_or_default().as_bytes());
    let group = match &query["group_by"] {
        "" => "app",
        group => group,
    };
    let tenant = reader.tenant_or(&query["tenant"]);
    let mut context = json!({
        "title": "Usage", "query": query.json(), "groups": UsageGroup::WORDS, "tenant": tenant, "group": group,
    });
    if tenant.is_empty() {
        return Ok(reader.page("usage.html", context));
    }
    let mut report = wanted(&reader, &query, group);
    report.push(("limit", "100"));
    context["report"] = reader
        .operations
        .get(operation(&reader), "", &report)
        .await?;
    let mut days = wanted(&reader, &query, "day");
    days.push(("limit", "1000"));
    // A month that was merged has no days, and no chart.
    if let Ok(mut days) = reader.operations.get(operation(&reader), "", &days).await
        && let Some(rows) = days["usage"].as_array_mut()
    {
        rows.sort_by(|a, b| a["day"].as_str().cmp(&b["day"].as_str()));
        context["days"] = days["usage"].take();
    }
    let mut link = wanted(&reader, &query, group);
    link[0] = ("tenant", reader.naming(tenant));
    context["csv"] = format!("/console/usage.csv?{}", query_of(&link)).into();
    Ok(reader.page("usage.html", context))
}

/// The same as CSV, or in the columns of FOCUS.
pub(in crate::console) async fn csv(
    reader: Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let query = Form::parse(query.unwrap_or_default().as_bytes());
    let mut wanted = wanted(&reader, &query, &query["group_by"]);
    wanted.push(("format", &query["format"]));
    Ok(reader.operations.csv(operation(&reader), &wanted).await?)
}

fn operation(reader: &Reader) -> OperationId {
    match reader.tenant {
        Some(_) => OperationId::GetUsage,
        None => OperationId::GetTenantUsage,
    }
}

fn wanted<'a>(reader: &Reader, query: &'a Form, group: &'a str) -> Vec<(&'a str, &'a str)> {
    let fixed = [
        ("tenant_id", reader.naming(&query["tenant"])),
        ("group_by", group),
    ];
    let filters = FILTERS.map(|name| (name, &query[name]));
    fixed.into_iter().chain(filters).collect()
}

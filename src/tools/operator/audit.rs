//! `admin audit`.

use std::io::Write;

use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::client::{Call, Client};
use super::error::OperatorError;
use super::output::{Column, Output, plain};
use super::time::past;

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Show audit entries, the newest first
    Search(Search),
}

#[derive(Debug, Args)]
pub(super) struct Search {
    /// Whose; all by default. __admin__ for what belongs to none, __unauth__ for unknown callers
    #[arg(long)]
    tenant: Option<String>,
    /// Only this operation, such as fundBudget; comma-separated
    #[arg(long)]
    operation: Option<String>,
    /// Only this kind of object: tenant, budget, policy, api_key, webhook, config; comma-separated
    #[arg(long, value_name = "TYPE")]
    resource_type: Option<String>,
    /// Only this object
    #[arg(long, value_name = "ID")]
    resource_id: Option<String>,
    /// Only what this API key asked for
    #[arg(long, value_name = "ID")]
    key_id: Option<String>,
    /// Only this request
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Only refused with this code; comma-separated
    #[arg(long, value_name = "CODE")]
    error_code: Option<String>,
    /// Only refused requests
    #[arg(long)]
    refused: bool,
    /// Only since then: a time, or 15m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = past)]
    since: Option<Timestamp>,
    /// Only until then
    #[arg(long, value_name = "TIME", value_parser = past)]
    until: Option<Timestamp>,
    /// Text in the object's id, the entry's id, the error or the operation
    text: Option<String>,
    /// Rows at most
    #[arg(long, value_name = "N", default_value = "50")]
    limit: usize,
}

const COLUMNS: &[Column] = &[
    ("TIME", |row| plain(&row["timestamp"])),
    ("STATUS", |row| plain(&row["status"])),
    ("TENANT", |row| plain(&row["tenant_id"])),
    ("OPERATION", |row| plain(&row["operation"])),
    ("OBJECT", |row| plain(&row["resource_id"])),
    ("ERROR", |row| plain(&row["error_code"])),
    ("REQUEST", |row| plain(&row["request_id"])),
];

impl Verb {
    pub async fn run(
        self,
        client: &Client,
        output: &mut Output<impl Write>,
    ) -> Result<(), OperatorError> {
        let Self::Search(search) = self;
        let page = || {
            Call::get(&["admin", "audit", "logs"])
                .with("tenant_id", search.tenant.as_ref())
                .with("operation", search.operation.as_ref())
                .with("resource_type", search.resource_type.as_ref())
                .with("resource_id", search.resource_id.as_ref())
                .with("key_id", search.key_id.as_ref())
                .with("request_id", search.request_id.as_ref())
                .with("error_code", search.error_code.as_ref())
                .with("status_min", search.refused.then_some(400))
                .with("from", search.since)
                .with("to", search.until)
                .with("search", search.text.as_ref())
        };
        let rows = client.rows(page, "logs", Some(search.limit)).await?;
        output.table(COLUMNS, &rows, "no audit entries")
    }
}

//! `admin audit`.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::console::{Action, List};
use super::time::past;
use crate::api::operations::OperationId;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List audit entries, the newest first
    Search(Search),
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Search {
    /// Only this tenant; __admin__ for entries of no tenant, __unauth__ for unknown callers
    #[arg(long)]
    #[serde(rename = "tenant_id")]
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
    /// Only requests of this API key
    #[arg(long, value_name = "ID")]
    key_id: Option<String>,
    /// Only this request
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Only requests refused with this code; comma-separated
    #[arg(long, value_name = "CODE")]
    error_code: Option<String>,
    /// Only refused requests
    #[arg(long)]
    #[serde(skip)]
    refused: bool,
    /// Only since then: a time, or 15m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = past)]
    #[serde(rename = "from")]
    since: Option<String>,
    /// Only until then
    #[arg(long, value_name = "TIME", value_parser = past)]
    #[serde(rename = "to")]
    until: Option<String>,
    /// Text in the object's id, the entry's id, the error or the operation
    #[serde(rename = "search")]
    text: Option<String>,
    /// Rows at most
    #[arg(long, value_name = "N", default_value = "50")]
    #[serde(skip)]
    limit: usize,
    /// The lowest status of a refusal, for `refused`
    #[arg(skip)]
    status_min: Option<u16>,
}

const ENTRIES: List = List {
    operation: OperationId::ListAuditLogs,
    member: "logs",
    columns: "TIME=timestamp, STATUS=status, TENANT=tenant_id, OPERATION=operation, OBJECT=resource_id, \
        ERROR=error_code, REQUEST=request_id",
    nothing: "no audit entries",
};

impl Command {
    pub fn action(self) -> Action {
        let Self::Search(mut search) = self;
        search.status_min = search.refused.then_some(400);
        Action::list(&ENTRIES, &search, Some(search.limit))
    }
}

//! `admin key list`: the keys, with who made them.

use std::collections::HashMap;
use std::io::Write;

use serde_json::{Map, Value};

use super::output::Output;
use crate::api::operations::OperationId;
use crate::tools::call::Call;
use crate::tools::client::Client;
use crate::tools::client_error::CallError;

const COLUMNS: &str = "KEY=key_id, NAME=name, TENANT=tenant_id, STATUS=status, EXPIRES=expires_at, SCOPES=scope_filter, \
                       MADE BY=created_by, BEGINS WITH=key_prefix";
const NOTHING: &str = "no API keys; `admin key create --tenant ID --name NAME` creates one";

/// Which keys are asked for.
#[derive(Debug)]
pub(super) struct KeyQuery {
    /// The parameters of the list.
    pub filters: Map<String, Value>,
    /// The one tenant that they are of, if any.
    pub tenant: Option<String>,
    /// Rows at most.
    pub limit: Option<usize>,
}

/// Prints the keys.
pub(super) async fn print(
    query: &KeyQuery,
    client: &Client,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    let page = || Call::of(OperationId::ListApiKeys).query(&query.filters);
    let mut keys = client.rows(page, "keys", query.limit).await?;
    let creators = creators(client, query.tenant.as_deref()).await?;
    for key in &mut keys {
        let creator = key["key_id"].as_str().and_then(|id| creators.get(id));
        if let Some(creator) = creator {
            key["created_by"] = creator.as_str().into();
        }
    }
    output.table(COLUMNS, &keys, NOTHING)
}

/// The maker of each key that has an audit entry: the name of the admin key, or `admin`.
async fn creators(
    client: &Client,
    tenant: Option<&str>,
) -> Result<HashMap<String, String>, CallError> {
    let page = || {
        Call::of(OperationId::ListAuditLogs)
            .with("operation", Some(OperationId::CreateApiKey))
            .with("tenant_id", tenant)
    };
    let entries = client.rows(page, "logs", None).await?;
    let creator = |entry: &Value| {
        let metadata = &entry["metadata"];
        let name = metadata["actor"].as_str();
        let name = name.or_else(|| metadata["actor_type"].as_str())?;
        Some((entry["resource_id"].as_str()?.to_owned(), name.to_owned()))
    };
    Ok(entries.iter().filter_map(creator).collect())
}

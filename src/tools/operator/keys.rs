//! Who created each API key, for `admin key list`.

use std::collections::HashMap;

use serde_json::Value;

use crate::api::operations::OperationId;
use crate::tools::call::Call;
use crate::tools::client::Client;
use crate::tools::client_error::CallError;

/// Sets `created_by` of each key that has an audit entry: the name of the admin key, or `admin`.
pub(super) async fn add_creators(
    keys: &mut [Value],
    list: &Call,
    client: &Client,
) -> Result<(), CallError> {
    let tenant = list.query.iter().find(|(name, _)| name == "tenant_id");
    let entries = Call::of(OperationId::ListAuditLogs)
        .with("operation", Some(OperationId::CreateApiKey))
        .with("tenant_id", tenant.map(|(_, id)| id));
    let entries = client.rows(&entries, None).await?;
    let creator = |entry: &Value| {
        let metadata = &entry["metadata"];
        let name = metadata["actor"].as_str();
        let name = name.or_else(|| metadata["actor_type"].as_str())?;
        Some((entry["resource_id"].as_str()?.to_owned(), name.to_owned()))
    };
    let creators: HashMap<_, _> = entries.iter().filter_map(creator).collect();
    for key in keys {
        let creator = key["key_id"].as_str().and_then(|id| creators.get(id));
        if let Some(creator) = creator {
            key["created_by"] = creator.as_str().into();
        }
    }
    Ok(())
}

//! Evidence: what was attested, and whether it verifies with the keys that are published here.

use axum::extract::Path;
use axum::response::Response;
use serde_json::json;

use super::super::session::Reader;
use crate::api::operations::OperationId;
use crate::evidence::{Keys, verify};

pub(in crate::console) async fn show(
    reader: Reader,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    let operations = &reader.operations;
    let envelope = operations.get(OperationId::GetEvidence, &id, &[]).await?;
    let key_set = operations.get(OperationId::GetEvidenceJwks, "", &[]).await;
    let key_set = key_set.map(|set| set.to_string());
    let keys = match &key_set {
        Ok(set) => Keys::Set(set.as_bytes()),
        Err(_) => Keys::Unavailable,
    };
    let verified = verify(envelope.to_string().as_bytes(), keys, None, None);
    let context = json!({
        "title": "Evidence", "id": id, "envelope": envelope,
        "disposition": verified.disposition.to_string(), "why": verified.reason,
    });
    Ok(reader.page("evidence.html", context))
}

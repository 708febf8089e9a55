//! One event.

use axum::extract::Path;
use axum::response::Response;
use serde_json::json;

use super::super::session::Reader;
use crate::api::operations::OperationId;

pub(in crate::console) async fn show(
    reader: Reader,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    let event = reader
        .operations
        .get(OperationId::GetEvent, &id, &[])
        .await?;
    Ok(reader.page(
        "event.html",
        json!({"title": event["event_type"], "event": event}),
    ))
}

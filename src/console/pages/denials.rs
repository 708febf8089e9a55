//! Recent denials: what stopped them, and what would let them pass.

use axum::extract::RawQuery;
use axum::response::Response;
use serde_json::json;

use super::super::forms::Form;
use super::super::session::Reader;
use super::ROWS;

pub(in crate::console) async fn list(
    reader: Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let query = Form::parse(query.unwrap_or_default().as_bytes());
    let wanted = [
        ("tenant_id", reader.naming(&query["tenant"])),
        ("event_type", "reservation.denied"),
        ("scope", &query["scope"]),
        ("cursor", &query["cursor"]),
        ("limit", ROWS),
    ];
    let page = reader.operations.get(reader.events(), "", &wanted).await?;
    Ok(reader.page(
        "denials.html",
        json!({"title": "Denied", "page": page, "query": query.json()}),
    ))
}

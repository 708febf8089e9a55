//! The first page: for operators what needs attention, for others their tenant.

use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::json;

use super::super::session::Reader;
use crate::api::operations::OperationId;

pub(in crate::console) async fn show(reader: Reader) -> Result<Response, Response> {
    if let Some(tenant) = &reader.tenant {
        return Ok(Redirect::to(&format!("/console/tenants/{tenant}")).into_response());
    }
    let overview = reader
        .operations
        .get(OperationId::GetAdminOverview, "", &[])
        .await?;
    let context = json!({"title": "Overview", "overview": overview});
    Ok(reader.page("overview.html", context))
}

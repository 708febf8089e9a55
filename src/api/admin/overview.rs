//! Shows what there is, what needs care, and what happened lately.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;

use super::refusals::{ErrorContext, error_of};
use crate::admin::AdminOverviewResponse;
use crate::api::operation::{Declaration, json};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Shows counts of everything, what needs care, and what happened in the last hour; a few seconds old at most",
    parameters: Vec::new,
    request: None,
    responses: &[json::<AdminOverviewResponse>(200, "The overview.")],
    errors: &[],
    handler: |method| on(method, get_overview),
};

async fn get_overview(State(state): State<AppState>) -> Returns<AdminOverviewResponse> {
    let overview = state.admin.overview().await;
    let overview = overview.map_err(|error| error_of(error, &ErrorContext::default()))?;
    Ok(CheckedJson(
        StatusCode::OK,
        AdminOverviewResponse::clone(&overview),
    ))
}

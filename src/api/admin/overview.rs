//! Shows what there is, what needs care, and what happened lately.

use axum::extract::State;

use crate::admin::AdminOverviewResponse;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    get_overview,
    "Shows counts, what needs attention and the last hour; a few seconds old"
)
.returns::<AdminOverviewResponse>(200, "The overview.");

async fn get_overview(State(state): State<AppState>) -> Returns<AdminOverviewResponse> {
    let overview = state.admin.overview().await?;
    Ok(CheckedJson::ok(AdminOverviewResponse::clone(&overview)))
}

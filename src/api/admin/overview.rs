//! Gets the overview.

use axum::extract::State;

use crate::admin::AdminOverviewResponse;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;

pub(in crate::api) const GET: Declaration = declare!(
    get_overview,
    "Gets counts, what needs attention and recent events; a few seconds old"
)
.returns::<AdminOverviewResponse>(200, "The overview.");

async fn get_overview(State(state): State<AppState>) -> Returns<AdminOverviewResponse> {
    let overview = state.admin.overview().await?;
    Ok(CheckedJson::ok(AdminOverviewResponse::clone(&overview)))
}

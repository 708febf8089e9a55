//! Reads usage events.

use axum::extract::State;

use crate::api::errors::ApiError;
use crate::api::list::{Limit, List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::{Declaration, Plane, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::runtime::bind_tenant;
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::ids::PostId;
use crate::ledger::{UsageEvent, UsageEventFilter, UsageEventSort};

list_response! {
    /// A page of usage events.
    UsageEventListResponse {
        /// The usage events.
        usage_events: UsageEvent,
        has_more {}
    }
}

struct UsageEvents;

impl List for UsageEvents {
    const NAME: &'static str = "usage_events";
    const PLANE: Plane = Plane::Runtime;
    const LIMIT: Limit = Limit::UpTo(200);
    const SORTABLE: bool = true;
    const ABOUT_SORT: &'static str = "Order of the rows; equal ones are ordered by ascending id.";
    type Filter = UsageEventFilter;
    type Sort = UsageEventSort;
    type Response = UsageEventListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<UsageEventFilter, ApiError> {
        let about = "The tenant. With an API key only the key's own; required with the admin key.";
        let (tenant, segments) = parameters.levels(about)?;
        Ok(UsageEventFilter {
            tenant,
            segments,
            action_kind: parameters.text("action_kind", "Kind of the action.")?,
            action_name: parameters.text("action_name", "Name of the action.")?,
            created: parameters.ordered_window(
                ["from", "to"],
                [
                    "Earliest time of the charge, inclusive.",
                    "Latest time of the charge, inclusive.",
                ],
            )?,
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        let named = call.list.filter.tenant.clone();
        let Some((tenant, query)) = bind_tenant(call, named.as_deref()).await? else {
            return Ok(call.list.empty_page());
        };
        let (ledger, caller) = (&call.state.ledger, &call.caller);
        Ok(ledger.usage_events(caller, &tenant, &query).await?)
    }
}

pub(in crate::api) const LIST: Declaration =
    list::<UsageEvents>("Lists usage events", "A page of usage events.");

pub(in crate::api) const GET: Declaration = declare!(get_usage_event, "Gets a usage event")
    .returns::<UsageEvent>(200, "The usage event.")
    .refuses(&[404]);

async fn get_usage_event(
    State(state): State<AppState>,
    caller: Caller,
    id: PostId,
) -> Returns<UsageEvent> {
    Ok(CheckedJson::ok(
        state.ledger.usage_event(&caller, &id).await?,
    ))
}

//! Lists the deliveries to a webhook subscription.

use axum::extract::State;

use super::queries::Deliveries;
use super::{WebhookDeliveryListResponse, error_of};
use crate::api::admin::extract::PathId;
use crate::api::extract::RawQuery;
use crate::api::list::{self, ListRequest};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    list_deliveries,
    "Lists the deliveries to a webhook subscription, newest first"
)
.query(list::parameters::<Deliveries>)
.returns::<WebhookDeliveryListResponse>(200, "A page of deliveries.")
.refuses(&[404]);

async fn list_deliveries(
    State(state): State<AppState>,
    caller: Caller,
    PathId(id): PathId,
    RawQuery(query): RawQuery,
) -> Returns<WebhookDeliveryListResponse> {
    let mut list = ListRequest::<Deliveries>::parse(&query)?;
    list.bind("subscription_id", &id);
    let secret = state.store.secret().await?;
    let query = list.query(secret)?;
    let page = state.webhooks.deliveries(&caller, &id, &query).await;
    let page = page.map_err(|error| error_of(error, "", &id))?;
    let next = list.next_cursor(&page, secret);
    let response = WebhookDeliveryListResponse::new(page.rows, next);
    Ok(CheckedJson::ok(response))
}

//! Lists a tenant's webhook subscriptions.

use axum::extract::State;

use super::queries::{TenantWebhooks, listed_tenant};
use super::{WebhookListResponse, error_of};
use crate::api::extract::RawQuery;
use crate::api::list::{ListRequest, parameters};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(list_own_webhooks, "Lists a tenant's webhook subscriptions")
        .query(parameters::<TenantWebhooks>)
        .returns::<WebhookListResponse>(200, "A page of subscriptions.");

async fn list_own_webhooks(
    State(state): State<AppState>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Returns<WebhookListResponse> {
    let mut list = ListRequest::<TenantWebhooks>::parse(&query)?;
    // A tenant that cannot exist has nothing.
    let Some(tenant) = TenantId::parse(&listed_tenant(&list.filter, &caller)?) else {
        let nothing = WebhookListResponse::new(Vec::new(), None);
        return Ok(CheckedJson::ok(nothing));
    };
    list.bind("tenant", &tenant);
    let secret = state.store.secret().await?;
    let query = list.query(secret)?;
    let page = state
        .webhooks
        .list_of_tenant(&caller, &tenant, &query)
        .await;
    let page = page.map_err(|error| error_of(error, tenant.as_str(), ""))?;
    let next = list.next_cursor(&page, secret);
    let response = WebhookListResponse::new(page.rows, next);
    Ok(CheckedJson::ok(response))
}

//! Lists webhook subscriptions, of one owner or of all.

use axum::extract::State;

use super::WebhookListResponse;
use super::queries::AllWebhooks;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::extract::RawQuery;
use crate::api::list::{ListRequest, parameters};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(list_webhooks, "Lists webhook subscriptions")
        .query(parameters::<AllWebhooks>)
        .returns::<WebhookListResponse>(200, "A page of subscriptions.");

async fn list_webhooks(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> Returns<WebhookListResponse> {
    let list = ListRequest::<AllWebhooks>::parse(&query)?;
    let secret = state.store.secret().await?;
    let page = state.webhooks.list(&list.query(secret)?).await;
    let page = page.map_err(|error| error_of(error, &ErrorContext::default()))?;
    let next = list.next_cursor(&page, secret);
    let response = WebhookListResponse::new(page.rows, next);
    Ok(CheckedJson::ok(response))
}

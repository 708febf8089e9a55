//! The HTTP operations on events.

use axum::extract::State;
use serde_json::json;

use crate::api::admin::extract::PathId;
use crate::api::errors::ApiError;
use crate::api::list::{Limit, List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::event::query::{EventFilter, EventSort};
use crate::domain::event::types::{EventCategory, EventType, category_of, is_listed_to_tenants};
use crate::domain::event::{Event, RenderedEvent};
use crate::domain::ids::TenantId;
use crate::listing::{Page, readable};
use crate::store::target::about;

list_response! {
    /// A page of events.
    EventListResponse: Open {
        /// The events, in order.
        events: RenderedEvent,
        has_more {}
    }
}

/// The page with the JSON of its events.
fn rendered<K>(page: Page<String, K>) -> Page<RenderedEvent, K> {
    page.filter_map(|json| readable("event", "of a page", RenderedEvent::new(json)))
}

pub(in crate::api) const GET: Declaration = declare!(get_event, "Gets an event")
    .returns::<Event>(200, "The event.")
    .refuses(&[404]);

async fn get_event(State(state): State<AppState>, PathId(id): PathId) -> Returns<RenderedEvent> {
    let event = state.events.get(&id).await?;
    let event = RenderedEvent::new(event).map_err(ApiError::internal)?;
    Ok(CheckedJson::ok(event))
}

pub(in crate::api) const LIST: Declaration =
    list::<AllEvents>("Lists events, of one tenant or of all", "A page of events.");

/// Most rows on a page.
const LIMIT: Limit = Limit::UpTo(100);

struct AllEvents;

impl List for AllEvents {
    const NAME: &'static str = "events";
    const LIMIT: Limit = LIMIT;
    type Filter = EventFilter;
    type Sort = EventSort;
    type Response = EventListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<EventFilter, ApiError> {
        let about = "Tenant of the events; `__system__` for events of no tenant. Absent: events of all tenants.";
        let tenant = parameters.text("tenant_id", about)?;
        // The set of types is open: one that is not known is in no list.
        let read = |text: &str| is_type(text).then(|| text.to_owned());
        let wanted = "it must be a category and an action, such as budget.funded";
        let filter = common(parameters, (read, wanted), EventCategory::WORDS)?;
        let trace_id = parameters.trace_id("Id of the trace, exactly.")?;
        let request_id = parameters.text("request_id", "Id of the request, exactly.")?;
        let about = "Text that correlation id or scope must contain, in any case.";
        Ok(EventFilter {
            tenant,
            trace_id,
            request_id,
            search: parameters.search(about)?,
            ..filter
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        let query = call.query().await?;
        let page = call.state.events.list(&call.caller, &query).await;
        let tenant = query.filter.tenant.as_deref().and_then(TenantId::parse);
        Ok(rendered(about(tenant.as_ref(), page)?))
    }
}

/// Filters that both lists have.
fn common(
    parameters: &mut Parameters<'_>,
    event_type: (impl FnOnce(&str) -> Option<String>, &str),
    categories: &[&'static str],
) -> Result<EventFilter, ApiError> {
    let schema = || json!({"type": "string", "enum": EventType::WORDS});
    let about = "Event type, exactly.";
    let event_type = parameters.parsed("event_type", about, schema, event_type)?;
    let category = parameters.word_among("category", "The category.", categories)?;
    let scope = parameters.text("scope", "Beginning of the scope.")?;
    let correlation_id = parameters.text("correlation_id", "Correlation id, exactly.")?;
    let about = ["Earliest time, inclusive.", "Latest time, inclusive."];
    Ok(EventFilter {
        event_type,
        category,
        scope,
        correlation_id,
        window: parameters.window(["from", "to"], about)?,
        ..EventFilter::default()
    })
}

/// `category.action`, lower case.
fn is_type(text: &str) -> bool {
    let charset =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
    let parts = text.split_once('.');
    text.bytes().all(charset)
        && parts.is_some_and(|(category, action)| !category.is_empty() && !action.is_empty())
}

pub(in crate::api) const LIST_OWN: Declaration = list::<TenantEvents>(
    "Lists the events of the key's own tenant, latest first",
    "A page of events.",
);

struct TenantEvents;

impl List for TenantEvents {
    const NAME: &'static str = "tenant events";
    const LIMIT: Limit = LIMIT;
    const SORTABLE: bool = false;
    type Filter = EventFilter;
    type Sort = EventSort;
    type Response = EventListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<EventFilter, ApiError> {
        let read = |text: &str| {
            let is_listed = is_listed_to_tenants(text, category_of(text));
            let known = EventType::parse(text).is_some() && is_listed;
            known.then(|| text.to_owned())
        };
        let wanted = "it must be one of the types that tenants may see: those of budget, reservation and tenant, and webhook.disabled";
        let categories = EventCategory::ALL.iter().copied();
        let categories = categories.filter(|category| category.is_tenant_visible());
        let categories: Vec<_> = categories.map(EventCategory::as_str).collect();
        Ok(EventFilter {
            tenants_alone: true,
            ..common(parameters, (read, wanted), &categories)?
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        let tenant = call.tenant_caller()?.tenant.clone();
        call.list.bind("tenant_id", &tenant);
        call.list.filter.tenant = Some(tenant.to_string());
        let query = call.query().await?;
        let page = call.state.events.list(&call.caller, &query).await;
        Ok(rendered(page?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::list::query_of as parse;
    use crate::domain::rows;

    #[test]
    fn wrong_values_are_named_with_what_is_allowed() {
        let long = "é".repeat(129);
        for (query, part) in rows(&format!(
            "event_type=funded => 'event_type': funded; it must be a category and an action
            event_type=budget. => 'event_type': budget.
            event_type=Budget.Funded => 'event_type': Budget.Funded
            category=custom => 'category': custom; allowed: budget, tenant, api_key
            trace_id=0123 => 'trace_id': 0123; it must have 32
            trace_id=0123456789ABCDEF0123456789ABCDEF => 'trace_id'
            from=yesterday => 'from': yesterday; it must be a date and time
            to=1790000000000 => 'to': 1790000000000
            sort_by=age => 'sort_by': age; allowed: event_type, category, scope, tenant_id, timestamp
            sort_dir=up => 'sort_dir': up; allowed: asc, desc
            limit=0 => 'limit': 0; it must be an integer from 1 to 100
            limit=101 => 'limit': 101
            limit=ten => 'limit': ten
            tenant_id=a&tenant_id=b => 'tenant_id': given more than once
            search={long} => 'search'"
        )) {
            let message = parse::<AllEvents>(query).expect_err(query).message();
            assert!(message.contains(part), "{query}: {message}");
        }
    }

    #[test]
    fn open_types_blank_texts_and_unknown_parameters_are_accepted() {
        for query in [
            "event_type=custom.a.b-c_1",
            "event_type=moon.landed",
            "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
            "trace_id=00000000000000000000000000000000",
            "limit=100&surprise=1&sort_by=TIMESTAMP&sort_dir=ASC",
            &format!("search={}", "é".repeat(128)),
        ] {
            assert!(parse::<AllEvents>(query).is_ok(), "{query}");
        }
        let blank = format!("search={}&scope=&cursor=&limit=", "%20".repeat(200));
        let parsed = parse::<AllEvents>(&blank).expect("blank");
        assert!(parsed.filter.search.is_none() && parsed.filter.scope.is_none());
        assert_eq!(parsed.limit, 50);
    }

    #[test]
    fn tenants_may_filter_by_what_they_may_see() {
        for query in [
            "event_type=budget.funded",
            "event_type=webhook.disabled",
            "category=reservation",
            "trace_id=x&sort_by=x&search=x",
        ] {
            assert!(parse::<TenantEvents>(query).is_ok(), "{query}");
        }
        for query in [
            "event_type=api_key.created",
            "event_type=webhook.created",
            "event_type=custom.x",
            "event_type=budget.of_a_later_release",
            "category=system",
            "category=policy",
            "category=moon",
            "limit=101",
        ] {
            assert!(parse::<TenantEvents>(query).is_err(), "{query}");
        }
    }
}

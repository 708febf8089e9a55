//! Lists the events of the key's own tenant.

use super::list::{LIMIT, common};
use super::{EventListResponse, rendered};
use crate::api::errors::ApiError;
use crate::api::list::{Limit, List, ListCall, Parameters, ReturnsPage, list};
use crate::api::operation::Declaration;
use crate::domain::event::query::{EventFilter, EventSort};
use crate::domain::event::types::{EventCategory, EventType, is_tenant_visible};

pub(in crate::api) const DECLARATION: Declaration = list::<TenantEvents>(
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
            let category = text.split('.').next().unwrap_or_default();
            let known = EventType::parse(text).is_some() && is_tenant_visible(text, category);
            known.then(|| text.to_owned())
        };
        let wanted = "it must be one of the types that tenants may see: those of budget, reservation and tenant";
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
        let page = call
            .state
            .events
            .list(&call.caller, &call.query().await?)
            .await?;
        Ok(rendered(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::list::query_of as parse;

    #[test]
    fn tenants_may_ask_for_what_they_may_see() {
        for query in [
            "event_type=budget.funded",
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

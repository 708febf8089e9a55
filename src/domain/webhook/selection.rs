//! The events that a subscription gets.

use serde_json::Value;

use super::{Owner, RateLimit, Subscription, Thresholds};
use crate::domain::event::types::{
    EventCategory, EventType, EventTypeName, category_of, is_tenant_visible,
};
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::WebhookRefusal;

/// Whether a subscription of this owner may have these selectors.
///
/// # Errors
/// [`WebhookRefusal`]; that something is hidden from the owner comes first.
pub fn check_selectors(
    owner: &Owner,
    types: &[EventTypeName],
    categories: &[EventCategory],
) -> Result<(), WebhookRefusal> {
    if owner.tenant().is_some() {
        let hidden_type = types.iter().find(|name| !name.is_tenant_visible());
        let hidden_category = categories
            .iter()
            .find(|category| !category.is_tenant_visible());
        let hidden = hidden_type
            .map(EventTypeName::as_str)
            .or_else(|| hidden_category.map(|category| category.as_str()));
        if let Some(hidden) = hidden {
            return Err(WebhookRefusal::HiddenSelector(hidden.to_owned()));
        }
    }
    match types.is_empty() && categories.is_empty() {
        true => Err(WebhookRefusal::NothingSelected),
        false => Ok(()),
    }
}

/// The facts of an event by which subscriptions select it.
#[derive(Debug, Clone, Copy)]
pub struct EventSummary<'a> {
    /// Its type.
    pub event_type: &'a str,
    /// Tenant of the event.
    pub tenant: &'a str,
    /// Its scope, if it has one.
    pub scope: Option<&'a str>,
    /// The threshold that was crossed, for events that only its watchers receive.
    pub crossed: Option<CrossedThreshold>,
    /// The subscription whose failures it reports, see [`reported_on`].
    pub reported_on: Option<&'a str>,
}

/// The subscription whose failing deliveries an event reports. It never gets that event, or each failure would cause another.
pub fn reported_on(event_type: &str, facts: &Record) -> Option<String> {
    if event_type == EventType::WebhookDisabled.as_str() {
        return facts.get("data.subscription_id").map(str::to_owned);
    }
    if event_type != EventType::SystemWebhookDeliveryFailed.as_str() {
        return None;
    }
    let details: Value = serde_json::from_str(facts.get("data.details")?).ok()?;
    details["subscription_id"].as_str().map(str::to_owned)
}

/// A threshold that was crossed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CrossedThreshold {
    /// Of a budget's utilization, in millionths.
    Utilization(i64),
    /// Of a rate.
    Rate(RateLimit),
}

impl CrossedThreshold {
    /// The threshold that an event is about, by its facts.
    ///
    /// # Errors
    /// [`RecordError`] names the fact that is missing or unreadable.
    pub fn of(event_type: &str, facts: &Record) -> Result<Option<Self>, RecordError> {
        if event_type == EventType::BudgetThresholdCrossed.as_str() {
            let millionths = facts.integer("data.threshold_millionths")?;
            return Ok(Some(Self::Utilization(millionths)));
        }
        Ok(RateLimit::of_event(event_type, facts)?.map(Self::Rate))
    }
}

/// Whether a filter allows a scope. One that ends with `*` matches every scope with this prefix; any other matches itself. None
/// means everything, also what has no scope.
fn allows(filter: Option<&str>, scope: Option<&str>) -> bool {
    let Some(filter) = filter.filter(|filter| !filter.trim().is_empty()) else {
        return true;
    };
    let Some(scope) = scope else {
        return false;
    };
    match filter.strip_suffix('*') {
        Some("") => true,
        Some(prefix) => scope.len() > prefix.len() && scope.starts_with(prefix),
        None => scope == filter,
    }
}

impl Subscription {
    /// Whether it gets an event, its status aside. A tenant's subscriptions never get events that the tenant may not see.
    pub fn selects(&self, event: &EventSummary<'_>) -> bool {
        let types = &self.event_types;
        let by_type = types.iter().any(|name| name.as_str() == event.event_type);
        let category = category_of(event.event_type);
        let mut categories = self.event_categories.iter();
        let by_category = categories.any(|selected| selected.as_str() == category);
        let owned = match self.owner.tenant() {
            Some(tenant) => {
                tenant.as_str() == event.tenant && is_tenant_visible(event.event_type, category)
            }
            None => true,
        };
        (by_type || by_category)
            && owned
            && event.reported_on != Some(self.subscription_id.as_str())
            && allows(self.scope_filter.as_deref(), event.scope)
            && self.watches(event)
    }

    fn watches(&self, event: &EventSummary<'_>) -> bool {
        let own = self.thresholds.as_ref();
        match event.crossed {
            None => true,
            Some(CrossedThreshold::Rate(limit)) => {
                RateLimit::of(event.event_type, own) == Some(limit)
            }
            Some(CrossedThreshold::Utilization(crossed)) => {
                match own.filter(|own| own.budget_utilization.is_some()) {
                    Some(own) => own.millionths().contains(&crossed),
                    None => Thresholds::DEFAULT_MILLIONTHS.contains(&crossed),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w5_a_scope_filter_matches_as_documented() {
        for (filter, scope, expected) in [
            (None, None, true),
            (Some(""), None, true),
            (Some(" "), Some("tenant:acme"), true),
            (Some("*"), None, false),
            (Some("*"), Some("tenant:acme"), true),
            (Some("tenant:acme/*"), Some("tenant:acme/app:x"), true),
            (Some("tenant:acme/*"), Some("tenant:acme/"), false),
            (Some("tenant:acme/*"), Some("tenant:acme"), false),
            (Some("tenant:acme/*"), Some("tenant:acme-corp/app:x"), false),
            (Some("tenant:acme*"), Some("tenant:acme-corp/app:x"), true),
            (Some("tenant:acme"), Some("tenant:acme"), true),
            (Some("tenant:acme"), Some("tenant:acme/app:x"), false),
            (Some("tenant:ACME"), Some("tenant:acme"), false),
            (Some("tenant:*/app:x"), Some("tenant:acme/app:x"), false),
            (Some("tenant:acme"), None, false),
        ] {
            assert_eq!(allows(filter, scope), expected, "{filter:?} {scope:?}");
        }
    }

    #[test]
    fn a_tenants_selectors_are_what_tenants_may_see() {
        let types = |names: &[&str]| -> Vec<EventTypeName> {
            let parse = |name: &&str| EventTypeName::parse(name).expect("a type");
            names.iter().map(parse).collect()
        };
        let acme = Owner::parse("acme").expect("a tenant");
        let check = |owner: &Owner, names: &[&str], categories: &[EventCategory]| {
            check_selectors(owner, &types(names), categories)
        };
        use EventCategory::{Budget, System};
        assert_eq!(check(&acme, &["budget.funded"], &[Budget]), Ok(()));
        assert_eq!(check(&acme, &[], &[Budget]), Ok(()));
        assert_eq!(check(&acme, &[], &[]), Err(WebhookRefusal::NothingSelected));
        for (names, categories, hidden) in [
            (&["api_key.created"][..], &[][..], "api_key.created"),
            (&["custom.x"], &[], "custom.x"),
            (&["budget.funded"], &[System], "system"),
            (&[], &[System], "system"),
        ] {
            let refused = Err(WebhookRefusal::HiddenSelector(hidden.to_owned()));
            assert_eq!(check(&acme, names, categories), refused);
            assert_eq!(check(&Owner::System, names, categories), Ok(()));
        }
    }

    #[test]
    fn events_about_failures_name_their_owner() {
        let facts = |name: &str, value: &str| Record::default().with(name, value);
        let details = r#"{"subscription_id": "whsub_1", "attempts": 1}"#;
        for (event_type, facts, expected) in [
            (
                "webhook.disabled",
                facts("data.subscription_id", "whsub_1"),
                Some("whsub_1"),
            ),
            (
                "system.webhook_delivery_failed",
                facts("data.details", details),
                Some("whsub_1"),
            ),
            (
                "system.webhook_delivery_failed",
                facts("data.details", "{"),
                None,
            ),
            (
                "webhook.updated",
                facts("data.subscription_id", "whsub_1"),
                None,
            ),
        ] {
            assert_eq!(
                reported_on(event_type, &facts).as_deref(),
                expected,
                "{event_type}"
            );
        }
    }
}

//! The filter and sorts of lists of events.

use crate::domain::event::StoredEvent;
use crate::domain::event::types::{EventCategory, category_of, is_listed_to_tenants};
use crate::domain::ids::TenantId;
use crate::domain::moment::Window;
use crate::domain::record::RecordError;
use crate::domain::scope::ScopeFilter;
use crate::domain::search::Search;
use crate::domain::tenant::SYSTEM;
use crate::domain::words::words;

words! {
    /// Sorts of the list of events.
    EventSort: "snake_case" {
        /// The type, by code point.
        EventType,
        /// The category, by code point.
        Category,
        /// The scope, by code point; absent is last.
        Scope,
        /// The tenant, by code point.
        TenantId,
        /// When it happened; the indexed order.
        Timestamp,
    }
}

/// A filter of events. All of its conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Their tenant, exactly; perhaps no tenant's.
    pub tenant: Option<String>,
    /// Their type, exactly.
    pub event_type: Option<String>,
    /// Their category.
    pub category: Option<EventCategory>,
    /// Prefix of their scope.
    pub scope: Option<String>,
    /// Exactly.
    pub correlation_id: Option<String>,
    /// Exactly.
    pub trace_id: Option<String>,
    /// Exactly.
    pub request_id: Option<String>,
    /// When they happened.
    pub window: Window,
    /// Text that correlation id or scope contains.
    pub search: Option<Search>,
    /// Only what tenants may see.
    pub tenants_alone: bool,
}

impl EventFilter {
    /// Whether no event can pass, whatever happened.
    pub fn is_void(&self) -> bool {
        let other_category = |(event_type, category): (&String, EventCategory)| {
            category_of(event_type) != category.as_str()
        };
        let nobody = |tenant: &String| tenant != SYSTEM && TenantId::parse(tenant).is_none();
        let selected = self.event_type.as_ref().zip(self.category);
        self.window.is_empty()
            || self.tenant.as_ref().is_some_and(nobody)
            || selected.is_some_and(other_category)
    }

    /// Whether an event may pass, judged by its time, type and tenant.
    pub fn may_pass(&self, at_ms: i64, event_type: &str, tenant: &str) -> bool {
        let category = category_of(event_type);
        let exactly = |wanted: &Option<String>, word: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == word)
        };
        let scope = self.scope.as_ref();
        self.window.contains(at_ms)
            && exactly(&self.tenant, tenant)
            && exactly(&self.event_type, event_type)
            && self
                .category
                .is_none_or(|wanted| wanted.as_str() == category)
            && (!self.tenants_alone || is_listed_to_tenants(event_type, category))
            && scope.is_none_or(|scope| is_scope_of(scope, tenant))
    }

    /// Whether the facts of an event must be read to decide.
    pub fn asks_facts(&self) -> bool {
        let exactly = [&self.correlation_id, &self.trace_id, &self.request_id];
        self.scope.is_some() || self.search.is_some() || exactly.iter().any(|id| id.is_some())
    }

    /// Whether an event passes, and a key may see it.
    ///
    /// # Errors
    /// [`RecordError`] names the fact that is missing or unreadable.
    pub fn passes(&self, event: &StoredEvent<'_>, keys: &ScopeFilter) -> Result<bool, RecordError> {
        let (facts, at_ms) = (event.facts, event.facts.integer("at_ms")?);
        if !self.may_pass(at_ms, facts.text("type")?, event.tenant) {
            return Ok(false);
        }
        let scope = facts.get("scope");
        let exactly = |wanted: &Option<String>, id: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| id == Some(wanted))
        };
        let below = |wanted: &String| scope.is_some_and(|scope| scope.starts_with(wanted.as_str()));
        if !(keys.is_unrestricted() || scope.is_some_and(|scope| keys.admits(scope)))
            || !exactly(&self.trace_id, facts.get("trace_id"))
            || !exactly(&self.request_id, facts.get("request_id"))
            || !self.scope.as_ref().is_none_or(below)
        {
            return Ok(false);
        }
        if self.correlation_id.is_none() && self.search.is_none() {
            return Ok(true);
        }
        let correlation = event.correlation_id()?;
        let texts = [correlation.as_deref(), scope];
        let found = |search: &Search| search.finds_any(texts.into_iter().flatten());
        Ok(exactly(&self.correlation_id, correlation.as_deref())
            && self.search.as_ref().is_none_or(found))
    }
}

/// Whether any scope of a tenant may begin so: all of them begin with `tenant:` and the tenant.
fn is_scope_of(beginning: &str, tenant: &str) -> bool {
    let root = format!("tenant:{tenant}");
    match beginning.strip_prefix(&root) {
        Some(rest) => rest.is_empty() || rest.starts_with('/'),
        None => root.starts_with(beginning),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_prefix_names_the_possible_tenants() {
        for (beginning, tenant, may_be) in [
            ("", "acme", true),
            ("ten", "acme", true),
            ("tenant:ac", "acme", true),
            ("tenant:acme", "acme", true),
            ("tenant:acme", "acme-corp", true),
            ("tenant:acme/", "acme", true),
            ("tenant:acme/", "acme-corp", false),
            ("tenant:acme/app:x", "acme", true),
            ("tenant:acme-corp", "acme", false),
            ("app:x", "acme", false),
            ("Tenant:acme", "acme", false),
        ] {
            assert_eq!(
                is_scope_of(beginning, tenant),
                may_be,
                "{beginning} {tenant}"
            );
        }
    }

    #[test]
    fn a_type_of_another_category_and_a_reversed_window_match_nothing() {
        let typed = EventFilter {
            event_type: Some("budget.funded".to_owned()),
            category: Some(EventCategory::Budget),
            ..EventFilter::default()
        };
        assert!(!typed.is_void());
        let other = EventFilter {
            category: Some(EventCategory::Tenant),
            ..typed
        };
        assert!(other.is_void());
        let window = |from_ms, to_ms| EventFilter {
            window: Window { from_ms, to_ms },
            ..EventFilter::default()
        };
        assert!(window(Some(2), Some(1)).is_void());
        assert!(!window(Some(1), Some(1)).is_void() && !window(Some(2), None).is_void());
    }
}

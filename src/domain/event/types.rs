//! The types of events, their visibility, and the selectors of subscriptions.

use crate::domain::fields::{Form, Text, plain_field};
use crate::domain::ids::text_id;
use crate::domain::record::stored_text;
use crate::domain::words::words;

words! {
    /// Category of an event: the part of its type before the dot.
    EventCategory: "snake_case" {
        /// Ledgers.
        Budget,
        /// Tenants.
        Tenant,
        /// API keys.
        ApiKey,
        /// Policies.
        Policy,
        /// Reservations.
        Reservation,
        /// The service itself.
        System,
        /// Webhook subscriptions.
        Webhook,
    }
}

words! {
    /// Type of the event.
    #[expect(missing_docs, reason = "the words are the documentation")]
    EventType {
        BudgetCreated = "budget.created",
        BudgetUpdated = "budget.updated",
        BudgetFunded = "budget.funded",
        BudgetDebited = "budget.debited",
        BudgetReset = "budget.reset",
        BudgetResetSpent = "budget.reset_spent",
        BudgetDebtRepaid = "budget.debt_repaid",
        BudgetPeriodStarted = "budget.period_started",
        BudgetIncreaseStarted = "budget.increase_started",
        BudgetIncreaseEnded = "budget.increase_ended",
        BudgetFrozen = "budget.frozen",
        BudgetUnfrozen = "budget.unfrozen",
        BudgetClosed = "budget.closed",
        BudgetClosedViaTenantCascade = "budget.closed_via_tenant_cascade",
        BudgetThresholdCrossed = "budget.threshold_crossed",
        BudgetExhausted = "budget.exhausted",
        BudgetOverLimitEntered = "budget.over_limit_entered",
        BudgetOverLimitExited = "budget.over_limit_exited",
        BudgetDebtIncurred = "budget.debt_incurred",
        BudgetBurnRateAnomaly = "budget.burn_rate_anomaly",
        ReservationDenied = "reservation.denied",
        ReservationWouldDeny = "reservation.would_deny",
        ReservationRefunded = "reservation.refunded",
        ReservationDenialRateSpike = "reservation.denial_rate_spike",
        ReservationExpired = "reservation.expired",
        ReservationExpiryRateSpike = "reservation.expiry_rate_spike",
        ReservationCommitOverage = "reservation.commit_overage",
        ReservationReleasedViaTenantCascade = "reservation.released_via_tenant_cascade",
        TenantCreated = "tenant.created",
        TenantUpdated = "tenant.updated",
        TenantSuspended = "tenant.suspended",
        TenantReactivated = "tenant.reactivated",
        TenantClosed = "tenant.closed",
        TenantSettingsChanged = "tenant.settings_changed",
        WebhookCreated = "webhook.created",
        WebhookUpdated = "webhook.updated",
        WebhookPaused = "webhook.paused",
        WebhookResumed = "webhook.resumed",
        WebhookDisabled = "webhook.disabled",
        WebhookDeleted = "webhook.deleted",
        WebhookDisabledViaTenantCascade = "webhook.disabled_via_tenant_cascade",
        ApiKeyCreated = "api_key.created",
        ApiKeyRevoked = "api_key.revoked",
        ApiKeyRevokedViaTenantCascade = "api_key.revoked_via_tenant_cascade",
        ApiKeyExpired = "api_key.expired",
        ApiKeyPermissionsChanged = "api_key.permissions_changed",
        ApiKeyAuthFailed = "api_key.auth_failed",
        ApiKeyAuthFailureRateSpike = "api_key.auth_failure_rate_spike",
        PolicyCreated = "policy.created",
        PolicyUpdated = "policy.updated",
        PolicyDeleted = "policy.deleted",
        SystemStoreConnectionLost = "system.store_connection_lost",
        SystemStoreConnectionRestored = "system.store_connection_restored",
        SystemHighLatency = "system.high_latency",
        SystemWebhookDeliveryFailed = "system.webhook_delivery_failed",
        SystemWebhookTest = "system.webhook_test",
    }
}

impl EventType {
    /// Category of the event.
    pub fn category(self) -> EventCategory {
        EventCategory::parse(category_of(self.as_str())).unwrap_or(EventCategory::System)
    }
}

impl EventCategory {
    /// Whether a tenant may see events of this category.
    pub fn is_tenant_visible(self) -> bool {
        matches!(self, Self::Budget | Self::Reservation | Self::Tenant)
    }
}

/// The part of a type before the first dot.
pub fn category_of(event_type: &str) -> &str {
    event_type.split('.').next().unwrap_or_default()
}

/// Whether a tenant may see an event, judged by both type and category: what is unknown is not visible.
pub fn is_tenant_visible(event_type: &str, category: &str) -> bool {
    let visible = |word| EventCategory::parse(word).is_some_and(EventCategory::is_tenant_visible);
    event_type.contains('.') && visible(category_of(event_type)) && visible(category)
}

/// Whether a tenant's list of events has those of a type: what tenants may see, and that a webhook of theirs was disabled.
pub fn is_listed_to_tenants(event_type: &str, category: &str) -> bool {
    is_tenant_visible(event_type, category) || event_type == EventType::WebhookDisabled.as_str()
}

text_id! {
    /// A type that a subscription may select: one of [`EventType`], or `custom.` and a name.
    EventTypeName
}

impl EventTypeName {
    /// Accepts a known type, or `custom.` and 1 to 120 of `a-z0-9_.-`.
    pub fn parse(text: &str) -> Option<Self> {
        let charset =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
        let custom = text
            .strip_prefix("custom.")
            .is_some_and(|name| (1..=120).contains(&name.len()) && name.bytes().all(charset));
        (custom || EventType::parse(text).is_some()).then(|| Self(text.into()))
    }

    /// Takes a stored type as it is, also one of a later release.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// Whether a tenant may select it.
    pub fn is_tenant_visible(&self) -> bool {
        is_tenant_visible(&self.0, category_of(&self.0))
    }
}

// The published description has no others.
plain_field!(EventTypeName as EventType, |value, ()| {
    static NAME: Form = Form {
        wanted: "one of the event types, or custom. and a name",
        accepts: |text| EventTypeName::parse(text).is_some(),
        published: None,
    };
    value.text(&Text::form(&NAME)).map(Self)
});
stored_text!(EventTypeName, |text| Some(Self::from_stored(text)));
stored_text!(
    Vec<EventTypeName>,
    |text| Some(
        text.split_whitespace()
            .map(EventTypeName::from_stored)
            .collect()
    ),
    |names| {
        let names: Vec<&str> = names.iter().map(EventTypeName::as_str).collect();
        Some(names.join(" "))
    }
);
stored_text!(
    Vec<EventCategory>,
    |text| text.split_whitespace().map(EventCategory::parse).collect(),
    |categories| {
        let words: Vec<&str> = categories
            .iter()
            .map(|category| category.as_str())
            .collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_four_of_fifty_six_types_are_visible_to_tenants() {
        let visible = |event_type: &&EventType| {
            let name = EventTypeName::parse(event_type.as_str()).expect("known");
            name.is_tenant_visible()
        };
        assert_eq!(EventType::ALL.len(), 56);
        assert_eq!(EventType::ALL.iter().filter(visible).count(), 34);
    }

    #[test]
    fn every_type_begins_with_its_category() {
        for event_type in EventType::ALL {
            let prefix = format!("{}.", event_type.category());
            assert!(event_type.as_str().starts_with(&prefix), "{event_type}");
        }
    }

    #[test]
    fn unknown_types_are_not_visible() {
        assert!(is_tenant_visible("budget.funded", "budget"));
        assert!(is_tenant_visible("budget.of_a_later_release", "budget"));
        for (event_type, category) in [
            ("budget.funded", "system"),
            ("api_key.created", "budget"),
            ("custom.x", "budget"),
            ("budget", "budget"),
            ("", ""),
            ("moon.landed", "moon"),
        ] {
            assert!(!is_tenant_visible(event_type, category), "{event_type}");
        }
    }

    #[test]
    fn a_custom_type_has_a_name() {
        assert!(EventTypeName::parse("custom.a.b-c_1").is_some());
        for text in ["custom.", "custom.A", "custom", "custom.a b", "moon.landed"] {
            assert!(EventTypeName::parse(text).is_none(), "{text}");
        }
    }
}

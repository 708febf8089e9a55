//! What a policy is made of, and what becomes of it: from members of a request to fields of the record.

use crate::domain::fields::{Patch, Read as _};
use crate::domain::moment::Moment;
use crate::domain::policy::{
    Caps, OveragePolicy, PolicyStatus, RateLimits, ReservationTtlOverride, ScopePattern,
};
use crate::store::admin::Pairs;
use crate::store::admin::policies::FieldChange;

/// A policy to be made.
#[derive(Debug)]
pub struct NewPolicy {
    /// As it was sent: for the admin key alone.
    pub tenant_id: Option<String>,
    /// Unique in the tenant.
    pub name: String,
    /// The operator's words about it.
    pub description: Option<String>,
    /// For which scopes.
    pub scope_pattern: ScopePattern,
    /// Higher wins.
    pub priority: i64,
    /// Caps of decisions under it.
    pub caps: Option<Caps>,
    /// What a commit above its estimate does.
    pub commit_overage_policy: Option<OveragePolicy>,
    /// Lifetimes of reservations under it.
    pub reservation_ttl_override: ReservationTtlOverride,
    /// How much may be done under it.
    pub rate_limits: RateLimits,
    /// From when on.
    pub effective_from: Option<Moment>,
    /// Until before when.
    pub effective_until: Option<Moment>,
}

/// What of a policy is to be changed; an object replaces the whole of what was there.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the members are those of a policy")]
pub struct PolicyChanges {
    pub name: Option<String>,
    pub description: Patch<String>,
    pub priority: Option<i64>,
    pub caps: Patch<Caps>,
    pub commit_overage_policy: Patch<OveragePolicy>,
    pub reservation_ttl_override: Option<ReservationTtlOverride>,
    pub rate_limits: Option<RateLimits>,
    pub status: Option<PolicyStatus>,
    pub effective_from: Patch<Moment>,
    pub effective_until: Patch<Moment>,
}

/// What the record keeps of a new policy besides its name and pattern.
pub(super) fn fields(new: &NewPolicy) -> Pairs {
    let changes = PolicyChanges {
        name: None,
        description: new.description.clone().into(),
        priority: Some(new.priority),
        caps: new.caps.clone().into(),
        commit_overage_policy: new.commit_overage_policy.into(),
        reservation_ttl_override: Some(new.reservation_ttl_override),
        rate_limits: Some(new.rate_limits),
        status: None,
        effective_from: new.effective_from.into(),
        effective_until: new.effective_until.into(),
    };
    field_changes(&changes)
        .into_iter()
        .filter_map(|change| Some((change.field, change.value?)))
        .collect()
}

/// The fields that the members of a request set or remove. An object replaces the whole of what was there.
pub(super) fn field_changes(changes: &PolicyChanges) -> Vec<FieldChange> {
    let mut fields = Vec::new();
    let mut push = |member, field, value: Option<String>| {
        fields.push(FieldChange {
            member,
            field,
            value,
        });
    };
    if let Some(name) = &changes.name {
        push("name", "name", Some(name.clone()));
    }
    if let Some(description) = changes.description.change() {
        push("description", "description", description.cloned());
    }
    if let Some(priority) = changes.priority {
        push("priority", "priority", Some(priority.to_string()));
    }
    if let Some(caps) = changes.caps.change() {
        let caps = caps.filter(|caps| !caps.is_empty());
        push("caps", "caps", caps.map(Caps::to_text));
    }
    if let Some(overage) = changes.commit_overage_policy.change() {
        let word = overage.map(|overage| overage.as_str().to_owned());
        push("commit_overage_policy", "commit_overage_policy", word);
    }
    if let Some(ttl) = changes.reservation_ttl_override {
        for (field, value) in [
            ("default_ttl_ms", ttl.default_ttl_ms),
            ("max_ttl_ms", ttl.max_ttl_ms),
            ("max_extensions", ttl.max_extensions),
        ] {
            let value = value.map(|value| value.to_string());
            push("reservation_ttl_override", field, value);
        }
    }
    if let Some(rates) = changes.rate_limits {
        for (field, value) in [
            (
                "max_reservations_per_minute",
                rates.max_reservations_per_minute,
            ),
            ("max_commits_per_minute", rates.max_commits_per_minute),
        ] {
            push("rate_limits", field, value.map(|value| value.to_string()));
        }
    }
    if let Some(status) = changes.status {
        push("status", "status", Some(status.to_string()));
    }
    for (member, field, edge) in [
        (
            "effective_from",
            "effective_from_ms",
            &changes.effective_from,
        ),
        (
            "effective_until",
            "effective_until_ms",
            &changes.effective_until,
        ),
    ] {
        if let Some(edge) = edge.change() {
            let ms = edge.map(|edge| edge.as_ms().to_string());
            push(member, field, ms);
        }
    }
    fields
}

/// What the audit entry tells of a change.
pub(super) fn push_changes(audit: &mut Pairs, changes: &PolicyChanges) {
    let told = [
        ("metadata.name", changes.name.clone()),
        (
            "metadata.priority",
            changes.priority.map(|priority| priority.to_string()),
        ),
        (
            "metadata.new_status",
            changes.status.map(|status| status.to_string()),
        ),
        (
            "metadata.caps_updated",
            changes.caps.change().map(|_| "true".to_owned()),
        ),
        (
            "metadata.commit_overage_policy",
            changes
                .commit_overage_policy
                .value()
                .map(|overage| overage.as_str().to_owned()),
        ),
    ];
    audit.extend(
        told.into_iter()
            .filter_map(|(name, value)| Some((name, value?))),
    );
}

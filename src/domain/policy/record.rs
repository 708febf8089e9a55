//! A policy: its requests, its record and its response.

use super::template::{BudgetTemplate, refuse_repeated};
use super::{Caps, OveragePolicy, PolicyId, ScopePattern};
use crate::domain::amount::Unit;
use crate::domain::fields::{Blank, DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX, Patch, object};
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::reservation::RESERVATION_TTL_MS;
use crate::domain::scope::SCOPE_CHARS_MAX;
use crate::domain::words::words;

words! {
    /// Whether a policy takes part in decisions.
    PolicyStatus: "SCREAMING_SNAKE_CASE" {
        /// It does, within its window.
        Active,
        /// It does not.
        Disabled,
    }
}

object! {
    /// Lifetimes of reservations under a policy.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ReservationTtlOverride: Read + Serialize + Recorded + Nested {
        /// Lifetime of a reservation whose request names none, in milliseconds.
        pub default_ttl_ms: Option<i64> { range: RESERVATION_TTL_MS },
        /// Longest lifetime that a reservation gets, in milliseconds.
        pub max_ttl_ms: Option<i64> { range: RESERVATION_TTL_MS },
        /// How often a reservation may be extended; 0 forbids it.
        pub max_extensions: Option<i64> { range: 0.. },
    }
}

object! {
    /// How much may be done under a policy in one scope and one UTC minute of the store's clock.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct RateLimits: Read + Serialize + Recorded + Nested {
        /// Reservations in a minute; further ones are refused until the next.
        pub max_reservations_per_minute: Option<i64> { range: 1.. },
        /// Commits in a minute, after which further reservations are refused until the next. A commit is never refused.
        pub max_commits_per_minute: Option<i64> { range: 1.. },
    }
}

object! {
    /// Creates a policy for scopes of one tenant.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PolicyCreateRequest: Read + Written {
        /// Tenant that owns the policy. Required with the admin key; refused with an API key.
        pub tenant_id: Option<String> { chars: ..=128, recorded: false },
        /// Name, unique in the tenant.
        pub name: String { chars: 1..=NAME_CHARS_MAX, blank: Blank::Refused, recorded: false },
        /// Description.
        pub description: Option<String> { chars: ..=DESCRIPTION_CHARS_MAX },
        /// Scopes that the policy matches: one (`tenant:acme/app:chat`), all below one (`tenant:acme/*`), or all of one level
        /// right below one (`tenant:acme/agent:*`). It is compared with the deepest scope of a request, and cannot change.
        pub scope_pattern: String { chars: 1..=SCOPE_CHARS_MAX, blank: Blank::Refused, recorded: false },
        /// Of several policies that match, only the one with the highest priority applies.
        pub priority: i64 { range: 0.., default: 0 },
        /// Limits that the caller must keep: decisions become `ALLOW_WITH_CAPS`.
        pub caps: Option<Caps>,
        /// Overage policy of commits above their estimate, unless the reservation sets it.
        pub commit_overage_policy: Option<OveragePolicy>,
        /// Lifetimes of reservations; overrides the tenant's settings.
        pub reservation_ttl_override: Option<ReservationTtlOverride>,
        /// How much may be done in one scope and minute.
        pub rate_limits: Option<RateLimits>,
        /// Budgets, one of a unit, for scopes that the pattern matches exactly and that have none: a scope gets its budget when a request
        /// needs one there. The pattern names one scope or one level then. Needs `budgets:write` as well.
        pub budget_templates: Option<Vec<BudgetTemplate>> { items: ..=Unit::ALL.len() },
        /// Start of the time in which the policy applies. Absent: at once.
        pub effective_from: Option<Moment> { field: "effective_from_ms" },
        /// End of the time in which the policy applies. Absent: never.
        pub effective_until: Option<Moment> { field: "effective_until_ms" },
    }
    check |request, object| {
        let templates = request.budget_templates.as_deref().unwrap_or_default();
        refuse_repeated(templates, object);
        if !templates.is_empty() && request.scope_pattern.ends_with("/*") {
            object.refuse_member("budget_templates", TEMPLATES_BELOW);
        }
    }
}

/// Why a policy for all scopes below one has no templates.
pub const TEMPLATES_BELOW: &str = "needs a scope_pattern that names one scope or one level, such as tenant:acme/agent:*; not all scopes below one";

object! {
    /// Changes a policy. Absent members keep their values; an object replaces the stored one; `null` removes what is
    /// optional.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct PolicyUpdateRequest: Read + Written {
        /// Name, unique in the tenant.
        pub name: Option<String> { chars: 1..=NAME_CHARS_MAX, blank: Blank::Refused },
        /// Description.
        pub description: Patch<String> { chars: ..=DESCRIPTION_CHARS_MAX },
        /// Of several policies that match, only the one with the highest priority applies.
        pub priority: Patch<i64> { range: 0.., cleared: "0" },
        /// Limits that the caller must keep.
        pub caps: Patch<Caps>,
        /// Overage policy of commits above their estimate, unless the reservation sets it.
        pub commit_overage_policy: Patch<OveragePolicy>,
        /// Lifetimes of reservations; overrides the tenant's settings.
        pub reservation_ttl_override: Patch<ReservationTtlOverride>,
        /// How much may be done in one scope and minute.
        pub rate_limits: Patch<RateLimits>,
        /// Replaces all templates of budgets; `[]` or `null` removes them. Budgets that exist stay as they are. Needs `budgets:write` as
        /// well.
        pub budget_templates: Patch<Vec<BudgetTemplate>> { items: ..=Unit::ALL.len() },
        /// `DISABLED` takes the policy out of all decisions; a policy cannot be deleted.
        pub status: Option<PolicyStatus>,
        /// Start of the time in which the policy applies.
        pub effective_from: Patch<Moment> { field: "effective_from_ms" },
        /// End of the time in which the policy applies.
        pub effective_until: Patch<Moment> { field: "effective_until_ms" },
    }
    check |request, object| {
        refuse_repeated(request.budget_templates.value().map_or(&[], Vec::as_slice), object);
    }
}

object! {
    /// A policy.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Policy: Serialize + Recorded {
        /// Id of the policy.
        pub policy_id: PolicyId,
        /// Tenant that owns the policy.
        pub tenant_id: TenantId { field: "tenant", internal: true },
        /// Name, unique in the tenant.
        pub name: String { chars: ..=NAME_CHARS_MAX, required: false },
        /// Description.
        pub description: Option<String> { chars: ..=DESCRIPTION_CHARS_MAX },
        /// Scopes that the policy matches, in lower case.
        pub scope_pattern: ScopePattern,
        /// Of several policies that match, only the one with the highest priority applies.
        pub priority: i64 { range: 0.., required: false },
        /// Limits that the caller must keep.
        pub caps: Option<Caps>,
        /// Overage policy of commits above their estimate, unless the reservation sets it.
        pub commit_overage_policy: Option<OveragePolicy>,
        /// Lifetimes of reservations; overrides the tenant's settings.
        pub reservation_ttl_override: ReservationTtlOverride { skip_if: |ttl| *ttl == Default::default() },
        /// How much may be done in one scope and minute.
        pub rate_limits: RateLimits { skip_if: |limits| *limits == Default::default() },
        /// Budgets for scopes that the pattern matches exactly and that have none.
        pub budget_templates: Option<Vec<BudgetTemplate>>,
        /// Whether it takes part in decisions.
        pub status: PolicyStatus,
        /// Start of the time in which the policy applies.
        pub effective_from: Option<Moment> { field: "effective_from_ms" },
        /// End of the time in which the policy applies.
        pub effective_until: Option<Moment> { field: "effective_until_ms" },
        /// When it was created.
        pub created_at: Moment { field: "created_at_ms" },
        /// When it was last changed.
        pub updated_at: Option<Moment> { field: "updated_at_ms" },
    }
}

impl Policy {
    /// The template of budgets in a unit.
    pub fn template(&self, unit: Unit) -> Option<&BudgetTemplate> {
        let mut templates = self.budget_templates.iter().flatten();
        templates.find(|template| template.unit == unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::read_body;
    use crate::domain::rows;

    fn created(more: &str) -> Result<PolicyCreateRequest, String> {
        read_body(&format!(
            r#"{{"name":"n","scope_pattern":"tenant:acme/*"{more}}}"#
        ))
    }

    fn patched(body: &str) -> Result<PolicyUpdateRequest, String> {
        read_body(body)
    }

    #[test]
    fn values_out_of_bounds_are_refused_by_name() {
        for (more, named) in rows(
            r#"
            ,"priority":-1 => priority
            ,"priority":1.0 => priority
            ,"status":"ACTIVE" => status
            ,"caps":{"max_tokens":-1} => caps.max_tokens
            ,"caps":{"max":1} => caps.max
            ,"caps":{"tool_allowlist":[1]} => caps.tool_allowlist[0]
            ,"reservation_ttl_override":{"default_ttl_ms":999} => reservation_ttl_override.default_ttl_ms
            ,"reservation_ttl_override":{"max_extensions":-1} => reservation_ttl_override.max_extensions
            ,"rate_limits":{"max_commits_per_minute":0} => rate_limits.max_commits_per_minute
            ,"commit_overage_policy":"reject" => commit_overage_policy
            ,"effective_from":"tomorrow" => effective_from
            "#,
        ) {
            let refused = created(more).unwrap_err();
            assert!(refused.contains(named), "{more}: {refused}");
        }
        assert!(created(r#","priority":9223372036854775807,"caps":{},"tenant_id":null"#).is_ok());
        for body in [r#"{"priority":-1}"#, r#"{"scope_pattern":"tenant:acme"}"#] {
            assert!(patched(body).is_err(), "{body}");
        }
    }

    #[test]
    fn a_patch_distinguishes_absent_from_null() {
        assert_eq!(patched("{}").unwrap().caps, Patch::Keep);
        let nulls = patched(
            r#"{"name":null,"description":null,"priority":null,"caps":null,"commit_overage_policy":null,
                "reservation_ttl_override":null,"rate_limits":null,"budget_templates":null,"status":null,"effective_from":null}"#,
        );
        let changes = nulls.unwrap();
        assert_eq!((&changes.name, changes.status), (&None, None));
        assert_eq!(changes.description, Patch::Clear);
        let cleared = changes.fields();
        let cleared = |field: &str| {
            let change = cleared.iter().find(|change| change.field == field);
            change.expect("a change of the field")
        };
        assert_eq!(cleared("priority").value.as_deref(), Some("0"));
        assert_eq!(changes.caps, Patch::Clear);
        assert_eq!(changes.rate_limits, Patch::Clear);
        assert_eq!(cleared("max_commits_per_minute").value, None);
        let ttl = cleared("default_ttl_ms");
        assert_eq!(ttl.member, "reservation_ttl_override");
        assert_eq!(changes.effective_from, Patch::Clear);
        assert_eq!(changes.effective_until, Patch::Keep);
    }

    #[test]
    fn an_object_is_replaced_as_a_whole() {
        let fields = |body: &str| -> Vec<_> {
            let fields = patched(body).unwrap().fields().into_iter();
            fields.map(|change| (change.field, change.value)).collect()
        };
        assert_eq!(
            fields(r#"{"reservation_ttl_override":{"max_ttl_ms":5000},"caps":{}}"#),
            [
                ("caps", None),
                ("default_ttl_ms", None),
                ("max_ttl_ms", Some("5000".to_owned())),
                ("max_extensions", None),
            ]
        );
    }
}

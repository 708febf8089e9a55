//! Policies as requests and responses show them.

pub mod create;
pub mod list;
pub mod update;

pub use list::{Policies, PolicyListResponse};

use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::{NewPolicy, PolicyChanges};
use crate::api::errors::ApiError;
use crate::domain::fields::{Blank, Patch, Problems, object};
use crate::domain::moment::Moment;
use crate::domain::policy;
use crate::domain::policy::{
    Caps, OveragePolicy, PolicyStatus, RateLimits, ReservationTtlOverride, ScopePattern,
};
use crate::domain::scope::SCOPE_CHARS_MAX;

object! {
    /// Creates a policy for scopes of one tenant.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PolicyCreateRequest: Read {
        /// Tenant that owns the policy. Required with the admin key; refused with an API key.
        pub tenant_id: Option<String> { chars: ..=128 },
        /// Name, unique in the tenant.
        pub name: String { chars: 1..=256, blank: Blank::Refused },
        /// Description.
        pub description: Option<String> { chars: ..=1024 },
        /// Scopes that the policy matches: one (`tenant:acme/app:chat`), all below one (`tenant:acme/*`), or all of one level
        /// right below one (`tenant:acme/agent:*`). It is compared with the deepest scope of a request, and cannot change.
        pub scope_pattern: String { chars: 1..=SCOPE_CHARS_MAX, blank: Blank::Refused },
        /// Of several policies that match, only the one with the highest priority applies.
        pub priority: i64 { range: 0.., default: 0 },
        /// Limits that the caller must keep: decisions become `ALLOW_WITH_CAPS`.
        pub caps: Option<Caps>,
        /// What a commit above its estimate does where the reservation does not say.
        pub commit_overage_policy: Option<OveragePolicy>,
        /// Lifetimes of reservations; overrides the tenant's settings.
        pub reservation_ttl_override: Option<ReservationTtlOverride>,
        /// How much may be done in one scope and minute.
        pub rate_limits: Option<RateLimits>,
        /// Start of the time in which the policy applies. Absent: at once.
        pub effective_from: Option<Moment>,
        /// End of the time in which the policy applies. Absent: never.
        pub effective_until: Option<Moment>,
    }
}

impl PolicyCreateRequest {
    /// What is to be made.
    ///
    /// # Errors
    /// 400 naming the segment of the pattern that breaks the grammar.
    pub fn into_new(self) -> Result<NewPolicy, ApiError> {
        let scope_pattern = ScopePattern::parse(&self.scope_pattern)
            .map_err(|error| Problems::one("scope_pattern", error.to_string()))?;
        Ok(NewPolicy {
            tenant_id: self.tenant_id,
            name: self.name,
            description: self.description,
            scope_pattern,
            priority: self.priority,
            caps: self.caps.filter(|caps| !caps.is_empty()),
            commit_overage_policy: self.commit_overage_policy,
            reservation_ttl_override: self.reservation_ttl_override.unwrap_or_default(),
            rate_limits: self.rate_limits.unwrap_or_default(),
            effective_from: self.effective_from,
            effective_until: self.effective_until,
        })
    }
}

object! {
    /// Changes a policy. What is absent stays; an object replaces the whole of what was there; `null` removes what is
    /// optional.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PolicyUpdateRequest: Read {
        /// Name, unique in the tenant.
        pub name: Option<String> { chars: 1..=256, blank: Blank::Refused },
        /// Description.
        pub description: Patch<String> { chars: ..=1024 },
        /// Of several policies that match, only the one with the highest priority applies.
        pub priority: Patch<i64> { range: 0.. },
        /// Limits that the caller must keep.
        pub caps: Patch<Caps>,
        /// What a commit above its estimate does where the reservation does not say.
        pub commit_overage_policy: Patch<OveragePolicy>,
        /// Lifetimes of reservations; overrides the tenant's settings.
        pub reservation_ttl_override: Patch<ReservationTtlOverride>,
        /// How much may be done in one scope and minute.
        pub rate_limits: Patch<RateLimits>,
        /// `DISABLED` takes the policy out of all decisions; a policy cannot be deleted.
        pub status: Option<PolicyStatus>,
        /// Start of the time in which the policy applies.
        pub effective_from: Patch<Moment>,
        /// End of the time in which the policy applies.
        pub effective_until: Patch<Moment>,
    }
}

impl PolicyUpdateRequest {
    /// What is to be changed.
    pub fn into_changes(self) -> PolicyChanges {
        PolicyChanges {
            name: self.name,
            description: self.description,
            priority: self.priority.or_default(),
            caps: self.caps,
            commit_overage_policy: self.commit_overage_policy,
            reservation_ttl_override: self.reservation_ttl_override.or_default(),
            rate_limits: self.rate_limits.or_default(),
            status: self.status,
            effective_from: self.effective_from,
            effective_until: self.effective_until,
        }
    }
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Names the policy.
    pub policy_id: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256, nullable = false)]
    pub name: Option<String>,
    /// Why it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024, nullable = false)]
    pub description: Option<String>,
    /// For which scopes, in lower case.
    pub scope_pattern: String,
    /// The highest of those that match counts, alone.
    #[schema(minimum = 0, required = false)]
    pub priority: i64,
    /// What the caller must keep to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub caps: Option<Caps>,
    /// What a commit above its estimate does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub commit_overage_policy: Option<OveragePolicy>,
    /// Goes before the tenant's settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reservation_ttl_override: Option<ReservationTtlOverride>,
    /// How much may be done in one scope and minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rate_limits: Option<RateLimits>,
    /// Whether it takes part in decisions.
    pub status: PolicyStatus,
    /// From when on it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub effective_from: Option<Moment>,
    /// Until before when it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub effective_until: Option<Moment>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// When it was last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub updated_at: Option<Moment>,
}

/// The tenant of a policy is not shown.
impl From<policy::Policy> for Policy {
    fn from(policy: policy::Policy) -> Self {
        let (ttl, rates) = (policy.reservation_ttl_override, policy.rate_limits);
        Self {
            policy_id: policy.policy_id.to_string(),
            name: Some(policy.name),
            description: policy.description,
            scope_pattern: policy.scope_pattern.to_string(),
            priority: policy.priority,
            caps: policy.caps,
            commit_overage_policy: policy.commit_overage_policy,
            reservation_ttl_override: (ttl != Default::default()).then_some(ttl),
            rate_limits: (rates != Default::default()).then_some(rates),
            status: policy.status,
            effective_from: policy.effective_from,
            effective_until: policy.effective_until,
            created_at: policy.created_at,
            updated_at: policy.updated_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::Read as _;
    use crate::domain::json::Json;

    fn json(body: &str) -> Json {
        Json::parse(body.as_bytes()).unwrap()
    }

    fn created(more: &str) -> Result<PolicyCreateRequest, String> {
        let body = format!(r#"{{"name":"n","scope_pattern":"tenant:acme/*"{more}}}"#);
        PolicyCreateRequest::from_json(json(&body)).map_err(|problems| problems.to_string())
    }

    fn patched(body: &str) -> Result<PolicyUpdateRequest, String> {
        PolicyUpdateRequest::from_json(json(body)).map_err(|problems| problems.to_string())
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_by_name() {
        for (more, named) in [
            (r#","priority":-1"#, "priority"),
            (r#","priority":1.0"#, "priority"),
            (r#","status":"ACTIVE""#, "status"),
            (r#","caps":{"max_tokens":-1}"#, "caps.max_tokens"),
            (r#","caps":{"max":1}"#, "caps.max"),
            (
                r#","caps":{"tool_allowlist":[1]}"#,
                "caps.tool_allowlist[0]",
            ),
            (
                r#","reservation_ttl_override":{"default_ttl_ms":999}"#,
                "reservation_ttl_override.default_ttl_ms",
            ),
            (
                r#","reservation_ttl_override":{"max_extensions":-1}"#,
                "reservation_ttl_override.max_extensions",
            ),
            (
                r#","rate_limits":{"max_commits_per_minute":0}"#,
                "rate_limits.max_commits_per_minute",
            ),
            (
                r#","commit_overage_policy":"reject""#,
                "commit_overage_policy",
            ),
            (r#","effective_from":"tomorrow""#, "effective_from"),
        ] {
            let refused = created(more).unwrap_err();
            assert!(refused.contains(named), "{more}: {refused}");
        }
        assert!(created(r#","priority":9223372036854775807,"caps":{},"tenant_id":null"#).is_ok());
        for body in [r#"{"priority":-1}"#, r#"{"scope_pattern":"tenant:acme"}"#] {
            assert!(patched(body).is_err(), "{body}");
        }
    }

    #[test]
    fn a_patch_tells_what_stays_from_what_goes() {
        assert_eq!(patched("{}").unwrap().into_changes().caps, Patch::Keep);
        let nulls = patched(
            r#"{"name":null,"description":null,"priority":null,"caps":null,"commit_overage_policy":null,
                "reservation_ttl_override":null,"rate_limits":null,"status":null,"effective_from":null}"#,
        );
        let changes = nulls.unwrap().into_changes();
        assert_eq!((changes.name, changes.status), (None, None));
        assert_eq!(changes.description, Patch::Clear);
        assert_eq!(changes.priority, Some(0));
        assert_eq!(changes.caps, Patch::Clear);
        assert_eq!(changes.rate_limits, Some(RateLimits::default()));
        assert_eq!(changes.effective_from, Patch::Clear);
        assert_eq!(changes.effective_until, Patch::Keep);
    }

    #[test]
    fn a_pattern_is_refused_naming_the_segment() {
        let request = PolicyCreateRequest {
            scope_pattern: "tenant:acme/*/agent:x".to_owned(),
            ..created("").unwrap()
        };
        let message = request.into_new().unwrap_err().message();
        assert!(
            message.starts_with("Validation failed: scope_pattern: segment `*`"),
            "{message}"
        );
    }
}

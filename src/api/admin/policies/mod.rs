//! Policies: `POST` and `GET /v1/admin/policies`, `PATCH /v1/admin/policies/{policy_id}`.

pub mod handlers;
mod list;

pub use list::{PolicyListQuery, PolicyListResponse};

use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::{NewPolicy, PolicyChanges};
use crate::api::errors::ApiError;
use crate::domain::fields::{Object, Patch, Problems, Value, read_body};
use crate::domain::json::Json;
use crate::domain::moment::Moment;
use crate::domain::policy::{
    Caps, OveragePolicy, PolicyStatus, RateLimits, ReservationTtlOverride, ScopePattern,
};

const NAME_CHARS: usize = 256;
const DESCRIPTION_CHARS: usize = 1024;
const PATTERN_CHARS: usize = 1024;

/// Makes a policy for scopes of one tenant.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyCreateRequest {
    /// Whose policy it is. Required with the admin key; must be absent with an API key, which names its tenant itself.
    #[schema(max_length = 128, nullable = false)]
    pub tenant_id: Option<String>,
    /// For people; no two policies of a tenant have the same.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// Why it is there.
    #[schema(max_length = 1024, nullable = false)]
    pub description: Option<String>,
    /// For which scopes: one (`tenant:acme/app:chat`), all below one (`tenant:acme/*`), or all of one level right below
    /// one (`tenant:acme/agent:*`). It is compared with the deepest scope of a request, and cannot change.
    #[schema(min_length = 1, max_length = 1024)]
    pub scope_pattern: String,
    /// Where several policies match, the one with the highest counts, alone.
    #[schema(minimum = 0, default = 0, required = false)]
    pub priority: i64,
    /// What the caller must keep to: decisions become `ALLOW_WITH_CAPS`.
    #[schema(nullable = false)]
    pub caps: Option<Caps>,
    /// What a commit above its estimate does where the reservation does not say.
    #[schema(nullable = false)]
    pub commit_overage_policy: Option<OveragePolicy>,
    /// Goes before the tenant's settings.
    #[schema(nullable = false)]
    pub reservation_ttl_override: Option<ReservationTtlOverride>,
    /// How much may be done in one scope and minute.
    #[schema(nullable = false)]
    pub rate_limits: Option<RateLimits>,
    /// From when on it counts. Absent: at once.
    #[schema(value_type = String, format = DateTime, required = false)]
    pub effective_from: Option<Moment>,
    /// Until before when it counts. Absent: for ever.
    #[schema(value_type = String, format = DateTime, required = false)]
    pub effective_until: Option<Moment>,
}

impl PolicyCreateRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let tenant_id = body.optional("tenant_id", |value| value.string(0..=128));
            let name = body.required("name", read_name);
            let description = body.optional("description", read_description);
            let scope_pattern = body.required("scope_pattern", |value| value.text(PATTERN_CHARS));
            let priority = body.optional("priority", read_priority);
            let caps = body.optional("caps", Caps::read);
            let commit_overage_policy = body.optional("commit_overage_policy", OveragePolicy::read);
            let reservation_ttl_override =
                body.optional("reservation_ttl_override", ReservationTtlOverride::read);
            let rate_limits = body.optional("rate_limits", RateLimits::read);
            let effective_from = body.optional("effective_from", |value| value.moment());
            let effective_until = body.optional("effective_until", |value| value.moment());
            Some(Self {
                tenant_id,
                name: name?,
                description,
                scope_pattern: scope_pattern?,
                priority: priority.unwrap_or(0),
                caps,
                commit_overage_policy,
                reservation_ttl_override,
                rate_limits,
                effective_from,
                effective_until,
            })
        })
    }

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

/// Changes a policy. What is absent stays; an object replaces the whole of what was there; `null` removes what is
/// optional.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyUpdateRequest {
    /// For people; no two policies of a tenant have the same.
    #[schema(min_length = 1, max_length = 256, nullable = false)]
    pub name: Option<String>,
    /// Why it is there.
    #[schema(value_type = String, max_length = 1024, required = false)]
    pub description: Option<Patch<String>>,
    /// The highest of those that match counts, alone.
    #[schema(value_type = i64, minimum = 0, required = false)]
    pub priority: Option<Patch<i64>>,
    /// What the caller must keep to.
    #[schema(value_type = Caps, required = false)]
    pub caps: Option<Patch<Caps>>,
    /// What a commit above its estimate does.
    #[schema(value_type = OveragePolicy, required = false)]
    pub commit_overage_policy: Option<Patch<OveragePolicy>>,
    /// Goes before the tenant's settings.
    #[schema(value_type = ReservationTtlOverride, required = false)]
    pub reservation_ttl_override: Option<Patch<ReservationTtlOverride>>,
    /// How much may be done in one scope and minute.
    #[schema(value_type = RateLimits, required = false)]
    pub rate_limits: Option<Patch<RateLimits>>,
    /// `DISABLED` takes it out of all decisions; there is no other way to be rid of a policy.
    #[schema(nullable = false)]
    pub status: Option<PolicyStatus>,
    /// From when on it counts.
    #[schema(value_type = String, format = DateTime, required = false)]
    pub effective_from: Option<Patch<Moment>>,
    /// Until before when it counts.
    #[schema(value_type = String, format = DateTime, required = false)]
    pub effective_until: Option<Patch<Moment>>,
}

impl PolicyUpdateRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            Some(Self {
                name: body.optional("name", read_name),
                description: body.clearable("description", read_description),
                priority: body.clearable("priority", read_priority),
                caps: body.clearable("caps", Caps::read),
                commit_overage_policy: body.clearable("commit_overage_policy", OveragePolicy::read),
                reservation_ttl_override: body
                    .clearable("reservation_ttl_override", ReservationTtlOverride::read),
                rate_limits: body.clearable("rate_limits", RateLimits::read),
                status: body.optional("status", PolicyStatus::read),
                effective_from: moment(body, "effective_from"),
                effective_until: moment(body, "effective_until"),
            })
        })
    }

    /// What is to be changed.
    pub fn into_changes(self) -> PolicyChanges {
        PolicyChanges {
            name: self.name,
            description: self.description,
            priority: self.priority.map(or_default),
            caps: self.caps,
            commit_overage_policy: self.commit_overage_policy,
            reservation_ttl_override: self.reservation_ttl_override.map(or_default),
            rate_limits: self.rate_limits.map(or_default),
            status: self.status,
            effective_from: self.effective_from,
            effective_until: self.effective_until,
        }
    }
}

fn or_default<T: Default>(patch: Patch<T>) -> T {
    match patch {
        Patch::Set(value) => value,
        Patch::Clear => T::default(),
    }
}

fn read_name(value: Value<'_>) -> Option<String> {
    value.text(NAME_CHARS)
}

fn read_description(value: Value<'_>) -> Option<String> {
    value.string(0..=DESCRIPTION_CHARS)
}

fn read_priority(value: Value<'_>) -> Option<i64> {
    value.integer(0..=i64::MAX)
}

fn moment(body: &mut Object<'_>, name: &str) -> Option<Patch<Moment>> {
    body.clearable(name, |value| value.moment())
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(patched("{}").unwrap().into_changes().caps, None);
        let nulls = patched(
            r#"{"name":null,"description":null,"priority":null,"caps":null,"commit_overage_policy":null,
                "reservation_ttl_override":null,"rate_limits":null,"status":null,"effective_from":null}"#,
        );
        let changes = nulls.unwrap().into_changes();
        assert_eq!((changes.name, changes.status), (None, None));
        assert_eq!(changes.description, Some(Patch::Clear));
        assert_eq!(changes.priority, Some(0));
        assert_eq!(changes.caps, Some(Patch::Clear));
        assert_eq!(changes.rate_limits, Some(RateLimits::default()));
        assert_eq!(changes.effective_from, Some(Patch::Clear));
        assert_eq!(changes.effective_until, None);
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

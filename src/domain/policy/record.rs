//! A policy as it is recorded.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Caps, OveragePolicy, PolicyId, ScopePattern};
use crate::domain::fields::Value;
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::reservation::{Record, RecordError};
use crate::domain::words::words;

words! {
    /// Whether a policy takes part in decisions.
    PolicyStatus {
        /// It does, within its window.
        Active = "ACTIVE",
        /// It does not.
        Disabled = "DISABLED",
    }
}

/// Bounds of lifetimes, in milliseconds.
const TTL_MS: std::ops::RangeInclusive<i64> = 1_000..=86_400_000;

/// Lifetimes of reservations under a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationTtlOverride {
    /// Lifetime of a reservation whose request names none, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 86_400_000, nullable = false)]
    pub default_ttl_ms: Option<i64>,
    /// Longest lifetime that a reservation gets, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 86_400_000, nullable = false)]
    pub max_ttl_ms: Option<i64>,
    /// How often a reservation may be extended; 0 forbids it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, nullable = false)]
    pub max_extensions: Option<i64>,
}

impl ReservationTtlOverride {
    /// Reads the member of a request.
    pub fn read(value: Value<'_>) -> Option<Self> {
        value.object(|object| {
            Some(Self {
                default_ttl_ms: object.optional("default_ttl_ms", |value| value.integer(TTL_MS)),
                max_ttl_ms: object.optional("max_ttl_ms", |value| value.integer(TTL_MS)),
                max_extensions: object
                    .optional("max_extensions", |value| value.integer(0..=i64::MAX)),
            })
        })
    }
}

/// How much may be done under a policy in one scope and one UTC minute of the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLimits {
    /// So many reservations; further ones are refused until the next minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, nullable = false)]
    pub max_reservations_per_minute: Option<i64>,
    /// After so many commits, further reservations are refused until the next minute. A commit never is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, nullable = false)]
    pub max_commits_per_minute: Option<i64>,
}

impl RateLimits {
    /// Reads the member of a request.
    pub fn read(value: Value<'_>) -> Option<Self> {
        value.object(|object| {
            let mut limit = |name| object.optional(name, |value| value.integer(1..=i64::MAX));
            Some(Self {
                max_reservations_per_minute: limit("max_reservations_per_minute"),
                max_commits_per_minute: limit("max_commits_per_minute"),
            })
        })
    }
}

/// A policy's record. Times are on the store's clock.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Made by the service.
    pub policy_id: PolicyId,
    /// Whose it is; not shown.
    pub tenant_id: TenantId,
    /// The operator's name for it, unique in the tenant.
    pub name: String,
    /// The operator's words about it.
    pub description: Option<String>,
    /// For which scopes it is.
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
    /// Whether it takes part in decisions.
    pub status: PolicyStatus,
    /// From when on; `None`: always was.
    pub effective_from: Option<Moment>,
    /// Until before when; `None`: for ever.
    pub effective_until: Option<Moment>,
    /// When it was made.
    pub created_at: Moment,
    /// When it was last changed.
    pub updated_at: Option<Moment>,
}

impl Policy {
    /// Reads the stored fields.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn from_record(record: &Record) -> Result<Self, RecordError> {
        Ok(Self {
            policy_id: record.word("policy_id", PolicyId::parse)?,
            tenant_id: record.word("tenant", TenantId::parse)?,
            name: record.text("name")?.to_owned(),
            description: record.get("description").map(str::to_owned),
            scope_pattern: record.word("scope_pattern", ScopePattern::from_stored)?,
            priority: record.integer("priority")?,
            caps: record.optional_word("caps", Caps::from_stored)?,
            commit_overage_policy: record
                .optional_word("commit_overage_policy", OveragePolicy::parse)?,
            reservation_ttl_override: ReservationTtlOverride {
                default_ttl_ms: record.optional_integer("default_ttl_ms")?,
                max_ttl_ms: record.optional_integer("max_ttl_ms")?,
                max_extensions: record.optional_integer("max_extensions")?,
            },
            rate_limits: RateLimits {
                max_reservations_per_minute: record
                    .optional_integer("max_reservations_per_minute")?,
                max_commits_per_minute: record.optional_integer("max_commits_per_minute")?,
            },
            status: record.word("status", PolicyStatus::parse)?,
            effective_from: record.optional_moment("effective_from_ms")?,
            effective_until: record.optional_moment("effective_until_ms")?,
            created_at: record.moment("created_at_ms")?,
            updated_at: record.optional_moment("updated_at_ms")?,
        })
    }
}

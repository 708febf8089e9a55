//! A policy as it is recorded.

use super::{Caps, OveragePolicy, PolicyId, ScopePattern};
use crate::domain::fields::{Read as _, object};
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::record::{Record, RecordError};
use crate::domain::reservation::RESERVATION_TTL_MS;
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

object! {
    /// Lifetimes of reservations under a policy.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ReservationTtlOverride: Read + Show {
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
    pub struct RateLimits: Read + Show {
        /// Reservations in a minute; further ones are refused until the next.
        pub max_reservations_per_minute: Option<i64> { range: 1.. },
        /// Commits in a minute, after which further reservations are refused until the next. A commit is never refused.
        pub max_commits_per_minute: Option<i64> { range: 1.. },
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
            caps: record.optional_word("caps", Caps::from_text)?,
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

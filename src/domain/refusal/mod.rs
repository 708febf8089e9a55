//! Why the ledger refuses a request. Facts only: which status and code they become on the wire is decided elsewhere.

pub mod admin;

use std::fmt;

use super::amount::Unit;
use super::ids::TenantId;
use super::reservation::Status;

/// More rows than may be sorted: the order that a list should have is not that of an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("more than {bound} {rows} match or must be looked at, too many to sort; {advice}")]
pub struct TooManyToSort {
    /// What the rows are, in the plural.
    pub rows: &'static str,
    /// How many can be sorted, or looked at for that.
    pub bound: usize,
    /// How to ask instead.
    pub advice: &'static str,
}

/// Why an API key is not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadKey {
    /// The text is none that a key of this deployment could have.
    Malformed,
    /// No record stands under the visible prefix.
    NotFound,
    /// The secret is another one.
    Invalid,
    /// An operator revoked it, or its tenant was closed.
    Revoked,
    /// Its time is over.
    Expired,
    /// The record belongs to another tenant than it did.
    NotOwned,
}

impl BadKey {
    /// Reads the word that scripts use.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "KEY_NOT_FOUND" => Self::NotFound,
            "INVALID_KEY" => Self::Invalid,
            "KEY_REVOKED" => Self::Revoked,
            "KEY_EXPIRED" => Self::Expired,
            "KEY_NOT_OWNED_BY_TENANT" => Self::NotOwned,
            _ => return None,
        })
    }
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed | Self::NotFound => "KEY_NOT_FOUND: no such API key",
            Self::Invalid => "INVALID_KEY: the API key is wrong",
            Self::Revoked => "KEY_REVOKED: the API key has been revoked",
            Self::Expired => "KEY_EXPIRED: the API key has expired",
            Self::NotOwned => "KEY_NOT_OWNED_BY_TENANT: the API key belongs to no tenant",
        })
    }
}

/// What is wrong with the credential of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadCredential {
    /// There is no API key.
    NoKey,
    /// There is no admin key.
    NoAdminKey,
    /// The API key is not good.
    Key(BadKey),
    /// The admin key is none of those configured.
    AdminKey,
}

impl BadCredential {
    /// The word of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoKey | Self::NoAdminKey => "no_key",
            Self::Key(BadKey::Malformed) => "invalid_format",
            Self::Key(BadKey::NotFound) => "key_not_found",
            Self::Key(BadKey::Invalid) => "wrong_secret",
            Self::Key(BadKey::Revoked) => "key_revoked",
            Self::Key(BadKey::Expired) => "key_expired",
            Self::Key(BadKey::NotOwned) => "no_tenant",
            Self::AdminKey => "wrong_admin_key",
        }
    }

    /// The word of events, which know fewer; `None` where no key was used.
    pub fn failure_reason(self) -> Option<&'static str> {
        Some(match self {
            Self::NoKey | Self::NoAdminKey => return None,
            Self::Key(BadKey::Malformed) => "invalid_format",
            Self::Key(BadKey::Revoked) => "key_revoked",
            Self::Key(BadKey::Expired) => "key_expired",
            // A wrong secret makes a key that does not exist.
            Self::Key(BadKey::NotFound | BadKey::Invalid | BadKey::NotOwned) | Self::AdminKey => {
                "key_not_found"
            }
        })
    }
}

impl fmt::Display for BadCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str("Missing API key"),
            Self::NoAdminKey => f.write_str("Missing admin key"),
            Self::Key(why) => why.fmt(f),
            Self::AdminKey => f.write_str("Invalid admin key"),
        }
    }
}

/// Why an estimate cannot be held or a charge not be made; also the reason of a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// Too little remains.
    BudgetExceeded,
    /// The ledger is frozen.
    BudgetFrozen,
    /// The ledger is closed.
    BudgetClosed,
    /// No scope has a ledger in any unit.
    BudgetNotFound,
    /// The ledger is over its limit, or would be.
    OverdraftLimitExceeded,
    /// The ledger owes something.
    DebtOutstanding,
    /// The tenant is closed.
    TenantClosed,
    /// The tenant is suspended.
    TenantSuspended,
}

impl Denial {
    /// The word of the wire and of the scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BudgetExceeded => "BUDGET_EXCEEDED",
            Self::BudgetFrozen => "BUDGET_FROZEN",
            Self::BudgetClosed => "BUDGET_CLOSED",
            Self::BudgetNotFound => "BUDGET_NOT_FOUND",
            Self::OverdraftLimitExceeded => "OVERDRAFT_LIMIT_EXCEEDED",
            Self::DebtOutstanding => "DEBT_OUTSTANDING",
            Self::TenantClosed => "TENANT_CLOSED",
            Self::TenantSuspended => "TENANT_SUSPENDED",
        }
    }

    /// Reads the word that scripts use.
    pub fn parse(word: &str) -> Option<Self> {
        const ALL: [Denial; 8] = [
            Denial::BudgetExceeded,
            Denial::BudgetFrozen,
            Denial::BudgetClosed,
            Denial::BudgetNotFound,
            Denial::OverdraftLimitExceeded,
            Denial::DebtOutstanding,
            Denial::TenantClosed,
            Denial::TenantSuspended,
        ];
        ALL.into_iter().find(|denial| denial.as_str() == word)
    }
}

/// Why a request was refused. Nothing was changed, save that a denial may have been told in an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The API key is not good.
    Unauthorized(BadKey),
    /// The key lacks this permission.
    Forbidden(String),
    /// The key is restricted to other scopes.
    ScopeForbidden,
    /// The subject names another tenant than the key's.
    ForeignTenant,
    /// The reservation belongs to another tenant.
    ForeignReservation,
    /// There is no such reservation, or its record has been purged.
    NotFound,
    /// The idempotency key was first used with another request.
    IdempotencyMismatch,
    /// The tenant's record cannot be read.
    TenantUnreadable,
    /// The scope has done in this minute what the selected policy allows.
    RateLimited {
        /// How long until the next minute begins, in milliseconds.
        retry_in_ms: i64,
        /// When it begins, on the store's clock, in milliseconds.
        until_ms: i64,
        /// The policy.
        policy_id: String,
    },
    /// This tenant is closed.
    TenantClosed(TenantId),
    /// This tenant is suspended.
    TenantSuspended(TenantId),
    /// The reservation has expired.
    Expired,
    /// The reservation has ended otherwise.
    Finalized(Status),
    /// No more extensions are allowed than these.
    TooManyExtensions(i64),
    /// The scope has ledgers in these units only.
    UnitMismatch {
        /// Full path.
        scope: String,
        /// In the order of [`Unit`].
        expected: Vec<Unit>,
    },
    /// No enclosing scope has any ledger.
    BudgetNotFound,
    /// A ledger stands against it.
    Denied {
        /// Why.
        denial: Denial,
        /// Full path of the scope to blame.
        scope: String,
        /// What remains there.
        remaining: i64,
    },
    /// A ledger that may not be charged, whatever remains.
    Inactive {
        /// Frozen or closed.
        denial: Denial,
        /// Full path of the scope to blame.
        scope: String,
    },
    /// The charge exceeds what was reserved, and the policy of the reservation allows no overage.
    OverageRejected {
        /// Full path of the reservation's scope.
        scope: String,
        /// What was reserved.
        reserved: i64,
    },
    /// A record cannot be read; named by its key.
    Corrupt(String),
    /// The order that a list should have has no index, and there are too many rows to sort.
    TooManyToSort(TooManyToSort),
}

//! Why an operation of the admin plane is refused. Facts only: which status and code they become on the wire is decided
//! elsewhere.

use crate::domain::api_key::permission::ApiKeyStatus;
use crate::domain::refusal::BadKey;

/// Why a request was refused. Nothing was changed, but an audit entry may record it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminRefusal {
    /// The API key is not good, or its tenant has no record.
    Unauthorized(BadKey),
    /// The key lacks this permission.
    Forbidden(String),
    /// The key is restricted to other scopes.
    ScopeForbidden,
    /// The idempotency key was first used with another request.
    IdempotencyMismatch,
    /// The tenant's record cannot be read.
    TenantUnreadable,
    /// The tenant is closed, so what it owns cannot be changed.
    TenantClosed,
    /// A key of a suspended tenant may not change anything.
    TenantSuspended,
    /// Nothing may be created for a tenant that is suspended.
    TenantNotActive,
    /// The admin key names no tenant.
    TenantIdMissing,
    /// A tenant's key names a tenant.
    TenantIdPresent,
    /// The scope lies in another tenant than the ledger's.
    ScopeOfOtherTenant,
    /// The tenant to which something should belong does not exist.
    OwnerNotFound,
    /// There is no such tenant.
    TenantNotFound,
    /// A tenant of another name has this id.
    DuplicateTenant,
    /// A closed tenant does not become anything else.
    LeavingClosed,
    /// The ledger is frozen already, and was to be.
    AlreadyFrozen,
    /// The ledger is not frozen, and was to be no more.
    NotFrozen,
    /// The scope has a ledger in this unit.
    DuplicateBudget,
    /// The scope has no ledger in this unit.
    BudgetNotFound,
    /// The ledger belongs to another tenant.
    ForeignBudget,
    /// The ledger is frozen.
    BudgetFrozen,
    /// The ledger is closed.
    BudgetClosed,
    /// Less remains than should be taken away.
    BudgetExceeded {
        /// What remains.
        remaining: i64,
    },
    /// A figure of the ledger would leave the range of an int64.
    OutOfRange,
    /// The pattern lies in another tenant than the policy's.
    PatternOfOtherTenant,
    /// There is no such policy.
    PolicyNotFound,
    /// The policy belongs to another tenant.
    ForeignPolicy,
    /// A policy of the tenant has this name.
    DuplicatePolicy,
    /// There is no such API key.
    KeyNotFound,
    /// The API key has been revoked already.
    KeyRevoked,
    /// The API key is not good any more, so it cannot be changed.
    KeyEnded(ApiKeyStatus),
    /// The key to be created would be dead.
    ExpiresInThePast,
    /// There is no such event.
    EventNotFound,
    /// More rows match than a bulk action may have.
    TooManyMatched {
        /// How many match.
        total: usize,
    },
    /// Another number of rows matches than was expected.
    CountMismatch {
        /// How many match.
        total: usize,
    },
    /// The bulk action under this key is still on its way.
    BulkInProgress,
    /// There is no such webhook subscription.
    WebhookNotFound,
    /// The address of a subscription is not admitted.
    WebhookUrl(String),
    /// The subscription would select nothing.
    NothingSelected,
    /// A tenant's subscription would select what tenants may not see.
    HiddenSelector(String),
    /// The mask of a header's value stands where there is no value to be kept.
    MaskedHeader(String),
    /// A disabled subscription cannot be paused, only activated.
    PauseOfDisabled,
    /// A replay of the subscription is being queued.
    ReplayInProgress,
    /// More events are to be replayed than was asked for, or than can be looked at.
    TooManyToReplay {
        /// How many can be.
        bound: i64,
        /// Whether that is the request's own bound.
        asked: bool,
    },
    /// The subscription was tested too often in this minute.
    TestedTooOften {
        /// How long until it may be tested again, in milliseconds.
        retry_in_ms: i64,
        /// From when on, on the store's clock, in milliseconds.
        until_ms: i64,
    },
    /// An outcome that shows a secret cannot be kept without a key to seal it.
    NotRepeatable,
    /// It was changed by others each time that it was about to be.
    Contended,
    /// A record cannot be read; named by its key.
    Corrupt(String),
}

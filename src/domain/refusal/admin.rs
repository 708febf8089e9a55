//! Refusals of operations of the admin plane, by what they act on.

use std::fmt;

use crate::domain::amount::Unit;
use crate::domain::api_key::permission::ApiKeyStatus;
use crate::domain::api_key::secret::KeyId;
use crate::domain::budget::Balance;
use crate::domain::budget::ledger::CARRY_LIMIT_ALONE;
use crate::domain::bulk::ROWS_MAX;
use crate::domain::ids::TenantId;
use crate::domain::policy::TEMPLATES_BELOW;
use crate::domain::printable::printable;
use crate::domain::scope::ScopePath;

/// A budget as refusals name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetName {
    /// Its scope.
    pub scope: ScopePath,
    /// Unit of the budget.
    pub unit: Unit,
}

impl fmt::Display for BudgetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.scope, self.unit)
    }
}

/// Why a budget is not created, shown or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetRefusal {
    /// There is no such budget.
    #[error("There is no budget at {0}")]
    NotFound(BudgetName),
    /// There is such a budget already.
    #[error("There is already a budget at {0}")]
    Duplicate(BudgetName),
    /// It is frozen already, and was to be.
    #[error("The budget at {0} is already frozen")]
    AlreadyFrozen(BudgetName),
    /// It is not frozen, and the freeze was to end.
    #[error("The budget at {0} is not frozen")]
    NotFrozen(BudgetName),
    /// It is frozen.
    #[error("The budget at {0} is frozen")]
    Frozen(BudgetName),
    /// It is closed.
    #[error("The budget at {0} is closed")]
    Closed(BudgetName),
    /// The scope lies in another tenant than the request's.
    #[error("The scope {0} lies in another tenant")]
    OfOtherTenant(ScopePath),
    /// Less remains than is to be taken away.
    #[error(
        "{requested} {} exceed the {} that remain at {}", .budget.unit, .balance.remaining.value(), .budget.scope
    )]
    Exceeded {
        /// The budget.
        budget: BudgetName,
        /// The amount to take away.
        requested: i64,
        /// Its figures.
        balance: Box<Balance>,
    },
    /// A bound of what is carried over needs the policy that carries over.
    #[error("Validation failed: period: {CARRY_LIMIT_ALONE}")]
    CarryLimitAlone,
    /// A temporary increase would end in the past, or too late.
    #[error(
        "Validation failed: until: must lie in the future, and at most ten years from now; the same holds for the end of for"
    )]
    UntilOutOfRange,
    /// There is no such increase, or it has ended.
    #[error("The budget at {budget} has no increase {}", printable(.increase_id))]
    IncreaseNotFound {
        /// The id as sent.
        increase_id: String,
        /// The budget.
        budget: BudgetName,
    },
    /// A figure of the budget would leave the range of 64 bits.
    #[error(
        "Validation failed: amount, with RESET_SPENT amount or spent: a figure of the budget would leave the range of 64 bits"
    )]
    OutOfRange(BudgetName),
}

/// Why a policy is not created or changed. The id is as sent; it may be malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyRefusal {
    /// There is no such policy.
    #[error("There is no policy {}", printable(.0))]
    NotFound(String),
    /// It belongs to another tenant than the caller's.
    #[error("The policy {} belongs to another tenant", printable(.0))]
    OfOtherTenant(String),
    /// It is for all scopes below one, and would have templates of budgets.
    #[error("Validation failed: budget_templates: {TEMPLATES_BELOW}")]
    TemplatesBelow,
    /// A policy of the tenant has this name already.
    #[error("The tenant {tenant} already has a policy named {}", printable(.name))]
    Duplicate {
        /// The tenant.
        tenant: TenantId,
        /// The name.
        name: String,
    },
}

/// Why an API key is not created, changed or revoked. The id is as sent; it may be malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiKeyRefusal {
    /// There is no such key.
    #[error("There is no API key {}", printable(.0))]
    NotFound(String),
    /// It has been revoked already.
    #[error("The API key {} has already been revoked", printable(.0))]
    Revoked(String),
    /// It has been revoked or has expired, so it cannot be changed.
    #[error("The API key {} is {status} and can no longer be changed", printable(.key_id))]
    Ended {
        /// The key.
        key_id: String,
        /// Its status.
        status: ApiKeyStatus,
    },
    /// It has ended since it was created, so a replay of its creation does not show it.
    #[error(
        "The API key {key_id} is {status}, so it is not shown again; use another idempotency key for a new one"
    )]
    EndedSince {
        /// The key.
        key_id: KeyId,
        /// Its status.
        status: ApiKeyStatus,
    },
    /// The new key would never be valid.
    #[error("Validation failed: expires_at: must lie in the future")]
    ExpiresInThePast,
    /// A path of its scope filter is another tenant's.
    #[error(
        "Validation failed: scope_filter[{index}]: {} does not lie in the tenant {tenant} of the API key",
        printable(.entry)
    )]
    ScopeOutside {
        /// The place of the entry.
        index: usize,
        /// The entry.
        entry: String,
        /// The tenant of the key.
        tenant: TenantId,
    },
}

/// Why a subscription is not created, shown, changed or used. The id is as sent; it may be malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebhookRefusal {
    /// There is no such subscription.
    #[error("There is no webhook {}", printable(.0))]
    NotFound(String),
    /// Its address is not admitted, for this reason.
    #[error("Validation failed: url: {0}")]
    UrlNotAdmitted(String),
    /// Its address was not checked, because too many host names are looked up at the same time.
    #[error("Too many host names of webhooks are looked up at the same time; retry")]
    LookUpsBusy,
    /// It would select nothing.
    #[error(
        "Validation failed: event_types: the webhook must retain at least one event type or event category"
    )]
    NothingSelected,
    /// A tenant's subscription would select this, which tenants may not see.
    #[error(
        "Validation failed: event_types: {} is for webhooks of the operator; a tenant's may have the types and categories \
         of budget, reservation and tenant",
        printable(.0)
    )]
    HiddenSelector(String),
    /// The mask keeps the value of this header, which has none.
    #[error("Validation failed: headers.{}: the mask keeps the stored value, but there is none", printable(.0))]
    MaskedHeader(String),
    /// It is disabled, so it cannot be paused, only activated.
    #[error("Validation failed: status: a disabled webhook can be set ACTIVE, not PAUSED")]
    PauseOfDisabled,
    /// A replay of it has not ended.
    #[error("A replay of the webhook {} is in progress; try again when its first attempts have ended", printable(.0))]
    ReplayInProgress(String),
    /// More events match than `max_events` of the request, which is this.
    #[error(
        "Validation failed: max_events: more than {0} events match; none was queued; narrow from, to or event_types"
    )]
    TooManyMatch(usize),
    /// More events than this must be examined, and one replay may not.
    #[error(
        "Validation failed: from: the window holds more than {0} events of these types; none was queued; narrow from and to"
    )]
    TooManyInWindow(usize),
    /// It was tested too often in this minute.
    #[error(
        "The webhook {} was tested or replayed {most} times in this minute, which is the limit; try again in {} s",
        printable(.id), seconds(*.retry_in_ms)
    )]
    TestedTooOften {
        /// The subscription.
        id: String,
        /// Tests of it in a minute.
        most: i64,
        /// How long until it may be tested again, in milliseconds.
        retry_in_ms: i64,
        /// From when on, on the store's clock, in milliseconds.
        until_ms: i64,
    },
    /// The owner's webhooks were tested too often in this minute.
    #[error(
        "The webhooks of {} were tested or replayed {most} times in this minute, which is the limit; try again in {} s",
        printable(.owner),
        seconds(*.retry_in_ms)
    )]
    OwnerTestedTooOften {
        /// A tenant, or the operator.
        owner: String,
        /// Tests of all its subscriptions in a minute.
        most: i64,
        /// How long until it may be tested again, in milliseconds.
        retry_in_ms: i64,
        /// From when on, on the store's clock, in milliseconds.
        until_ms: i64,
    },
    /// Another request changed it at each attempt.
    #[error("The webhook {} was changed by another request at the same time; try again", printable(.0))]
    Contended(String),
}

/// Why a bulk action does nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BulkRefusal {
    /// More rows match than a bulk action may have: the number.
    #[error(
        "Invalid filter: {0} rows match, and a bulk action has at most {most}; narrow the filter",
        most = ROWS_MAX
    )]
    TooManyMatched(usize),
    /// The number of matching rows differs from the expected one.
    #[error("{0} rows match, which differs from expected_count; nothing was changed")]
    CountMismatch(usize),
    /// The bulk action under this idempotency key is still in progress.
    #[error("the bulk action is still in progress")]
    InProgress,
}

/// Why an event is not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventRefusal {
    /// There is no event of this id. The request may not have named a valid id.
    #[error("There is no event {}", printable(.0))]
    NotFound(String),
}

/// Milliseconds in whole seconds, at least one.
pub(super) fn seconds(ms: i64) -> u64 {
    (ms.max(0) as u64).div_ceil(1000).max(1)
}

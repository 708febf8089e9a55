//! Refusals of the operations that reserve and charge.

use super::admin::seconds;
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::Balance;
use crate::domain::ids::ReservationId;
use crate::domain::moment::Moment;
use crate::domain::period::{Every, Purpose};
use crate::domain::printable::printable;
use crate::domain::reservation::Status;
use crate::domain::scope::ScopePath;
use crate::domain::words::words;

/// Why nothing can be reserved, charged or returned. Scopes are full paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReservationRefusal {
    /// There is no such reservation, or its record has been purged.
    #[error("Resource not found: {}", printable(.0.as_str()))]
    NotFound(ReservationId),
    /// What the id names belongs to another tenant.
    #[error("What this id names belongs to another tenant")]
    OfOtherTenant,
    /// The reservation is past its expiry and grace period.
    #[error("The reservation {} has expired", printable(.0.as_str()))]
    Expired(ReservationId),
    /// The reservation has ended.
    #[error("The reservation {} is already {status}", printable(.reservation_id.as_str()))]
    Finalized {
        /// The reservation.
        reservation_id: ReservationId,
        /// How it has ended.
        status: Status,
    },
    /// The reservation is active: nothing was charged that could be given back.
    #[error("The reservation {} has not been committed, so nothing can be refunded", printable(.0.as_str()))]
    NotCharged(ReservationId),
    /// The refunds of the charge would exceed it.
    #[error(
        "Validation failed: amount: the refunds of {} would be {refunded} in all, of a charge of {charged}",
        printable(.id.as_str())
    )]
    RefundTooLarge {
        /// The reservation or usage event.
        id: ReservationId,
        /// What was charged.
        charged: i64,
        /// What the refunds would be.
        refunded: i64,
    },
    /// The reservation has reached its limit of extensions.
    #[error("The reservation has reached its limit of {0} extensions")]
    TooManyExtensions(i64),
    /// The selected policy allows no more reservations at the scope in this minute.
    #[error("The rate limit of the policy {policy_id} is reached at {scope}")]
    RateLimited {
        /// Scope of the request.
        scope: ScopePath,
        /// The policy.
        policy_id: String,
        /// Time until the next minute begins, in milliseconds.
        retry_in_ms: i64,
        /// When it begins, on the store's clock, in milliseconds.
        until_ms: i64,
    },
    /// The requests of the tenant have stored as many bytes as a minute allows.
    #[error(
        "The requests of this tenant have stored {present} bytes in this minute, with a limit of {limit}; \
         retry in {} s, or send less metadata",
        seconds(*.retry_in_ms)
    )]
    StoredTooMuch {
        /// How many a minute admits.
        limit: i64,
        /// How many were stored.
        present: i64,
        /// Time until the next minute begins, in milliseconds.
        retry_in_ms: i64,
        /// When it begins, on the store's clock, in milliseconds.
        until_ms: i64,
    },
    /// The ledgers of the scope count other units.
    #[error("Unit mismatch at {scope}: requested {requested}, available {}", words_of(.expected))]
    UnitMismatch {
        /// Scope of the ledgers.
        scope: String,
        /// Unit of the request.
        requested: Unit,
        /// Their units, in the order of [`Unit`].
        expected: Vec<Unit>,
    },
    /// Neither this scope nor any that encloses it has a ledger.
    #[error("Budget not found for provided scope: {0}")]
    BudgetNotFound(ScopePath),
    /// A ledger does not allow it.
    #[error(
        "{} at {scope}: requested {requested}{}{}{}",
        cause(*.denial, .funds), and_remaining(.remaining, .funds), and_since(.over_since), .denial.cure()
    )]
    Denied {
        /// Reason.
        denial: Denial,
        /// Scope of the ledger.
        scope: String,
        /// The amount to reserve or charge.
        requested: Amount,
        /// The remaining amount there; `None` where that makes no difference, as the ledger is not active.
        remaining: Option<i64>,
        /// Id of the reservation or usage event whose charge took it over its limit, if one did.
        over_since: Option<String>,
        /// Where funds are what it lacks.
        funds: Option<Box<ShortFunds>>,
    },
    /// The charge exceeds the hold, and the overage policy is `REJECT`.
    #[error("{requested} exceeds the {reserved} reserved at {scope}, and the policy is REJECT")]
    OverageRejected {
        /// Scope of the reservation.
        scope: String,
        /// The hold.
        reserved: i64,
        /// The charge.
        requested: Amount,
    },
}

/// The state of a ledger that has no room for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortFunds {
    /// Its figures.
    pub balance: Balance,
    /// When all present holds of the tenant have ended unless one is extended, in milliseconds since the epoch.
    pub holds_due_ms: Option<i64>,
    /// The window of a limit that is full. None: the ledger itself is short.
    pub window: Option<FullWindow>,
}

/// The window of a limit that has no room for a request. Amounts are in the unit of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullWindow {
    /// The length of the window.
    pub every: Every,
    /// How much it allows.
    pub amount: i64,
    /// How much was charged in it.
    pub used: i64,
    /// When it ends.
    pub end: Moment,
}

impl FullWindow {
    /// Reads the words of a reply: every, amount, used, end in milliseconds.
    pub(crate) fn parse(words: &str) -> Option<Self> {
        let mut words = words.split(' ');
        Some(Self {
            every: Every::parse(words.next()?, Purpose::Window)?,
            amount: words.next()?.parse().ok()?,
            used: words.next()?.parse().ok()?,
            end: Moment::from_ms(words.next()?.parse().ok()?)?,
        })
    }
}

words! {
    /// Why an estimate cannot be held or a charge not be made; also the reason of a denial.
    Denial: "SCREAMING_SNAKE_CASE" {
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
        /// The ledger has debt.
        DebtOutstanding,
        /// The tenant is closed.
        TenantClosed,
        /// The tenant is suspended.
        TenantSuspended,
    }
}

impl Denial {
    /// The beginning of its message.
    fn cause(self) -> &'static str {
        match self {
            Self::BudgetExceeded => "Insufficient remaining budget",
            Self::BudgetFrozen => "The budget is frozen",
            Self::BudgetClosed => "The budget is closed",
            Self::BudgetNotFound => "There is no budget",
            Self::OverdraftLimitExceeded => "The overdraft limit is exceeded",
            Self::DebtOutstanding => "The budget has outstanding debt",
            Self::TenantClosed => "The tenant is closed",
            Self::TenantSuspended => "The tenant is suspended",
        }
    }

    /// The end of its message: what to do where waiting does not help.
    fn cure(self) -> &'static str {
        match self {
            Self::OverdraftLimitExceeded => {
                "; it refuses reservations until an operator funds it (REPAY_DEBT where it has debt, else CREDIT)"
            }
            Self::DebtOutstanding => {
                "; it refuses reservations until an operator repays the debt (REPAY_DEBT)"
            }
            _ => "",
        }
    }
}

fn words_of(units: &[Unit]) -> String {
    let words: Vec<_> = units.iter().map(|unit| unit.as_str()).collect();
    words.join(", ")
}

/// The beginning of the message of a denial.
fn cause(denial: Denial, funds: &Option<Box<ShortFunds>>) -> String {
    match funds.as_deref().and_then(|funds| funds.window) {
        Some(window) => format!(
            "The limit of {} in {} is reached",
            window.amount, window.every
        ),
        None => denial.cause().to_owned(),
    }
}

fn and_remaining(remaining: &Option<i64>, funds: &Option<Box<ShortFunds>>) -> String {
    let window = funds
        .as_deref()
        .and_then(|funds| Some((funds, funds.window?)));
    match (window, remaining) {
        (Some((funds, window)), _) => {
            let reserved = funds.balance.reserved.value();
            let (used, end) = (window.used, window.end);
            format!(", used {used}, reserved {reserved}; the window ends at {end}")
        }
        (None, Some(remaining)) => format!(", remaining {remaining}"),
        (None, None) => String::new(),
    }
}

fn and_since(over_since: &Option<String>) -> String {
    let Some(id) = over_since else {
        return String::new();
    };
    let kind = match id.starts_with('e') {
        true => "the usage event",
        false => "the commit of reservation",
    };
    format!("; it is over its limit since {kind} {}", printable(id))
}

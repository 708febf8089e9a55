//! Why a request is refused: one enum per family of operations. A refusal names its subject, so that its reporter needs
//! nothing else; its message is for people. Its status and code on the wire are decided elsewhere.

mod access;
mod admin;
mod evaluated;
mod limit;
mod reservation;

pub use access::{AccessRefusal, BadCredential, BadKey, TenantRefusal};
pub use admin::{
    ApiKeyRefusal, BudgetName, BudgetRefusal, BulkRefusal, EventRefusal, PolicyRefusal,
    WebhookRefusal,
};
pub use evaluated::{EvaluatedCode, EvaluatedRefusal, MESSAGE_CHARS_MAX};
pub use limit::{CountLimit, CountLimits, StockTooLarge, TooMany};
pub use reservation::{Denial, FullWindow, ReservationRefusal, ShortFunds};

use crate::domain::ids::TenantId;

/// Declares the families: `Variant(Type),`.
macro_rules! families {
    ($($(#[$doc:meta])* $family:ident($refusal:ty),)*) => {
        /// Why a request is refused. Nothing was changed, save that an event or an audit entry may report the refusal.
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        pub enum Refusal {
            $($(#[$doc])* #[error(transparent)] $family(#[from] $refusal),)*
        }
    };
}

families! {
    /// Of the caller.
    Access(AccessRefusal),
    /// Because of the tenant.
    Tenant(TenantRefusal),
    /// Of operations that reserve and charge.
    Reservation(ReservationRefusal),
    /// Of operations on budgets.
    Budget(BudgetRefusal),
    /// Of operations on policies.
    Policy(PolicyRefusal),
    /// Of operations on API keys.
    ApiKey(ApiKeyRefusal),
    /// Of operations on webhook subscriptions.
    Webhook(WebhookRefusal),
    /// Of bulk actions.
    Bulk(BulkRefusal),
    /// Of operations on events.
    Event(EventRefusal),
    /// Of a report of usage.
    Usage(UsageRefusal),
    /// Of one more record of a kind.
    TooMany(TooMany),
    /// Of anything new while memory is short.
    Stock(StockTooLarge),
    /// Of lists.
    List(TooManyToSort),
    /// Of one more list that is sorted.
    Sort(TooManySorts),
    /// Of a list that must examine many rows.
    Scan(TooManyScanned),
}

/// A report that needs days which were merged into their month.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UsageRefusal {
    /// It begins or ends among them.
    #[error(
        "the days from {first} to {last} are only kept as a sum: from and to must take in all of them, or none"
    )]
    Cut {
        /// The first of them.
        first: String,
        /// The last.
        last: String,
    },
    /// More of them were merged while it was read, each time.
    #[error("days of the report are just being merged into their month; try again")]
    Merging,
    /// Each day is a group.
    #[error(
        "the days from {first} to {last} are only kept as a sum: group by month instead of day, or begin after them"
    )]
    ByDay {
        /// The first of them.
        first: String,
        /// The last.
        last: String,
    },
}

/// More rows than may be sorted: the order that a list should have is not that of an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("more than {bound} {rows} match or must be examined, too many to sort; {advice}")]
pub struct TooManyToSort {
    /// The name of the rows, in the plural.
    pub rows: &'static str,
    /// How many can be sorted, or looked at for that.
    pub bound: usize,
    /// How to ask instead.
    pub advice: &'static str,
    /// Whether the list is of the runtime plane, which has another error code for it.
    pub is_of_runtime_plane: bool,
}

/// As many lists of a tenant are being sorted as may be at the same time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Too many lists at the same time: {limit} are already being sorted for {tenant}, which is the limit; \
     try again in 1 s, or {advice}"
)]
pub struct TooManySorts {
    /// The tenant.
    pub tenant: TenantId,
    /// How many may be.
    pub limit: usize,
    /// How to ask instead.
    pub advice: &'static str,
}

/// The lists of a tenant examine as many rows without returning them as they may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Too many rows examined: the lists of {tenant} may examine {limit} a second that they do not return, and are {present} rows \
     ahead of that; try again in 1 s, or narrow the filters"
)]
pub struct TooManyScanned {
    /// The tenant.
    pub tenant: TenantId,
    /// How many they may in a second.
    pub limit: u32,
    /// How many they have examined that this rate has not made up for.
    pub present: i64,
}

//! Why a request is refused: one enum per family of operations. A refusal names its subject, so that whoever reports it needs
//! nothing else; its message is for people. Which status and code it becomes on the wire is decided elsewhere.

pub mod access;
pub mod api_key;
pub mod budget;
pub mod bulk;
pub mod event;
pub mod list;
pub mod policy;
pub mod reservation;
pub mod tenant;
pub mod webhook;

pub use access::{AccessRefusal, BadCredential, BadKey};
pub use api_key::ApiKeyRefusal;
pub use budget::{BudgetName, BudgetRefusal};
pub use bulk::BulkRefusal;
pub use event::EventRefusal;
pub use list::TooManyToSort;
pub use policy::PolicyRefusal;
pub use reservation::{Denial, ReservationRefusal};
pub use tenant::TenantRefusal;
pub use webhook::WebhookRefusal;

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
    /// Of lists.
    List(TooManyToSort),
}

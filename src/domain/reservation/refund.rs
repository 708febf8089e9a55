//! Request and response of a refund.

use crate::domain::amount::Amount;
use crate::domain::budget::Balance;
use crate::domain::fields::{Blank, object};
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::FreeObject;
use crate::domain::scope::ScopePath;
use crate::domain::words::words;

object! {
    /// Gives back a part of what was charged.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RefundRequest: Read {
        /// Identifies this attempt: the same key gives back once.
        pub idempotency_key: IdempotencyKey,
        /// How much. All refunds of a charge are at most the charge.
        pub amount: Amount,
        /// Reason, for the record.
        pub reason: String { chars: 1..=512, blank: Blank::Refused },
        /// Data that the client chooses. Not returned.
        pub metadata: Option<FreeObject>,
    }
}

words! {
    /// Why a budget got nothing back.
    NotRefundedReason: "SCREAMING_SNAKE_CASE" {
        /// The period of the charge is over, or its figures were reset.
        NewPeriod,
    }
}

object! {
    /// A budget that got nothing back.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct NotRefunded: Serialize {
        /// Its scope.
        pub scope: ScopePath,
        /// Why.
        pub reason: NotRefundedReason,
    }
}

object! {
    /// What was given back of a charge.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RefundResponse: Serialize {
        /// All that was given back of the charge, this refund included.
        pub refunded: Amount,
        /// What is left of the charge.
        pub charged: Amount,
        /// The budgets that got the amount back, root first, after the refund.
        pub balances: Vec<Balance>,
        /// The budgets that did not. Absent if there is none.
        pub not_refunded: Vec<NotRefunded> { skip_if: Vec::is_empty },
    }
}

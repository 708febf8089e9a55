//! Refusals after evaluation: a request that was understood and allowed, and then could not be done. Evidence attests these, so
//! status, code and details of them are here, and with the message in the refusal itself they are part of its format.

use serde_json::{Value, json};

use super::{Refusal, ReservationRefusal as Reservation, TenantRefusal as Tenant};
use crate::domain::amount::Amount;
use crate::domain::moment::Moment;
use crate::domain::printable::printable_up_to;
use crate::domain::words::words;

/// The longest message of an error, in characters.
pub const MESSAGE_CHARS_MAX: usize = 4096;

words! {
    /// Error code that clients branch on.
    EvaluatedCode: "SCREAMING_SNAKE_CASE" {
        /// Too little remains.
        BudgetExceeded,
        /// The ledger is frozen.
        BudgetFrozen,
        /// The ledger is closed.
        BudgetClosed,
        /// The reservation is past its grace period.
        ReservationExpired,
        /// The reservation has ended.
        ReservationFinalized,
        /// The ledgers count other units.
        UnitMismatch,
        /// The ledger is over its limit, or would be.
        OverdraftLimitExceeded,
        /// The ledger has debt.
        DebtOutstanding,
        /// The tenant is closed.
        TenantClosed,
    }
}

/// How such a refusal is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluatedRefusal {
    /// Status of the response.
    pub http_status: u16,
    /// For programs.
    pub code: EvaluatedCode,
    /// For people.
    pub message: String,
    /// Facts for programs.
    pub details: Option<Value>,
}

impl Refusal {
    /// How it is reported, if it is one after evaluation.
    pub fn evaluated(&self) -> Option<EvaluatedRefusal> {
        let (http_status, code, details) = match self {
            Self::Tenant(Tenant::Closed(_)) => (409, EvaluatedCode::TenantClosed, None),
            Self::Reservation(refusal) => refusal.evaluated()?,
            _ => return None,
        };
        Some(EvaluatedRefusal {
            http_status,
            code,
            message: printable_up_to(&self.to_string(), MESSAGE_CHARS_MAX),
            details,
        })
    }
}

impl Reservation {
    fn evaluated(&self) -> Option<(u16, EvaluatedCode, Option<Value>)> {
        use EvaluatedCode as C;
        Some(match self {
            Self::Expired(_) => (410, C::ReservationExpired, None),
            Self::Finalized { .. } => (409, C::ReservationFinalized, None),
            Self::UnitMismatch {
                scope,
                requested,
                expected,
            } => {
                let details = json!({
                    "scope": scope, "requested_unit": requested, "expected_units": expected,
                });
                (400, C::UnitMismatch, Some(details))
            }
            Self::OverageRejected {
                scope,
                reserved,
                requested,
            } => {
                let details = json!({
                    "scope": scope, "reserved": reserved, "unit": requested.unit(), "requested": requested.value(),
                });
                (409, C::BudgetExceeded, Some(details))
            }
            Self::Denied {
                denial,
                scope,
                requested,
                remaining,
                funds,
                ..
            } => {
                let mut details = json!({
                    "scope": scope, "unit": requested.unit(), "requested": requested.value(),
                });
                if let Some(remaining) = remaining {
                    details["remaining"] = json!(remaining);
                }
                if let Some(funds) = funds.as_deref() {
                    let balance = &funds.balance;
                    details["allocated"] = json!(balance.allocated.value());
                    details["spent"] = json!(balance.spent.value());
                    details["reserved"] = json!(balance.reserved.value());
                    details["debt"] = json!(balance.debt.map_or(0, Amount::value));
                    let due = funds.holds_due_ms.filter(|_| balance.reserved.value() > 0);
                    if let Some(due) = due.and_then(Moment::from_ms) {
                        details["holds_expire_by"] = json!(due);
                    }
                    if let Some(window) = &funds.window {
                        let amount =
                            |value: i64| json!({"unit": requested.unit(), "amount": value});
                        details["limit"] = json!({
                            "every": window.every, "amount": amount(window.amount), "used": amount(window.used),
                            "reserved": amount(balance.reserved.value()), "window_end": window.end,
                        });
                    }
                }
                // What only decisions know has no code.
                (409, C::parse(denial.as_str())?, Some(details))
            }
            _ => return None,
        })
    }
}

//! What a request is about, and the refusals that name it.

use crate::domain::amount::Amount;
use crate::domain::ids::ReservationId;
use crate::domain::refusal::{AccessRefusal, Denial, ReservationRefusal};
use crate::domain::scope::ScopePath;
use crate::store::signature::{Refused, Signature};
use crate::store::{OperationError, StoreError};

/// What a request is about, which its refusals name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target<'a> {
    /// Whatever the caller may see.
    Caller,
    /// A reservation.
    Reservation(&'a ReservationId),
    /// A reservation, and what is to be charged for it.
    Charge(&'a ReservationId, Amount),
    /// The scope of a subject, and what is to be reserved or charged there.
    Scope(&'a ScopePath, Amount),
}

impl Target<'_> {
    /// The error that a script's refusal becomes.
    pub(super) fn error(self, refused: Refused, signature: &Signature) -> OperationError {
        let unexpected = refused.unexpected(signature);
        match refused {
            Refused::Unauthorized { why } => AccessRefusal::Unauthorized(why).into(),
            Refused::Forbidden { permission } => AccessRefusal::Forbidden(permission).into(),
            Refused::ScopeForbidden { filter } => AccessRefusal::ScopeForbidden(filter).into(),
            Refused::IdempotencyMismatch => AccessRefusal::IdempotencyMismatch.into(),
            Refused::Corrupt { key } => OperationError::Corrupt(key),
            Refused::MemoryFull => StoreError::Full.into(),
            refused => match self.refusal(refused) {
                Some(refusal) => refusal.into(),
                None => unexpected.into(),
            },
        }
    }

    /// The refusal of what is to be done to the target; `None` where nothing of the kind is refused for it.
    pub(super) fn refusal(self, refused: Refused) -> Option<ReservationRefusal> {
        use ReservationRefusal as R;
        let (id, scope_path, requested) = match self {
            Self::Caller => (None, None, None),
            Self::Reservation(id) => (Some(id), None, None),
            Self::Charge(id, amount) => (Some(id), None, Some(amount)),
            Self::Scope(scope_path, amount) => (None, Some(scope_path), Some(amount)),
        };
        let denied = |denial, scope, remaining| {
            let requested = requested?;
            Some(R::Denied {
                denial,
                scope,
                requested,
                remaining,
                over_since: None,
            })
        };
        Some(match refused {
            Refused::NotFound => R::NotFound(id?.clone()),
            Refused::Foreign => R::OfOtherTenant,
            Refused::Expired => R::Expired(id?.clone()),
            Refused::Finalized { status } => R::Finalized {
                reservation_id: id?.clone(),
                status,
            },
            Refused::MaxExtensions { limit } => R::TooManyExtensions(limit),
            Refused::BudgetNotFound => R::BudgetNotFound(scope_path?.clone()),
            Refused::RateLimited {
                now_ms,
                until_ms,
                policy_id,
            } => R::RateLimited {
                scope: scope_path?.clone(),
                policy_id,
                retry_in_ms: until_ms - now_ms,
                until_ms,
            },
            Refused::BytesLimited {
                now_ms,
                until_ms,
                limit,
                present,
            } => R::StoredTooMuch {
                limit,
                present,
                retry_in_ms: until_ms - now_ms,
                until_ms,
            },
            Refused::UnitMismatch { scope, units } => R::UnitMismatch {
                scope,
                requested: requested?.unit(),
                expected: units.0,
            },
            Refused::Inactive { status, scope } if status == "FROZEN" => {
                denied(Denial::BudgetFrozen, scope, None)?
            }
            Refused::Inactive { scope, .. } => denied(Denial::BudgetClosed, scope, None)?,
            Refused::Denied {
                reason,
                scope,
                remaining,
            } => denied(reason, scope, Some(remaining))?,
            Refused::OverLimit {
                scope,
                remaining,
                since,
            } => R::Denied {
                denial: Denial::OverdraftLimitExceeded,
                scope,
                requested: requested?,
                remaining: Some(remaining),
                over_since: Some(since),
            },
            Refused::OverageRejected { scope, reserved } => R::OverageRejected {
                scope,
                reserved,
                requested: requested?,
            },
            _ => return None,
        })
    }
}

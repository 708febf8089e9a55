//! The target of a request of the runtime plane, and the refusals that name it.

use crate::domain::amount::Amount;
use crate::domain::budget::Balance;
use crate::domain::ids::{ReservationId, TenantId};
use crate::domain::refusal::{
    AccessRefusal, Denial, Refusal, ReservationRefusal, ShortFunds, TenantRefusal,
};
use crate::domain::scope::ScopePath;
use crate::store::signature::Refused;
use crate::store::target::Target;

/// The target of a request, as far as its refusals name it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RuntimeTarget<'a> {
    /// The tenant that pays, for refusals of a closed or suspended one.
    pub tenant: Option<&'a TenantId>,
    /// A reservation.
    pub reservation: Option<&'a ReservationId>,
    /// The scope of the request's subject.
    pub scope: Option<&'a ScopePath>,
    /// The amount to reserve or charge.
    pub amount: Option<Amount>,
}

impl<'a> RuntimeTarget<'a> {
    /// A reservation.
    pub(crate) fn reservation(id: &'a ReservationId) -> Self {
        Self {
            reservation: Some(id),
            ..Self::default()
        }
    }

    /// A scope, and what is to be reserved or charged there.
    pub(crate) fn scope(scope: &'a ScopePath, amount: Amount) -> Self {
        Self {
            scope: Some(scope),
            amount: Some(amount),
            ..Self::default()
        }
    }
}

impl Target for RuntimeTarget<'_> {
    fn tenant(&self) -> Option<&TenantId> {
        self.tenant
    }

    fn refusal(&self, refused: &Refused) -> Option<Refusal> {
        Some(match refused {
            Refused::Forbidden { permission } => {
                AccessRefusal::Forbidden(permission.clone()).into()
            }
            Refused::TenantSuspended => TenantRefusal::Suspended(self.tenant?.clone()).into(),
            refused => self.reservation_refusal(refused)?.into(),
        })
    }
}

impl RuntimeTarget<'_> {
    /// The refusal of what is to be done to the subject; `None` where nothing of the kind is refused for it.
    fn reservation_refusal(&self, refused: &Refused) -> Option<ReservationRefusal> {
        use ReservationRefusal as R;
        let (id, scope_path, requested) = (self.reservation, self.scope, self.amount);
        let denied = |denial, scope: &str, remaining| {
            let requested = requested?;
            Some(R::Denied {
                denial,
                scope: scope.to_owned(),
                requested,
                remaining,
                over_since: None,
                funds: None,
            })
        };
        Some(match refused {
            Refused::NotFound => R::NotFound(id?.clone()),
            Refused::Foreign => R::OfOtherTenant,
            Refused::Expired => R::Expired(id?.clone()),
            Refused::Finalized { status } => R::Finalized {
                reservation_id: id?.clone(),
                status: *status,
            },
            Refused::NotCharged => R::NotCharged(id?.clone()),
            Refused::RefundExceeds { charged, refunded } => R::RefundTooLarge {
                id: id?.clone(),
                charged: *charged,
                refunded: *refunded,
            },
            Refused::MaxExtensions { limit } => R::TooManyExtensions(*limit),
            Refused::BudgetNotFound => R::BudgetNotFound(scope_path?.clone()),
            Refused::RateLimited {
                now_ms,
                until_ms,
                policy_id,
            } => R::RateLimited {
                scope: scope_path?.clone(),
                policy_id: policy_id.clone(),
                retry_in_ms: until_ms - now_ms,
                until_ms: *until_ms,
            },
            Refused::BytesLimited {
                now_ms,
                until_ms,
                limit,
                present,
            } => R::StoredTooMuch {
                limit: *limit,
                present: *present,
                retry_in_ms: until_ms - now_ms,
                until_ms: *until_ms,
            },
            Refused::UnitMismatch { scope, units } => R::UnitMismatch {
                scope: scope.clone(),
                requested: requested?.unit(),
                expected: units.0.clone(),
            },
            Refused::Inactive { status, scope } if status == "FROZEN" => {
                denied(Denial::BudgetFrozen, scope, None)?
            }
            Refused::Inactive { scope, .. } => denied(Denial::BudgetClosed, scope, None)?,
            Refused::Denied {
                reason,
                scope,
                remaining,
                snapshot,
                holds_due_ms,
                window,
            } => R::Denied {
                denial: *reason,
                scope: scope.clone(),
                requested: requested?,
                remaining: Some(*remaining),
                over_since: None,
                funds: snapshot.as_deref().and_then(|snapshot| {
                    let balance = Balance::from_snapshot(
                        ScopePath::parse(scope)?,
                        requested?.unit(),
                        snapshot,
                    );
                    Some(Box::new(ShortFunds {
                        balance: balance?,
                        holds_due_ms: *holds_due_ms,
                        window: *window,
                    }))
                }),
            },
            Refused::OverLimit {
                scope,
                remaining,
                since,
            } => R::Denied {
                denial: Denial::OverdraftLimitExceeded,
                scope: scope.clone(),
                requested: requested?,
                remaining: Some(*remaining),
                over_since: Some(since.clone()),
                funds: None,
            },
            Refused::OverageRejected { scope, reserved } => R::OverageRejected {
                scope: scope.clone(),
                reserved: *reserved,
                requested: requested?,
            },
            _ => return None,
        })
    }
}

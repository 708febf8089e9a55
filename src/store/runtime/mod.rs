//! The scripts of the runtime plane, and what their refusals mean.

pub mod balances;
pub mod commit;
pub mod decide;
pub mod expire;
pub mod extend;
pub mod read;
pub mod release;
pub mod reserve;
pub mod usage_event;

use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::Balance;
use crate::domain::ids::{ReservationId, TenantId};
use crate::domain::policy::{InForce, OveragePolicy};
use crate::domain::record::Record;
use crate::domain::refusal::{AccessRefusal, Denial, ReservationRefusal};
use crate::domain::reservation::balance_at;
use crate::domain::scope::ScopePath;
use crate::driver::reply::unknown;
use crate::store::signature::{Refused, ScriptCall, Signature};
use crate::store::{Lane, OperationError, Store, StoreError};

/// What a request is about, which its refusals name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
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
    pub(crate) fn error(self, refused: Refused, signature: &Signature) -> OperationError {
        use ReservationRefusal as R;
        let unexpected = refused.unexpected(signature);
        match (refused, self) {
            (Refused::Unauthorized { why }, _) => AccessRefusal::Unauthorized(why).into(),
            (Refused::Forbidden { permission }, _) => AccessRefusal::Forbidden(permission).into(),
            (Refused::ScopeForbidden, _) => AccessRefusal::ScopeForbidden.into(),
            (Refused::IdempotencyMismatch, _) => AccessRefusal::IdempotencyMismatch.into(),
            (Refused::Corrupt { key }, _) => OperationError::Corrupt(key),
            (Refused::NotFound, Self::Reservation(id) | Self::Charge(id, _)) => {
                R::NotFound(id.clone()).into()
            }
            (Refused::Foreign, _) => R::OfOtherTenant.into(),
            (Refused::Expired, Self::Reservation(id) | Self::Charge(id, _)) => {
                R::Expired(id.clone()).into()
            }
            (Refused::Finalized { status }, Self::Reservation(id) | Self::Charge(id, _)) => {
                let reservation_id = id.clone();
                R::Finalized {
                    reservation_id,
                    status,
                }
                .into()
            }
            (Refused::MaxExtensions { limit }, _) => R::TooManyExtensions(limit).into(),
            (Refused::BudgetNotFound, Self::Scope(scope, _)) => {
                R::BudgetNotFound(scope.clone()).into()
            }
            (
                Refused::RateLimited {
                    now_ms,
                    until_ms,
                    policy_id,
                },
                Self::Scope(scope, _),
            ) => R::RateLimited {
                scope: scope.clone(),
                policy_id,
                retry_in_ms: until_ms - now_ms,
                until_ms,
            }
            .into(),
            (
                Refused::UnitMismatch { scope, units },
                Self::Charge(_, amount) | Self::Scope(_, amount),
            ) => {
                let requested = amount.unit();
                R::UnitMismatch {
                    scope,
                    requested,
                    expected: units.0,
                }
                .into()
            }
            (Refused::Inactive { status, scope }, Self::Scope(_, requested)) => {
                let denial = match status.as_str() {
                    "FROZEN" => Denial::BudgetFrozen,
                    _ => Denial::BudgetClosed,
                };
                R::Denied {
                    denial,
                    scope,
                    requested,
                    remaining: None,
                }
                .into()
            }
            (
                Refused::Denied {
                    reason: denial,
                    scope,
                    remaining,
                },
                Self::Charge(_, requested) | Self::Scope(_, requested),
            ) => R::Denied {
                denial,
                scope,
                requested,
                remaining: Some(remaining),
            }
            .into(),
            (Refused::OverageRejected { scope, reserved }, Self::Charge(_, requested)) => {
                R::OverageRejected {
                    scope,
                    reserved,
                    requested,
                }
                .into()
            }
            _ => unexpected.into(),
        }
    }
}

impl Store {
    /// Runs a script on a lane; a refusal names the target.
    pub(crate) async fn run_about<C: ScriptCall>(
        &self,
        lane: Lane,
        target: Target<'_>,
        call: &C,
    ) -> Result<C::Outcome, OperationError> {
        let outcome = self.run_on(lane, call).await?;
        outcome.map_err(|refused| target.error(refused, C::SIGNATURE))
    }

    /// Keys of the ledgers of a scope and of all that enclose it, root first.
    pub(crate) fn budgets_of(
        &self,
        tenant: &TenantId,
        path: &ScopePath,
        unit: Unit,
    ) -> Vec<String> {
        let keys = self.keys().of(tenant.partition());
        let budget = |scope: ScopePath| keys.budget(tenant.as_str(), unit.as_str(), scope.as_str());
        path.with_parents().map(budget).collect()
    }
}

/// `overage_policy default_ttl_ms max_ttl_ms max_extensions` of the policy that applies, `-` for what it leaves open; empty
/// without a policy.
pub(crate) fn policy_words(policy: Option<&InForce>) -> String {
    let words = |policy: &InForce| {
        format!(
            "{} {} {} {}",
            policy.overage.map_or("-", OveragePolicy::as_str),
            number(policy.default_ttl_ms),
            number(policy.max_ttl_ms),
            number(policy.max_extensions),
        )
    };
    policy.map(words).unwrap_or_default()
}

/// `max_reservations_per_minute max_commits_per_minute policy_id`, `-` for what is not limited; `None` without limits.
pub(crate) fn rate_limits(policy: Option<&InForce>) -> Option<String> {
    let policy = policy?;
    let (reservations, commits) = (
        policy.max_reservations_per_minute,
        policy.max_commits_per_minute,
    );
    reservations.or(commits)?;
    Some(format!(
        "{} {} {}",
        number(reservations),
        number(commits),
        policy.id
    ))
}

fn number(value: Option<i64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// The named fields of a record; `None` where the key holds no hash.
pub(crate) fn fields_of(names: &[&str], values: Vec<Option<String>>) -> Option<Record> {
    (!values.is_empty() || names.is_empty()).then(|| Record::from_fields(names, values))
}

/// The ledgers at the given depths of a scope, each from its figures.
pub(crate) fn balances(
    signature: &Signature,
    path: &ScopePath,
    unit: Unit,
    depths: &str,
    snapshots: &[String],
) -> Result<Vec<Balance>, StoreError> {
    let depths = depths.split_whitespace();
    let pairs = depths.zip(snapshots.iter().map(Some).chain(std::iter::repeat(None)));
    let balance = |(depth, snapshot): (&str, Option<&String>)| {
        let found = snapshot.and_then(|snapshot| balance_at(path, unit, depth, snapshot));
        let text = snapshot.map_or("the end", String::as_str);
        found.ok_or_else(|| unknown(signature.script.name(), 0, text))
    };
    pairs.map(balance).collect()
}

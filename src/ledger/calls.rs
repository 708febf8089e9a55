//! Runs scripts: checks before a call, calls again where a script asks for it, and makes refusals that name their subject.

use std::sync::Arc;

use super::Ledger;
use super::attesting::Draft;
use super::target::Target;
use crate::domain::caller::{RuntimeCaller, ScriptCaller};
use crate::domain::cause::Cause;
use crate::domain::ids::{ReservationId, TenantId};
use crate::domain::policy::{InForce, PolicySelection};
use crate::domain::refusal::{AccessRefusal, ReservationRefusal, TenantRefusal};
use crate::domain::scope::{Level, ScopePath};
use crate::domain::subject::Subject;
use crate::store::runtime::expire::expire_tenant;
use crate::store::runtime::read::{Authenticate, AuthenticateReply};
use crate::store::runtime::replay::{Replay, ReplayReply};
use crate::store::signature::{Refused, ScriptCall};
use crate::store::{ExtraTrip, Lane, MemoryStep, OperationError, StoreError};

/// Denials of a tenant that emit an event each in a minute. Those beyond are counted, and one event has their number: a denial costs
/// its caller nothing, an event about 1 KB for months.
const DENIED_PER_MINUTE: u32 = 600;

impl Ledger {
    /// Runs a script on a lane; a refusal names the target.
    pub(super) async fn run<C: ScriptCall>(
        &self,
        lane: Lane,
        target: Target<'_>,
        call: &C,
    ) -> Result<C::Outcome, OperationError> {
        let outcome = self.store.run_on(lane, call).await?;
        outcome.map_err(|refused| target.error(refused, C::SIGNATURE))
    }

    /// Checks an API key on its own, for a request that fails before its script.
    ///
    /// # Errors
    /// [`AccessRefusal::Unauthorized`], or [`AccessRefusal::Forbidden`] when `permission` is not empty and missing.
    pub async fn authenticate(
        &self,
        caller: &RuntimeCaller,
        permission: &str,
    ) -> Result<(), OperationError> {
        let call = Authenticate { caller, permission };
        let checked = self.run(Lane::Request, Target::Caller, &call);
        let AuthenticateReply::Authenticated = checked.await?;
        Ok(())
    }

    /// An id that names another partition than the caller's belongs to another tenant, or to nobody. It is read in its
    /// own partition, which the caller's script cannot reach.
    pub(super) async fn refuse_foreign(
        &self,
        caller: &RuntimeCaller,
        reservation_id: &ReservationId,
        permission: &str,
    ) -> Result<(), OperationError> {
        let partition = reservation_id.partition();
        let Some(partition) = partition.filter(|partition| *partition != caller.partition) else {
            return Ok(());
        };
        self.authenticate(caller, permission).await?;
        self.store.metrics().extra_trip(ExtraTrip::ForeignId);
        self.read_reservation(
            ScriptCaller::TRUSTED,
            partition,
            reservation_id,
            &["status"],
        )
        .await?;
        Err(ReservationRefusal::OfOtherTenant.into())
    }

    /// The deepest scope of a subject, which may name no other tenant than the key's.
    pub(super) async fn own_scope(
        &self,
        caller: &RuntimeCaller,
        subject: &Subject,
    ) -> Result<ScopePath, OperationError> {
        let tenant = subject.value(Level::Tenant);
        if tenant.is_some_and(|tenant| tenant != caller.tenant.as_str()) {
            // Without a valid key, nobody learns whether they guessed the tenant.
            self.authenticate(caller, "").await?;
            return Err(AccessRefusal::OtherTenant.into());
        }
        Ok(ScopePath::of(subject))
    }
}

/// How often a script is called again for reasons that the next call cures; more would hide a bug.
const REPETITIONS_MAX: usize = 64;

/// What a call assumes.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    /// Dead holds of the tenant that were due by then have been expired; none at the first call.
    pub swept_until_ms: Option<i64>,
    /// The policy that applies. Only for a request about a scope.
    pub policy: PolicySelection,
}

impl Ledger {
    /// Calls a script until it has decided, see [`Ledger::decided_under`].
    pub(super) async fn decided<C: ScriptCall>(
        &self,
        tenant: &TenantId,
        target: Target<'_>,
        draft: Option<&Draft<'_>>,
        call: impl Fn(&Attempt) -> C,
    ) -> Result<C::Outcome, OperationError> {
        let (outcome, _) = self.decided_under(tenant, target, draft, call).await?;
        Ok(outcome)
    }

    /// Calls a script until it has decided: again after the tenant's dead holds were expired, or under the policy that applies
    /// now. Returns that policy as well. A refusal names the tenant or the target, and the evidence of it.
    pub(super) async fn decided_under<C: ScriptCall>(
        &self,
        tenant: &TenantId,
        target: Target<'_>,
        draft: Option<&Draft<'_>>,
        call: impl Fn(&Attempt) -> C,
    ) -> Result<(C::Outcome, Option<Arc<InForce>>), OperationError> {
        let mut attempt = Attempt::default();
        if let Target::Scope(scope, _) = target {
            let now_ms = self.store.clock().now_ms();
            attempt.policy = self.policies.known(tenant, scope, now_ms);
        }
        for _ in 0..=REPETITIONS_MAX {
            let call = call(&attempt);
            let refused = match self.store.run_on(Lane::Request, &call).await? {
                Ok(outcome) => return Ok((outcome, attempt.policy.policy)),
                Err(refused) => refused,
            };
            let (refused, attested_ms) = match refused {
                Refused::Attested { now_ms, refused } => (*refused, Some(now_ms)),
                refused => (refused, None),
            };
            let error = match (refused, target) {
                (Refused::Stale { now_ms, version }, Target::Scope(scope, _)) => {
                    self.store.metrics().extra_trip(ExtraTrip::Stale);
                    let policies = self.policies.at_version(&self.store, tenant, &version);
                    attempt.policy = policies.await?.select(scope, now_ms);
                    continue;
                }
                (Refused::SweepFirst { now_ms }, _) => {
                    let trusted_ms = self.store.clock().trusted_ms(now_ms);
                    let until_ms = *attempt.swept_until_ms.get_or_insert(trusted_ms);
                    self.expire_dead_holds(tenant, until_ms).await?;
                    continue;
                }
                (Refused::TenantClosed, _) => TenantRefusal::Closed(tenant.clone()).into(),
                (Refused::TenantSuspended, _) => TenantRefusal::Suspended(tenant.clone()).into(),
                (Refused::TenantUnreadable, _) => {
                    OperationError::Corrupt(format!("tenant:{tenant}"))
                }
                (refused, _) => target.error(refused, C::SIGNATURE),
            };
            return Err(match draft {
                Some(draft) => draft.of_error(attested_ms, error),
                None => error,
            });
        }
        Err(OperationError::Store(StoreError::Reply {
            script: C::SIGNATURE.script.name(),
            position: 0,
            expected: "an outcome",
            found: "a call to repeat".to_owned(),
        }))
    }

    /// Calls a script that stores something new, see [`Ledger::decided_under`]. While its node is short of memory, only a
    /// request that was made before gets its response.
    pub(super) async fn created_under<C>(
        &self,
        replay: &Replay<'_>,
        target: Target<'_>,
        draft: Option<&Draft<'_>>,
        call: impl Fn(&Attempt) -> C,
    ) -> Result<(C::Outcome, Option<Arc<InForce>>), OperationError>
    where
        C: ScriptCall,
        C::Outcome: From<ReplayReply>,
    {
        if self.store.memory_step(replay.caller.partition) < MemoryStep::Refuse {
            match self
                .decided_under(&replay.caller.tenant, target, draft, call)
                .await
            {
                Err(OperationError::Store(StoreError::Full)) => {}
                outcome => return outcome,
            }
            self.store.metrics().extra_trip(ExtraTrip::Full);
        }
        let replayed = Box::pin(self.run(Lane::Request, target, replay)).await?;
        Ok((replayed.into(), None))
    }

    /// Above this number in a minute, a tenant's denials are only counted.
    pub(super) fn denied_per_minute(&self, caller: &RuntimeCaller) -> u32 {
        match self.store.memory_step(caller.partition) {
            MemoryStep::Enough | MemoryStep::Warn => DENIED_PER_MINUTE,
            MemoryStep::CountDenials | MemoryStep::Refuse => 0,
        }
    }

    /// Expires the tenant's holds that were due by a time, page by page, until none is left. It is a sweep: its events name no
    /// request.
    async fn expire_dead_holds(&self, tenant: &TenantId, until_ms: i64) -> Result<(), StoreError> {
        self.store.metrics().extra_trip(ExtraTrip::SweepFirst);
        let cause = Cause::sweep().lines();
        let expired = expire_tenant(&self.store, tenant, &cause, until_ms).await?;
        self.metrics.expired(expired);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::amount::{Amount, Unit};
    use crate::store::scripts::SIGNATURES;

    #[test]
    fn every_word_of_a_script_is_a_refusal_of_its_target() {
        let id = ReservationId::parse("any").expect("an id");
        let (scope, amount) = (
            ScopePath::parse("tenant:acme").expect("a scope"),
            Amount::zero(Unit::Tokens),
        );
        let mut known = 0;
        for signature in SIGNATURES {
            let script = signature.script.path();
            let target = match script {
                "runtime/commit" => Target::Charge(&id, amount),
                "runtime/release" | "runtime/extend" | "runtime/get" => Target::Reservation(&id),
                "runtime/reserve" | "runtime/decide" | "runtime/usage_event" => {
                    Target::Scope(&scope, amount)
                }
                script if script.starts_with("runtime/") => Target::Caller,
                _ => continue,
            };
            for refused in Refused::samples(signature) {
                let word = refused.word();
                // Such a call is repeated, or no refusal, or `decided_under` knows the tenant.
                let is_of_call = matches!(
                    word,
                    "clock"
                        | "stale"
                        | "sweep_first"
                        | "tenant_closed"
                        | "tenant_suspended"
                        | "tenant_unreadable"
                        | "memory_full"
                        | "attested"
                );
                let error = target.error(refused, signature);
                let is_known = is_of_call || !matches!(error, OperationError::Store(_));
                assert!(is_known, "{script}: {word}");
                known += 1;
            }
        }
        assert!(known > 60, "{known} words were tried");
    }
}

//! The calls of a script until it has decided.

use std::sync::Arc;

use super::Ledger;
use crate::domain::cause::Cause;
use crate::domain::ids::TenantId;
use crate::domain::policy::{InForce, PolicySelection};
use crate::domain::refusal::TenantRefusal;
use crate::store::runtime::Target;
use crate::store::runtime::expire::expire_tenant;
use crate::store::signature::{Refused, ScriptCall};
use crate::store::{ExtraTrip, Lane, OperationError, StoreError};

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
        call: impl Fn(&Attempt) -> C,
    ) -> Result<C::Outcome, OperationError> {
        let (outcome, _) = self.decided_under(tenant, target, call).await?;
        Ok(outcome)
    }

    /// Calls a script until it has decided: again after the tenant's dead holds were expired, or under the policy that applies
    /// now. Returns that policy as well. A refusal names the tenant or the target.
    pub(super) async fn decided_under<C: ScriptCall>(
        &self,
        tenant: &TenantId,
        target: Target<'_>,
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
            match (refused, target) {
                (Refused::Stale { now_ms, version }, Target::Scope(scope, _)) => {
                    self.store.metrics().extra_trip(ExtraTrip::Stale);
                    let policies = self.policies.at_version(&self.store, tenant, &version);
                    attempt.policy = policies.await?.select(scope, now_ms);
                }
                (Refused::SweepFirst { now_ms }, _) => {
                    let trusted_ms = self.store.clock().trusted_ms(now_ms);
                    let until_ms = *attempt.swept_until_ms.get_or_insert(trusted_ms);
                    self.expire_dead_holds(tenant, until_ms).await?;
                }
                (Refused::TenantClosed, _) => {
                    return Err(TenantRefusal::Closed(tenant.clone()).into());
                }
                (Refused::TenantSuspended, _) => {
                    return Err(TenantRefusal::Suspended(tenant.clone()).into());
                }
                (Refused::TenantUnreadable, _) => {
                    return Err(OperationError::Corrupt(format!("tenant:{tenant}")));
                }
                (refused, _) => return Err(target.error(refused, C::SIGNATURE)),
            }
        }
        Err(OperationError::Store(StoreError::Reply {
            script: C::SIGNATURE.script.name(),
            position: 0,
            expected: "an outcome",
            found: "a call to repeat".to_owned(),
        }))
    }

    /// Expires the tenant's holds that were due by a time, page by page, until none is left. It is a sweep: its events name no
    /// request.
    async fn expire_dead_holds(&self, tenant: &TenantId, until_ms: i64) -> Result<(), StoreError> {
        self.store.metrics().extra_trip(ExtraTrip::SweepFirst);
        let cause = Cause::sweep().lines();
        expire_tenant(&self.store, tenant, &cause, until_ms).await?;
        Ok(())
    }
}

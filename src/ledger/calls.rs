//! Runs scripts: checks before a call, calls again where a script asks for it, and makes refusals that name their subject.

use std::hash::BuildHasher as _;
use std::mem;
use std::sync::Arc;

use super::Ledger;
use super::decisions::DecidedBy;
use super::get::NamedRecord;
use crate::domain::amount::Amount;
use crate::domain::caller::{RuntimeCaller, ScriptCaller};
use crate::domain::cause::Cause;
use crate::domain::ids::TenantId;
use crate::domain::policy::{Policy, PolicySelection};
use crate::domain::refusal::{AccessRefusal, ReservationRefusal};
use crate::domain::scope::ScopeFilter;
use crate::domain::scope::{Level, ScopePath};
use crate::domain::subject::Subject;
use crate::evidence::Draft;
use crate::store::runtime::expire::expire_tenant;
use crate::store::runtime::read::{Authenticate, AuthenticateReply};
use crate::store::runtime::replay::{Replay, ReplayReply};
use crate::store::runtime::target::RuntimeTarget;
use crate::store::signature::{Refused, ScriptCall};
use crate::store::target::Target as _;
use crate::store::{ExtraRoundTrip, Lane, MemoryStep, ScriptError, Store, StoreError};

/// Denials of a tenant that emit an event each in a minute. Those beyond are counted, and one event has their number: a denial costs
/// its caller nothing, an event about 1 KB for months.
const DENIED_PER_MINUTE: u32 = 600;

impl Ledger {
    /// Checks an API key on its own, for a request that fails before its script.
    ///
    /// # Errors
    /// [`AccessRefusal::Unauthorized`], or [`AccessRefusal::Forbidden`] when `permission` is not empty and missing.
    pub async fn authenticate(
        &self,
        caller: &RuntimeCaller,
        permission: &str,
    ) -> Result<ScopeFilter, StoreError> {
        let call = Authenticate { caller, permission };
        let checked = self.store.run(Lane::Request, &call).await;
        let AuthenticateReply::Authenticated { scope_filter } =
            RuntimeTarget::default().named(checked)?;
        Ok(scope_filter)
    }

    /// An id that names another partition than the caller's belongs to another tenant, or to nobody. It is read in its
    /// own partition, which the caller's script cannot reach.
    pub(super) async fn refuse_foreign(
        &self,
        caller: &RuntimeCaller,
        named: impl Into<NamedRecord<'_>>,
        permission: &str,
    ) -> Result<(), StoreError> {
        let named = named.into();
        let partition = named.partition;
        let Some(partition) = partition.filter(|partition| *partition != caller.partition) else {
            return Ok(());
        };
        self.authenticate(caller, permission).await?;
        self.store.extra_round_trip(ExtraRoundTrip::ForeignId);
        let (reader, names) = (ScriptCaller::TRUSTED, ["status"]);
        self.read_record(reader, partition, named, &names).await?;
        Err(ReservationRefusal::OfOtherTenant.into())
    }

    /// The deepest scope of a subject, which may name no other tenant than the key's.
    pub(super) async fn own_scope(
        &self,
        caller: &RuntimeCaller,
        subject: &Subject,
    ) -> Result<ScopePath, StoreError> {
        let tenant = subject.value(Level::Tenant);
        if tenant.is_some_and(|tenant| tenant != caller.tenant.as_str()) {
            // Without a valid key, nobody learns whether they guessed the tenant.
            self.authenticate(caller, "").await?;
            return Err(AccessRefusal::OtherTenant.into());
        }
        Ok(ScopePath::of(|level| subject.value(level)))
    }
}

/// How often a script is called again for reasons that the next call cures; more would hide a bug.
const REPETITIONS_MAX: usize = 64;

/// The assumptions of a call.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    /// The clock of the first call, as far as it is trusted: dead holds that were due by then have been expired, and ledgers have
    /// turned. None at the first call.
    pub until_ms: Option<i64>,
    /// The policy that applies. Only for a request about a scope.
    pub policy: PolicySelection,
}

/// Makes the first outcome of a repeated request a reply of the script that stores it.
type ToReply<O> = fn(ReplayReply) -> O;

impl Attempt {
    fn until(&mut self, now_ms: i64, store: &Store) -> i64 {
        let trusted = || store.clock().trusted_ms(now_ms);
        *self.until_ms.get_or_insert_with(trusted)
    }
}

/// How a script of the runtime plane is run.
pub(super) struct RunOptions<'a, O> {
    by: DecidedBy,
    tenant: &'a TenantId,
    target: RuntimeTarget<'a>,
    cause: &'a Cause,
    draft: Option<&'a Draft<'a>>,
    /// Finds the first outcome of a repeated request.
    replay: Option<(&'a Replay<'a>, ToReply<O>)>,
}

impl<'a, O> RunOptions<'a, O> {
    /// For an operation about money of this tenant; with the evidence of what is decided.
    pub(super) fn new(
        by: DecidedBy,
        tenant: &'a TenantId,
        target: RuntimeTarget<'a>,
        cause: &'a Cause,
        draft: Option<&'a Draft<'a>>,
    ) -> Self {
        Self {
            by,
            tenant,
            target,
            cause,
            draft,
            replay: None,
        }
    }

    /// The same for a script that stores something new, in whose place `replay` runs while there is no memory for it.
    pub(super) fn or_replay(mut self, replay: &'a Replay<'a>, replayed: ToReply<O>) -> Self {
        self.replay = Some((replay, replayed));
        self
    }
}

impl Ledger {
    /// Runs a script until it has decided: again after the tenant's dead holds were expired, or under the policy that applies
    /// now. Returns that policy as well. A refusal names the target, and the evidence of it; it is counted.
    ///
    /// While its node has no memory, or little and the tenant takes more than its share, a script that stores something new is not
    /// run; a request that was made before gets its response all the same.
    pub(super) async fn run_with_policy<C: ScriptCall>(
        &self,
        options: RunOptions<'_, C::Outcome>,
        call: impl Fn(&Attempt) -> C,
    ) -> Result<(C::Outcome, Option<Arc<Policy>>), StoreError> {
        let (by, unit) = (options.by, options.target.amount.map(Amount::unit));
        let outcome = self.decide_or_replay(options, call).await;
        outcome.inspect_err(|error| self.metrics.refused(by, unit, error))
    }

    async fn decide_or_replay<C: ScriptCall>(
        &self,
        options: RunOptions<'_, C::Outcome>,
        call: impl Fn(&Attempt) -> C,
    ) -> Result<(C::Outcome, Option<Arc<Policy>>), StoreError> {
        let replay = options.replay.map(|(replay, _)| replay);
        let refused = replay.and_then(|replay| {
            self.store
                .refuses_new(&replay.caller.tenant, replay.caller.partition)
        });
        if refused.is_none() {
            match self.until_decided(&options, call).await {
                Err(StoreError::Full) if options.replay.is_some() => {}
                outcome => return outcome,
            }
            self.store.extra_round_trip(ExtraRoundTrip::Full);
        }
        let Some((replay, replayed)) = options.replay else {
            return Err(StoreError::Full);
        };
        let reply = Box::pin(self.store.run(Lane::Request, replay)).await;
        match (options.target.named(reply), refused) {
            (Err(StoreError::Full), Some(refused)) => Err(refused),
            (reply, _) => Ok((replayed(reply?), None)),
        }
    }

    async fn until_decided<C: ScriptCall>(
        &self,
        options: &RunOptions<'_, C::Outcome>,
        call: impl Fn(&Attempt) -> C,
    ) -> Result<(C::Outcome, Option<Arc<Policy>>), StoreError> {
        let tenant = options.tenant;
        let target = RuntimeTarget {
            tenant: Some(tenant),
            ..options.target
        };
        let (mut attempt, mut has_waited) = (Attempt::default(), false);
        let budgets = target.scope.zip(target.amount.map(Amount::unit));
        if let Some(budgets) = budgets {
            let now_ms = self.store.clock().now_ms();
            attempt.policy = self.policies.known(tenant, budgets, now_ms);
        }
        for _ in 0..=REPETITIONS_MAX {
            let call = call(&attempt);
            let (refused, attested_ms) = match self.store.run(Lane::Request, &call).await {
                Ok(outcome) => return Ok((outcome, attempt.policy.policy)),
                Err(ScriptError::Refused(Refused::Attested { now_ms, refused }, _)) => {
                    (*refused, Some(now_ms))
                }
                Err(ScriptError::Refused(refused, _)) => (refused, None),
                Err(ScriptError::Store(error)) => return Err(error),
            };
            let error = match (refused, budgets) {
                (Refused::CreateFirst { depths }, Some(budgets)) => {
                    let (selection, cause) = (&attempt.policy, options.cause);
                    let create = self.create_first(tenant, budgets, (selection, &depths), cause);
                    self.once((tenant, budgets.0.as_str()), &mut has_waited, create)
                        .await?;
                    continue;
                }
                (Refused::Stale { now_ms, version }, Some((scope, unit))) => {
                    self.store.extra_round_trip(ExtraRoundTrip::Stale);
                    let policies = self.policies.at_version(&self.store, tenant, &version);
                    attempt.policy = policies.await?.select(scope, unit, now_ms);
                    continue;
                }
                (Refused::SweepFirst { now_ms }, _) => {
                    let until_ms = attempt.until(now_ms, &self.store);
                    self.expire_dead_holds(tenant, until_ms).await?;
                    continue;
                }
                (Refused::TurnFirst { now_ms, ledgers }, _) => {
                    let until_ms = attempt.until(now_ms, &self.store);
                    let deepest = ledgers.last().and_then(|ledger| ledger.get("scope"));
                    let turn = self
                        .store
                        .turn_first(tenant, &ledgers, until_ms, options.cause);
                    self.once((tenant, deepest.unwrap_or_default()), &mut has_waited, turn)
                        .await?;
                    continue;
                }
                (refused, _) => target.error(refused, C::SIGNATURE),
            };
            return Err(match options.draft {
                Some(draft) => draft.of_error(attested_ms, error),
                None => error,
            });
        }
        Err(StoreError::Reply {
            script: C::SIGNATURE.script.name(),
            position: 0,
            expected: "an outcome",
            found: "a call to repeat".to_owned(),
        })
    }

    /// Does what requests on a scope need first. While another request does it, this one waits instead, the first time, since nothing
    /// may be left to do.
    async fn once(
        &self,
        scope: (&TenantId, &str),
        has_waited: &mut bool,
        work: impl Future<Output = Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        let lock = self.first.0.hash_one(scope) as usize % self.first.1.len();
        let held = self.first.1[lock].try_lock();
        if held.is_err() && !mem::replace(has_waited, true) {
            drop(self.first.1[lock].lock().await);
            return Ok(());
        }
        work.await
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
        self.store.extra_round_trip(ExtraRoundTrip::SweepFirst);
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
    use crate::domain::ids::ReservationId;
    use crate::signatures::SIGNATURES;

    #[test]
    fn every_word_of_a_script_is_a_refusal_of_its_target() {
        let id = ReservationId::parse("any").expect("an id");
        let (scope, amount) = (
            ScopePath::parse("tenant:acme").expect("a scope"),
            Amount::new(Unit::Tokens, 0).expect("an amount"),
        );
        let tenant = TenantId::parse("acme").expect("an id");
        let mut known = 0;
        for signature in SIGNATURES {
            let script = signature.script.path();
            let target = match script {
                "runtime/commit" | "runtime/refund" => RuntimeTarget {
                    amount: Some(amount),
                    ..RuntimeTarget::reservation(&id)
                },
                "runtime/release" | "runtime/extend" | "runtime/get" => {
                    RuntimeTarget::reservation(&id)
                }
                "runtime/reserve" | "runtime/decide" | "runtime/usage_event" => {
                    RuntimeTarget::scope(&scope, amount)
                }
                script if script.starts_with("runtime/") => RuntimeTarget::default(),
                _ => continue,
            };
            let target = RuntimeTarget {
                tenant: Some(&tenant),
                ..target
            };
            for refused in Refused::samples(signature) {
                let word = refused.word();
                // The caller repeats such a call or handles the word itself.
                let is_of_call = matches!(
                    word,
                    "clock"
                        | "stale"
                        | "sweep_first"
                        | "turn_first"
                        | "create_first"
                        | "memory_full"
                        | "attested"
                );
                let error = target.error(refused, signature);
                let is_known = is_of_call || !matches!(error, StoreError::Reply { .. });
                assert!(is_known, "{script}: {word}");
                known += 1;
            }
        }
        assert!(known > 60, "{known} words were tried");
    }
}

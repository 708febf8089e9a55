//! Runs the scripts without HTTP, as the baseline for what the service adds.
//!
//! A call is encoded before its time begins, and replies are decoded only up to the status word, so that the figures measure
//! Redis and not this process. The time that Redis was busy shows whether they do.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use secrecy::ExposeSecret;
use serde::Serialize;
use tokio::task::JoinSet;

use super::BenchError;
use super::args::clients;
use super::client::TTL_MS;
use super::recorder::{Summary, Times, time};
use super::service::{Change, Tenant};
use super::stack::Stack;
use crate::domain::amount::Unit;
use crate::domain::api_key::secret::ApiKeyText;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::{Actor, Cause};
use crate::domain::ids::{DeploymentSecret, IdempotencyKey, RequestId, ReservationId, TenantId};
use crate::domain::policy::PolicySelection;
use crate::domain::reservation::GRACE_PERIOD_MS_DEFAULT;
use crate::domain::scope::ScopePath;
use crate::driver::script::Counted;
use crate::store::runtime::commit::Commit;
use crate::store::runtime::reserve::Reserve;
use crate::store::signature::ScriptCall as _;
use crate::store::{Call, Lane, Store};
use crate::tools::table::Table;

/// The estimate of every reservation.
const ESTIMATE: i64 = 1_000;
/// The actual of every commit.
const ACTUAL: i64 = 950;
/// A digest of the right length.
const PAYLOAD_HASH: &str = "pGFHLdIFvSEnYjlqEm5dWw";

#[derive(Debug, Clone, Copy)]
pub(super) enum Script {
    /// `reserve.lua`, for this long.
    Reserve(Duration),
    /// `commit.lua`, for each reservation of the runs before.
    Commit,
}

/// One script, called by concurrent clients over one connection.
#[derive(Debug, Serialize)]
pub(super) struct ScriptRun {
    clients: u16,
    #[serde(flatten)]
    pub calls: Summary,
    /// Time that one call takes of Redis's one thread.
    redis_us_per_call: f64,
    /// Share of the time in which Redis ran the script. When it is far below 1, this process or the machine was the limit.
    redis_busy: f64,
    #[serde(skip)]
    pub change: Change,
}

pub(super) fn table(runs: &[ScriptRun], scopes: u8) -> Table {
    let title = format!("scripts alone, {scopes} scopes");
    let mut table = Table::new(1, [&title, "per s", "p50", "p99", "in Redis", "busy"]);
    for run in runs {
        table.row([
            clients(run.calls.operation, run.clients),
            format!("{:.0}", run.calls.per_second),
            time(run.calls.p50_us),
            time(run.calls.p99_us),
            time(run.redis_us_per_call),
            format!("{:.0} %", run.redis_busy * 100.0),
        ]);
    }
    table
}

/// A tenant's calls, with the keys and arguments that requests of the load lead to.
pub(super) struct Session {
    store: Store,
    secret: DeploymentSecret,
    caller: RuntimeCaller,
    scope: ScopePath,
    cause: String,
    /// The idempotency keys of the active reservations, from which their ids follow.
    held: Mutex<Vec<IdempotencyKey>>,
    times: Mutex<Times>,
}

impl Session {
    pub async fn open(stack: &Stack, tenant: &Tenant) -> Result<Arc<Self>, BenchError> {
        let words = stack.service.dialect.words();
        let parsed = || {
            let key = ApiKeyText::parse(tenant.key.expose_secret(), words.api_key_prefixes)?;
            let scope = ScopePath::parse(tenant.scopes.last()?)?;
            Some((key, scope, TenantId::parse(&tenant.id)?))
        };
        let (key, scope, tenant) = parsed().expect("the service accepted them");
        let cause = Cause {
            source: words.runtime_source,
            actor: Actor::ApiKey(key.key_id().clone()),
            source_ip: Some("127.0.0.1".into()),
            request_id: Some(RequestId::mint()),
            ..Cause::sweep()
        };
        Ok(Arc::new(Self {
            store: stack.store.clone(),
            secret: stack.store.secret().await?.clone(),
            caller: RuntimeCaller {
                key_id: key.key_id().clone(),
                key_hash: key.hash(),
                partition: tenant.partition(),
                tenant,
            },
            scope,
            cause: cause.lines(),
            held: Mutex::default(),
            times: Mutex::default(),
        }))
    }

    /// Runs a script with this many clients.
    pub async fn run(
        self: &Arc<Self>,
        script: Script,
        clients: u16,
    ) -> Result<ScriptRun, BenchError> {
        let (name, reserved, spent) = match script {
            Script::Reserve(_) => ("reserve", ESTIMATE, 0),
            Script::Commit => ("commit", -ESTIMATE, ACTUAL),
        };
        self.store.reset_statistics().await?;
        let begun = Instant::now();
        let mut running = JoinSet::new();
        for _ in 0..clients {
            running.spawn(Arc::clone(self).run_client(script, begun));
        }
        for ended in running.join_all().await {
            ended?;
        }
        let elapsed = begun.elapsed();
        let redis_us = self.store.statistics().await?.command("evalsha").us as f64;
        let calls = mem::take(&mut *self.times.lock()).summary(name, elapsed);
        let count = calls.count as i64;
        Ok(ScriptRun {
            clients,
            redis_us_per_call: redis_us / calls.count.max(1) as f64,
            redis_busy: redis_us / 1e6 / elapsed.as_secs_f64(),
            calls,
            change: Change {
                reserved: count * reserved,
                spent: count * spent,
            },
        })
    }

    /// Calls a script until the time is over or no reservation is left.
    async fn run_client(self: Arc<Self>, script: Script, begun: Instant) -> Result<(), BenchError> {
        loop {
            let (call, new, expected) = match script {
                Script::Reserve(limit) if begun.elapsed() >= limit => return Ok(()),
                Script::Reserve(_) => {
                    let key = IdempotencyKey::parse(&format!("{:016x}", rand::random::<u64>()));
                    let key = key.expect("hexadecimal digits make an idempotency key");
                    (self.reserve(&key), Some(key), "reserved")
                }
                Script::Commit => match self.held.lock().pop() {
                    Some(key) => (self.commit(&key), None, "committed"),
                    None => return Ok(()),
                },
            };
            let sent = Instant::now();
            let reply = self.store.send(Lane::Request, &call).await?;
            let took = sent.elapsed();
            let reply = call.word(reply)?;
            if reply != expected {
                return Err(BenchError::Script(reply, expected));
            }
            self.times.lock().record(took);
            self.held.lock().extend(new);
        }
    }

    fn reservation_id(&self, key: &IdempotencyKey) -> ReservationId {
        ReservationId::derive(&self.secret, &self.caller.tenant, key)
    }

    fn reserve(&self, key: &IdempotencyKey) -> Call {
        let (caller, policy) = (&self.caller, PolicySelection::default());
        let (keys, unit) = (self.store.keys(), Unit::Tokens);
        let facts = [
            ("action_kind", "llm.completion".into()),
            ("action_name", "bench:model".into()),
        ];
        let call = Reserve {
            caller,
            budgets: self.store.budgets_of(&caller.tenant, &self.scope, unit),
            payload_hash: PAYLOAD_HASH,
            scope_path: self.scope.as_str(),
            unit: unit.as_str(),
            amount: ESTIMATE,
            requested_ttl_ms: Some(TTL_MS.into()),
            grace_ms: GRACE_PERIOD_MS_DEFAULT,
            other_grace: false,
            requested_overage_policy: None,
            until_ms: None,
            reservation_id: &self.reservation_id(key),
            policy: String::new(),
            denied_per_minute: 600,
            context: &self.cause,
            policies_version: policy.version.to_string(),
            policy_from_ms: policy.from_ms,
            policy_until_ms: policy.until_ms,
            templates: None,
            rate_limits: None,
            evidence: None,
            facts: Counted(&facts),
            kept: vec![("idempotency_key", key.as_str().into())],
        };
        call.on(keys, self.store.today())
    }

    /// A commit under the key of the reservation.
    fn commit(&self, key: &IdempotencyKey) -> Call {
        let call = Commit {
            caller: &self.caller,
            payload_hash: PAYLOAD_HASH,
            unit: Unit::Tokens.as_str(),
            actual: ACTUAL,
            key_digest: &key.digest(),
            until_ms: None,
            reservation_id: &self.reservation_id(key),
            context: &self.cause,
            stored_bytes: None,
            evidence: None,
            kept: &[],
        };
        call.on(self.store.keys(), self.store.today())
    }
}

//! One tenant's session with the store itself, as a replica of the service has it, without HTTP around it.

use prometheus::Registry;
use secrecy::{ExposeSecret, SecretString};

use super::error::BenchError;
use super::provision::Tenant;
use crate::domain::amount::{Amount, Unit};
use crate::domain::api_key::secret::ApiKeyText;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::{Actor, Cause};
use crate::domain::dialect::Dialect;
use crate::domain::ids::{IdempotencyKey, RequestId, ReservationId, TenantId, TraceId};
use crate::domain::policy::PolicySelection;
use crate::domain::scope::ScopePath;
use crate::store::runtime::commit::Settlement;
use crate::store::runtime::reserve::{Hold, Subjected};
use crate::store::{Call, Keys, RedisOptions, Store, StoreMetrics};

/// What a real digest looks like.
const PAYLOAD_HASH: &str = "pGFHLdIFvSEnYjlqEm5dWw";

/// Where the scripts run, and for whom.
#[derive(Debug, Clone)]
pub(super) struct Bare {
    pub redis_url: SecretString,
    pub key_prefix: String,
    pub dialect: Dialect,
    pub tenant: String,
    pub key: SecretString,
    /// The subject's own scope.
    pub scope: String,
}

impl Bare {
    /// For one tenant of a deployment.
    pub fn of(
        tenant: &Tenant,
        redis_url: SecretString,
        key_prefix: &str,
        dialect: Dialect,
    ) -> Self {
        Self {
            redis_url,
            key_prefix: key_prefix.to_owned(),
            dialect,
            tenant: tenant.id.clone(),
            key: tenant.key.clone(),
            scope: tenant.scopes.last().cloned().unwrap_or_default(),
        }
    }

    /// A store of its own; its connections live in the runtime that calls.
    pub fn store(&self) -> Result<Store, BenchError> {
        let keys = Keys::new(&self.key_prefix)?;
        let metrics = StoreMetrics::register(&Registry::new())?;
        let options = RedisOptions::new(self.redis_url.expose_secret());
        Ok(Store::new(&options, keys, self.dialect.as_str(), metrics)?)
    }
}

/// Puts calls of the scripts together, with the keys and arguments that requests of the load lead to.
pub(super) struct Session {
    store: Store,
    caller: RuntimeCaller,
    scope: ScopePath,
    cause: String,
    facts: [(&'static str, String); 2],
}

impl Session {
    /// Connects; the first call of each script loads it.
    pub async fn open(bare: &Bare) -> Result<Self, BenchError> {
        let store = bare.store()?;
        let prefixes = bare.dialect.words().api_key_prefixes;
        let key = ApiKeyText::parse(bare.key.expose_secret(), prefixes).ok_or(BenchError::Key)?;
        let tenant = TenantId::parse(&bare.tenant).ok_or(BenchError::Key)?;
        let caller = RuntimeCaller {
            key_id: key.key_id().clone(),
            key_hash: key.hash(),
            partition: tenant.partition(),
            tenant,
        };
        let cause = Cause {
            source: bare.dialect.words().runtime_source,
            actor: Actor::ApiKey(caller.key_id.clone()),
            source_ip: Some("127.0.0.1".to_owned()),
            request_id: Some(RequestId::mint()),
            trace_id: TraceId::mint(),
            trace_flags: None,
        };
        store.deployment().await?;
        Ok(Self {
            store,
            caller,
            scope: ScopePath::parse(&bare.scope).ok_or(BenchError::Key)?,
            cause: cause.lines(),
            facts: [
                ("action_kind", "llm.completion".to_owned()),
                ("action_name", "bench:model".to_owned()),
            ],
        })
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The id that a create under this key gets.
    pub async fn reservation_id(&self, key: &IdempotencyKey) -> Result<ReservationId, BenchError> {
        let deployment = self.store.deployment().await?;
        let tenant = &self.caller.tenant;
        Ok(ReservationId::derive(deployment.secret(), tenant, key))
    }

    /// A call of `reserve.lua`.
    pub fn reserve(
        &self,
        reservation_id: &ReservationId,
        key: &IdempotencyKey,
        tokens: i64,
    ) -> Call {
        let kept = [("idempotency_key", key.as_str().to_owned())];
        let hold = Hold {
            request: Subjected {
                payload_hash: PAYLOAD_HASH,
                scope_path: &self.scope,
                amount: amount(tokens),
                cause: &self.cause,
                facts: &self.facts,
                swept_until_ms: None,
            },
            reservation_id,
            ttl_ms: Some(super::requests::TTL_MS.into()),
            grace_ms: 5_000,
            overage_policy: None,
            policy: &PolicySelection::default(),
            denied_per_minute: 600,
            kept: &kept,
        };
        self.store.reserve_call(&self.caller, &hold)
    }

    /// A call of `commit.lua`, under the key of the reservation.
    pub fn commit(
        &self,
        reservation_id: &ReservationId,
        key: &IdempotencyKey,
        tokens: i64,
    ) -> Call {
        let settlement = Settlement {
            reservation_id,
            actual: amount(tokens),
            payload_hash: PAYLOAD_HASH,
            key_digest: &key.digest(),
            cause: &self.cause,
            kept: &[],
            swept_until_ms: None,
        };
        self.store.commit_call(&self.caller, &settlement)
    }
}

fn amount(tokens: i64) -> Amount {
    Amount::new(Unit::Tokens, tokens).unwrap_or(Amount::zero(Unit::Tokens))
}

//! One tenant's session with the store, as a replica of the service has it, without HTTP.

use prometheus::Registry;
use secrecy::ExposeSecret;
use serde_json::json;

use super::error::BenchError;
use super::requests::{TTL_MS, subject};
use super::service::Tenant;
use crate::config::StoreConfig;
use crate::domain::amount::Unit;
use crate::domain::api_key::secret::ApiKeyText;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::{Actor, Cause};
use crate::domain::ids::{IdempotencyKey, RequestId, ReservationId, TenantId, TraceId};
use crate::domain::json::Json;
use crate::domain::policy::PolicySelection;
use crate::domain::reservation::GRACE_PERIOD_MS_DEFAULT;
use crate::domain::scope::ScopePath;
use crate::driver::script::Counted;
use crate::evidence::{Endpoint, attested_request};
use crate::ledger::evidence_lines;
use crate::store::runtime::commit::Commit;
use crate::store::runtime::reserve::Reserve;
use crate::store::signature::ScriptCall as _;
use crate::store::{Call, Store};

/// The estimate of every reservation.
pub(super) const ESTIMATE: i64 = 1_000;
/// The actual of every commit.
pub(super) const ACTUAL: i64 = 950;

/// A digest of the right length.
const PAYLOAD_HASH: &str = "pGFHLdIFvSEnYjlqEm5dWw";

/// A reservation, and the idempotency key that made it.
pub(super) type HeldReservation = (ReservationId, IdempotencyKey);

/// Encodes calls with the keys and arguments that requests of the load lead to.
pub(super) struct Session {
    pub store: Store,
    caller: RuntimeCaller,
    scope: ScopePath,
    cause: String,
    facts: [(&'static str, String); 2],
    /// What the script is told of a request that is attested.
    evidence: String,
}

impl Session {
    /// Connects; the first call of each script loads it.
    pub async fn open(deployment: &StoreConfig, tenant: &Tenant) -> Result<Self, BenchError> {
        let store = deployment.open(&Registry::new())?;
        let words = deployment.dialect.words();
        let Tenant { id, key, scopes } = tenant;
        let key = ApiKeyText::parse(key.expose_secret(), words.api_key_prefixes);
        let (key, tenant) = key.zip(TenantId::parse(id)).ok_or(BenchError::Tenant)?;
        let scope = scopes.last().and_then(|scope| ScopePath::parse(scope));
        let cause = Cause {
            source: words.runtime_source,
            actor: Actor::ApiKey(key.key_id().clone()),
            source_ip: Some("127.0.0.1".to_owned()),
            request_id: Some(RequestId::mint()),
            trace_id: TraceId::mint(),
            trace_flags: None,
        };
        store.deployment().await?;
        let request = json!({
            "idempotency_key": format!("{:016x}.0", 0),
            "subject": subject(id, u8::try_from(scopes.len()).unwrap_or(u8::MAX)),
            "action": {"kind": "llm.completion", "name": "bench:model"},
            "ttl_ms": TTL_MS,
            "estimate": {"unit": Unit::Tokens.as_str(), "amount": ESTIMATE},
        });
        let request = Json::parse(request.to_string().as_bytes()).expect("a request is JSON");
        let request = attested_request(Endpoint::Reserve, &request);
        let issuer = "1:0:".to_owned();
        let evidence = evidence_lines(issuer, (Endpoint::Reserve, 600), &request, &cause);
        Ok(Self {
            evidence,
            store,
            caller: RuntimeCaller {
                key_id: key.key_id().clone(),
                key_hash: key.hash(),
                partition: tenant.partition(),
                tenant,
            },
            scope: scope.ok_or(BenchError::Tenant)?,
            cause: cause.lines(),
            facts: [
                ("action_kind", "llm.completion".to_owned()),
                ("action_name", "bench:model".to_owned()),
            ],
        })
    }

    /// The id of the reservation that `key` makes.
    pub async fn reservation_id(&self, key: &IdempotencyKey) -> Result<ReservationId, BenchError> {
        let deployment = self.store.deployment().await?;
        let tenant = &self.caller.tenant;
        Ok(ReservationId::derive(deployment.secret(), tenant, key))
    }

    /// A call of `reserve.lua`.
    pub fn reserve(&self, (reservation_id, key): &HeldReservation, attested: bool) -> Call {
        let (caller, policy) = (&self.caller, PolicySelection::default());
        let call = Reserve {
            caller,
            budgets: self
                .store
                .budgets_of(&caller.tenant, &self.scope, Unit::Tokens),
            payload_hash: PAYLOAD_HASH,
            scope_path: self.scope.as_str(),
            unit: Unit::Tokens.as_str(),
            amount: ESTIMATE,
            requested_ttl_ms: Some(TTL_MS.into()),
            grace_ms: GRACE_PERIOD_MS_DEFAULT,
            other_grace: false,
            requested_overage_policy: None,
            swept_until_ms: None,
            reservation_id,
            policy: String::new(),
            denied_per_minute: 600,
            context: &self.cause,
            policies_version: policy.version.to_string(),
            policy_from_ms: policy.from_ms,
            policy_until_ms: policy.until_ms,
            rate_limits: None,
            evidence: attested.then_some(&*self.evidence),
            facts: Counted(&self.facts),
            kept: vec![("idempotency_key", key.to_string())],
        };
        call.on(self.store.keys(), self.store.today())
    }

    /// A call of `commit.lua`, under the key of the reservation.
    pub fn commit(&self, (reservation_id, key): &HeldReservation) -> Call {
        let caller = &self.caller;
        let call = Commit {
            caller,
            payload_hash: PAYLOAD_HASH,
            unit: Unit::Tokens.as_str(),
            actual: ACTUAL,
            key_digest: &key.digest(),
            swept_until_ms: None,
            reservation_id,
            context: &self.cause,
            stored_bytes: None,
            evidence: None,
            kept: &[],
        };
        call.on(self.store.keys(), self.store.today())
    }
}

//! The admin plane as the service calls it, on a key prefix of its own, and the values that its requests take.

use std::ops::Deref;

use budget_authority::admin::{Admin, Funding, Request};
use budget_authority::domain::admin_key::AdminKeys;
use budget_authority::domain::amount::{Amount, Unit};
use budget_authority::domain::api_key::permission::Permission;
use budget_authority::domain::api_key::secret::ApiKeyText;
use budget_authority::domain::api_key::{ApiKeyCreateRequest, ApiKeyCreateResponse};
use budget_authority::domain::budget::ledger::FundingOperation;
use budget_authority::domain::budget::ledger::{BudgetCreateRequest, BudgetLedger};
use budget_authority::domain::caller::{Caller, RuntimeCaller};
use budget_authority::domain::cause::{Actor, Cause};
use budget_authority::domain::dialect::Dialect;
use budget_authority::domain::event::StoredEvent;
use budget_authority::domain::fields::Read as _;
use budget_authority::domain::ids::{IdempotencyKey, Partition, RequestId, TenantId, TraceId};
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::PayloadHash;
use budget_authority::domain::record::Record;
use budget_authority::domain::refusal::{BudgetName, BudgetRefusal, Refusal, TenantRefusal};
use budget_authority::domain::scope::{BudgetScope, ScopeFilter};
use budget_authority::domain::tenant::{Tenant, TenantCreateRequest};
use budget_authority::store::{Day, Keys, Store, StoreError};
use serde_json::{Value, json};

use super::days::{Entry, days_around};
use super::redis::{RedisServer, shared};
use super::redis_fixture::RedisFixture;

/// See the module documentation.
pub struct AdminFixture {
    redis: RedisFixture,
    pub admin: Admin,
}

/// A request under a key, with a payload.
pub struct Ask {
    cause: Cause,
    key: Option<IdempotencyKey>,
    payload: PayloadHash,
}

pub fn ask() -> Ask {
    asking(None, "{}")
}

pub fn asking(key: Option<&str>, payload: &str) -> Ask {
    let body = Json::parse(payload.as_bytes()).expect("JSON");
    Ask {
        cause: cause(Actor::Admin(None)),
        key: key.and_then(IdempotencyKey::parse),
        payload: PayloadHash::of_body(&body),
    }
}

impl Ask {
    pub fn by(mut self, caller: &Caller) -> Self {
        self.cause.actor = match caller {
            Caller::Tenant(caller) => Actor::ApiKey(caller.key_id.clone()),
            Caller::Admin(admin) => Actor::AdminOnBehalfOf(admin.name().cloned()),
        };
        self
    }

    pub fn request(&self) -> Request<'_> {
        Request {
            cause: &self.cause,
            idempotency_key: self.key.as_ref(),
            payload_hash: &self.payload,
        }
    }
}

pub fn cause(actor: Actor) -> Cause {
    Cause {
        source: "service-admin",
        actor,
        source_ip: Some("192.0.2.7".into()),
        request_id: Some(RequestId::mint()),
        trace_id: TraceId::mint(),
        trace_flags: None,
    }
}

pub fn admin_key() -> Caller {
    let keys = AdminKeys::parse("key").expect("a key");
    Caller::Admin(keys.accept("key").expect("the key"))
}

pub fn tenant_id(text: &str) -> TenantId {
    TenantId::parse(text).expect("a tenant id")
}

pub fn scope(text: &str) -> BudgetScope {
    BudgetScope::parse(text).expect("a scope")
}

pub fn tokens(value: i64) -> Amount {
    Amount::new(Unit::Tokens, value).expect("not negative")
}

pub fn new_tenant(id: &str, name: &str) -> TenantCreateRequest {
    let body = json!({"tenant_id": id, "name": name}).to_string();
    TenantCreateRequest::parse_json(&body).expect("a sound request")
}

pub fn new_key(tenant: &str) -> ApiKeyCreateRequest {
    let body = json!({"tenant_id": tenant, "name": "ci"}).to_string();
    ApiKeyCreateRequest::parse_json(&body).expect("a sound request")
}

pub fn new_budget(tenant_id: Option<&str>, of: &str, allocated: i64) -> BudgetCreateRequest {
    let body = json!({"tenant_id": tenant_id, "scope": of, "unit": Unit::Tokens, "allocated": tokens(allocated)});
    BudgetCreateRequest::parse_json(&body.to_string()).expect("a sound request")
}

pub fn funding(
    tenant_id: Option<&str>,
    of: &str,
    operation: FundingOperation,
    amount: i64,
) -> Funding {
    Funding {
        tenant_id: tenant_id.map(str::to_owned),
        scope: scope(of),
        operation,
        unit: Unit::Tokens,
        amount: Some(amount),
        spent: None,
        reason: None,
    }
}

/// The whole key.
pub fn key_text(key: &ApiKeyCreateResponse) -> ApiKeyText {
    ApiKeyText::parse(&key.key_secret, &["sk_live_"]).expect("a key")
}

pub fn caller(key: &ApiKeyCreateResponse) -> Caller {
    Caller::Tenant(RuntimeCaller {
        key_id: key.key_id.clone(),
        key_hash: key_text(key).hash(),
        tenant: key.tenant_id.clone(),
        partition: key.tenant_id.partition(),
    })
}

/// Why it was refused.
pub fn refusal<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> Refusal {
    match outcome {
        Err(StoreError::Refusal(refusal)) => refusal,
        Err(StoreError::About(_, error)) => refusal(Err::<T, _>(*error)),
        other => panic!("no refusal: {other:?}"),
    }
}

/// The key of the record that could not be read.
pub fn corrupt<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> String {
    match outcome {
        Err(StoreError::Corrupt(key)) => key,
        Err(StoreError::About(_, error)) => corrupt(Err::<T, _>(*error)),
        other => panic!("not corrupt: {other:?}"),
    }
}

/// The refusal of a budget in tokens.
pub fn refused_budget(refusal: fn(BudgetName) -> BudgetRefusal, of: &str) -> Refusal {
    let budget = BudgetName {
        scope: scope(of).path().clone(),
        unit: Unit::Tokens,
    };
    refusal(budget).into()
}

/// The refusal because a tenant is closed.
pub fn closed(tenant: &str) -> Refusal {
    TenantRefusal::Closed(tenant_id(tenant)).into()
}

/// Entries of a log of events as they would be delivered.
pub fn envelopes(partition: Partition, tenant: &str, entries: Vec<Entry>) -> Vec<Value> {
    let envelope = |(entry, facts): Entry| {
        let facts = Record::from_pairs(facts);
        let event = StoredEvent {
            partition,
            tenant,
            entry: &entry,
            facts: &facts,
        };
        serde_json::from_str(&event.envelope().expect("complete facts")).expect("JSON")
    };
    entries.into_iter().map(envelope).collect()
}

impl AdminFixture {
    pub fn new() -> Self {
        Self::on(RedisFixture::new().store)
    }

    pub fn on(store: Store) -> Self {
        let admin = Admin::new(store.clone(), Dialect::Service);
        let redis = RedisFixture::on(store);
        Self { redis, admin }
    }

    pub fn redis(&self) -> &'static RedisServer {
        shared()
    }

    pub async fn tenant(&self, id: &str) -> Tenant {
        let created = self
            .admin
            .create_tenant(&new_tenant(id, id), &ask().request())
            .await;
        created.expect("a new tenant").1
    }

    pub async fn key(&self, tenant: &str, permissions: &[Permission], filter: &[&str]) -> Caller {
        let key = ApiKeyCreateRequest {
            permissions: Some(permissions.to_vec()),
            scope_filter: Some(ScopeFilter::new(filter.iter().map(ToString::to_string))),
            ..new_key(tenant)
        };
        let created = self.admin.create_api_key(&key, &ask().request()).await;
        caller(&created.expect("a new key"))
    }

    pub async fn budget(&self, tenant: &str, of: &str, allocated: i64) -> BudgetLedger {
        let new = new_budget(Some(tenant), of, allocated);
        let created = self
            .admin
            .create_budget(&admin_key(), &new, &scope(&new.scope), &ask().request())
            .await;
        created.expect("a new ledger")
    }

    pub async fn ledger(&self, of: &str) -> BudgetLedger {
        let found = self
            .admin
            .lookup_budget(&admin_key(), &scope(of), Unit::Tokens)
            .await;
        found.expect("a ledger")
    }

    pub fn budget_key(&self, tenant: &str, of: &str) -> String {
        let partition = tenant_id(tenant).partition();
        self.store.keys().budget(partition, tenant, "TOKENS", of)
    }

    pub fn tenant_key(&self, tenant: &str) -> String {
        self.store
            .keys()
            .tenant(tenant_id(tenant).partition(), tenant)
    }

    pub fn set_status(&self, tenant: &str, status: &str) {
        let key = self.tenant_key(tenant);
        self.redis().run::<()>(&["HSET", &key, "status", status]);
    }

    /// The entries of a log, days one after the other.
    pub fn entries_of(&self, log: impl Fn(&Keys, Day) -> String) -> Vec<Entry> {
        let days = days_around(&self.store).into_iter();
        let key = |day| log(self.store.keys(), day);
        days.flat_map(|day| {
            let entries: Vec<Entry> = self.redis().run(&["XRANGE", &key(day), "-", "+"]);
            entries
        })
        .collect()
    }

    /// The tenant's events as they would be delivered, oldest first.
    pub fn events(&self, tenant: &str) -> Vec<Value> {
        let partition = tenant_id(tenant).partition();
        let entries = self.entries_of(|keys, day| keys.events(partition, tenant, day));
        envelopes(partition, tenant, entries)
    }

    pub fn event_types(&self, tenant: &str) -> Vec<String> {
        let events = self.events(tenant).into_iter();
        events
            .map(|event| event["event_type"].as_str().expect("a text").to_owned())
            .collect()
    }

    /// The audit entries in a chain, oldest first.
    pub fn audit(&self, partition: Partition, tenant: &str) -> Vec<Record> {
        let entries = self.entries_of(|keys, day| keys.audit(partition, tenant, day));
        entries
            .into_iter()
            .map(|(_, fields)| Record::from_pairs(fields))
            .collect()
    }

    pub fn tenant_audit(&self, tenant: &str) -> Vec<Record> {
        self.audit(tenant_id(tenant).partition(), tenant)
    }
}

impl Deref for AdminFixture {
    type Target = RedisFixture;

    fn deref(&self) -> &RedisFixture {
        &self.redis
    }
}

//! Tenants with an API key each, their ledgers, and the runtime plane as the service calls it.

use std::ops::Deref;

use budget_authority::domain::amount::Unit;
use budget_authority::domain::api_key::secret::ApiKeyText;
use budget_authority::domain::caller::RuntimeCaller;
use budget_authority::domain::cause::{Actor, Cause};
use budget_authority::domain::ids::{Partition, RequestId, TenantId, TraceId};
use budget_authority::ledger::Ledger;
use budget_authority::store::Store;

use super::redis_fixture::RedisFixture;

/// See the module documentation.
pub struct LedgerFixture {
    redis: RedisFixture,
    pub ledger: Ledger,
    pub callers: Vec<RuntimeCaller>,
    /// The texts of their keys.
    pub keys: Vec<String>,
    key_prefix: &'static str,
}

/// A ledger to begin with.
#[derive(Debug, Clone)]
pub struct Start {
    pub scope: String,
    pub unit: Unit,
    pub allocated: i64,
    pub limit: i64,
}

impl LedgerFixture {
    /// Two tenants with a key each, and no ledger.
    pub async fn new() -> Self {
        Self::on(RedisFixture::new().store).await
    }

    /// The same on a store of the test's choice.
    pub async fn on(store: Store) -> Self {
        Self::with_keys(store, "sk_live_").await
    }

    /// The same with keys that start so.
    pub async fn with_keys(store: Store, key_prefix: &'static str) -> Self {
        let (mut callers, mut keys) = (Vec::new(), Vec::new());
        for name in ["acme", "bolt"] {
            let (caller, key) = tenant(&store, name, key_prefix).await;
            callers.push(caller);
            keys.push(key);
        }
        Self {
            ledger: Ledger::new(store.clone(), 600, 30),
            redis: RedisFixture::on(store),
            callers,
            keys,
            key_prefix,
        }
    }

    /// One tenant with a key, and no ledger.
    pub async fn of_tenant(store: Store, name: &str) -> Self {
        let (caller, key) = tenant(&store, name, "sk_live_").await;
        Self {
            ledger: Ledger::new(store.clone(), 600, 30),
            redis: RedisFixture::on(store),
            callers: vec![caller],
            keys: vec![key],
            key_prefix: "sk_live_",
        }
    }

    /// The same tenants by way of another store.
    pub fn with_store(&self, store: Store) -> Self {
        Self {
            ledger: Ledger::new(store.clone(), 600, 30),
            redis: RedisFixture::on(store),
            callers: self.callers.clone(),
            keys: self.keys.clone(),
            key_prefix: self.key_prefix,
        }
    }

    /// One more tenant with a key; its index.
    pub async fn add_tenant(&mut self, name: &str) -> usize {
        let (caller, key) = tenant(&self.store, name, self.key_prefix).await;
        self.callers.push(caller);
        self.keys.push(key);
        self.keys.len() - 1
    }

    /// One more key of a tenant, with further fields of its record.
    pub async fn add_key(&self, tenant: usize, fields: &[(&str, &str)]) -> String {
        let caller = &self.callers[tenant];
        let key = ApiKeyText::generate(self.key_prefix, caller.partition);
        let record = self.key_record(&key);
        let (hash, name) = (key.hash(), caller.tenant.as_str());
        let mut words = vec!["HSET", &record, "hash", hash.as_str(), "tenant", name];
        words.extend(["status", "ACTIVE"]);
        words.extend(fields.iter().flat_map(|(field, value)| [*field, *value]));
        self.run::<()>(&words).await;
        key.expose().to_owned()
    }

    /// Changes fields of a key's record.
    pub async fn change_key(&self, key: &str, fields: &[(&str, &str)]) {
        let key = ApiKeyText::parse(key, &[self.key_prefix]).expect("a key");
        let record = self.key_record(&key);
        let mut words = vec!["HSET", &record];
        words.extend(fields.iter().flat_map(|(field, value)| [*field, *value]));
        self.run::<()>(&words).await;
    }

    fn key_record(&self, key: &ApiKeyText) -> String {
        let id = key.key_id();
        self.store.keys().api_key(id.partition(), id.as_str())
    }

    /// Who asks, for events.
    pub fn cause(&self, tenant: usize) -> Cause {
        Cause {
            source: "service-server",
            actor: Actor::ApiKey(self.callers[tenant].key_id.clone()),
            source_ip: None,
            request_id: Some(RequestId::mint()),
            trace_id: TraceId::mint(),
            trace_flags: None,
        }
    }

    /// Puts a ledger in place.
    pub async fn seed(&self, tenant: usize, start: &Start) {
        let caller = &self.callers[tenant];
        let (partition, name) = (caller.partition, caller.tenant.as_str());
        let keys = self.store.keys();
        let unit = start.unit.as_str();
        let (allocated, limit) = (start.allocated.to_string(), start.limit.to_string());
        let key = keys.budget(partition, name, unit, &start.scope);
        let fields = [
            ("status", "ACTIVE"),
            ("remaining", &allocated),
            ("reserved", "0"),
            ("spent", "0"),
            ("allocated", &allocated),
            ("debt", "0"),
            ("overdraft_limit", &limit),
            ("is_over_limit", "0"),
            ("base_spent", "0"),
            ("base_debt", "0"),
            ("ledger_id", "ledger"),
        ];
        let mut words = vec!["HSET", &key];
        words.extend(fields.iter().flat_map(|(field, value)| [*field, *value]));
        self.run::<()>(&words).await;
        let counts = keys.counts(partition);
        self.run::<()>(&["HINCRBY", &counts, &format!("budget {unit} ACTIVE"), "1"])
            .await;
        let index = keys.budgets(partition, name);
        let entry = format!("{} {} {unit}", start.scope, start.unit.index());
        self.run::<()>(&["ZADD", &index, "0", &entry]).await;
    }
}

async fn tenant(store: &Store, name: &str, key_prefix: &str) -> (RuntimeCaller, String) {
    let (redis, keys) = (RedisFixture::on(store.clone()), store.keys());
    let tenant = TenantId::parse(name).expect("a tenant id");
    let partition: Partition = tenant.partition();
    let key = ApiKeyText::generate(key_prefix, partition);
    let caller = RuntimeCaller {
        key_id: key.key_id().clone(),
        key_hash: key.hash(),
        tenant,
        partition,
    };
    let record = keys.api_key(partition, caller.key_id.as_str());
    let hash = caller.key_hash.as_str();
    let words = ["HSET", &record, "hash", hash, "tenant", name];
    redis
        .run::<()>(&[&words[..], &["status", "ACTIVE"]].concat())
        .await;
    let record = keys.tenant(partition, name);
    redis
        .run::<()>(&["HSET", &record, "status", "ACTIVE"])
        .await;
    redis
        .run::<()>(&["ZADD", &keys.tenants(partition), "0", name])
        .await;
    redis
        .run::<()>(&["HINCRBY", &keys.counts(partition), "tenant ACTIVE", "1"])
        .await;
    (caller, key.expose().to_owned())
}

impl Deref for LedgerFixture {
    type Target = RedisFixture;

    fn deref(&self) -> &RedisFixture {
        &self.redis
    }
}

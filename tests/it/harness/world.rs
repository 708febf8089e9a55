//! A tenant or two with keys and ledgers, and a ledger handle, under a key prefix of their own.

use budget_authority::domain::amount::Unit;
use budget_authority::domain::api_key::secret::ApiKeyText;
use budget_authority::domain::caller::RuntimeCaller;
use budget_authority::domain::cause::{Actor, Cause};
use budget_authority::domain::ids::{Partition, RequestId, TenantId, TraceId};
use budget_authority::ledger::Ledger;
use budget_authority::store::Store;

use super::redis;

/// What a test acts on.
pub struct World {
    pub store: Store,
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

impl World {
    /// Two tenants with a key each, and no ledger.
    pub async fn new() -> Self {
        Self::on(super::store(&redis::shared().url())).await
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
        let ledger = Ledger::new(store.clone(), 600, 30);
        Self {
            store,
            ledger,
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
            store,
            callers: vec![caller],
            keys: vec![key],
            key_prefix: "sk_live_",
        }
    }

    /// The same world by way of another store.
    pub fn by_way_of(&self, store: Store) -> Self {
        Self {
            ledger: Ledger::new(store.clone(), 600, 30),
            store,
            callers: self.callers.clone(),
            keys: self.keys.clone(),
            key_prefix: self.key_prefix,
        }
    }

    /// One more tenant with a key; its index.
    pub async fn add(&mut self, name: &str) -> usize {
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
        self.redis(&words).await;
        key.expose().to_owned()
    }

    /// Changes fields of a key's record.
    pub async fn change_key(&self, key: &str, fields: &[(&str, &str)]) {
        let key = ApiKeyText::parse(key, &[self.key_prefix]).expect("a key");
        let record = self.key_record(&key);
        let mut words = vec!["HSET", &record];
        words.extend(fields.iter().flat_map(|(field, value)| [*field, *value]));
        self.redis(&words).await;
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

    /// Runs one Redis command on a key of the tenant.
    pub async fn redis(&self, words: &[&str]) -> ::redis::Value {
        let mut command = ::redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        self.store
            .query(words[1], &command)
            .await
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
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
        self.redis(&words).await;
        let counts = keys.counts(partition);
        self.redis(&["HINCRBY", &counts, &format!("budget {unit} ACTIVE"), "1"])
            .await;
        let index = keys.budgets(partition, name);
        let entry = format!("{} {} {unit}", start.scope, start.unit.index());
        self.redis(&["ZADD", &index, "0", &entry]).await;
    }
}

async fn tenant(store: &Store, name: &str, key_prefix: &str) -> (RuntimeCaller, String) {
    let tenant = TenantId::parse(name).expect("a tenant id");
    let partition: Partition = tenant.partition();
    let key = ApiKeyText::generate(key_prefix, partition);
    let caller = RuntimeCaller {
        key_id: key.key_id().clone(),
        key_hash: key.hash(),
        tenant,
        partition,
    };
    let record = store.keys().api_key(partition, caller.key_id.as_str());
    let mut command = ::redis::cmd("HSET");
    command.arg(&record).arg(&[
        ("hash", caller.key_hash.as_str()),
        ("tenant", name),
        ("status", "ACTIVE"),
    ]);
    store.query(&record, &command).await.expect("a stored key");
    let record = store.keys().tenant(partition, name);
    let mut command = ::redis::cmd("HSET");
    command.arg(&record).arg("status").arg("ACTIVE");
    store
        .query(&record, &command)
        .await
        .expect("a stored tenant");
    let (tenants, counts) = (
        store.keys().tenants(partition),
        store.keys().counts(partition),
    );
    let mut enter = ::redis::cmd("ZADD");
    enter.arg(&tenants).arg(0).arg(name);
    let mut count = ::redis::cmd("HINCRBY");
    count.arg(&counts).arg("tenant ACTIVE").arg(1);
    for (key, command) in [(tenants, enter), (counts, count)] {
        store
            .query(&key, &command)
            .await
            .expect("a tenant that counts");
    }
    (caller, key.expose().to_owned())
}

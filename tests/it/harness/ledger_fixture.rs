//! Tenants with an API key each, their ledgers, and the runtime plane as the service calls it.

use std::ops::Deref;

use budget_authority::domain::amount::Unit;
use budget_authority::domain::api_key::secret::ApiKeyText;
use budget_authority::domain::caller::RuntimeCaller;
use budget_authority::domain::cause::{Actor, Cause};
use budget_authority::domain::ids::{RequestId, TenantId, TraceId};
use budget_authority::ledger::Ledger;
use budget_authority::store::Store;

use super::redis_fixture::RedisFixture;

/// What a key may do whose test does not say.
const PERMISSIONS: &str = " reservations:create reservations:commit reservations:release reservations:extend \
                           reservations:list balances:read budgets:read budgets:write policies:read policies:write ";

/// See the module documentation.
pub struct LedgerFixture {
    redis: RedisFixture,
    pub ledger: Ledger,
    pub callers: Vec<RuntimeCaller>,
    /// The texts of their keys.
    pub keys: Vec<String>,
    key_prefix: &'static str,
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
        let mut fixture = Self::empty(store, key_prefix);
        for name in ["acme", "bolt"] {
            fixture.add_tenant(name).await;
        }
        fixture
    }

    /// One tenant with a key, and no ledger.
    pub async fn of_tenant(store: Store, name: &str) -> Self {
        let mut fixture = Self::empty(store, "sk_live_");
        fixture.add_tenant(name).await;
        fixture
    }

    /// The same tenants through another store.
    pub fn with_store(&self, store: Store) -> Self {
        Self {
            callers: self.callers.clone(),
            keys: self.keys.clone(),
            ..Self::empty(store, self.key_prefix)
        }
    }

    fn empty(store: Store, key_prefix: &'static str) -> Self {
        Self {
            ledger: Ledger::new(store.clone(), 30),
            redis: RedisFixture::on(store),
            callers: Vec::new(),
            keys: Vec::new(),
            key_prefix,
        }
    }

    /// One more tenant with a key; its index.
    pub async fn add_tenant(&mut self, name: &str) -> usize {
        let tenant = TenantId::parse(name).expect("a tenant id");
        let partition = tenant.partition();
        let keys = self.store.keys();
        let record = keys.tenant(partition, name);
        self.run::<()>(&["HSET", &record, "status", "ACTIVE"]).await;
        self.run::<()>(&["ZADD", &keys.tenants(partition), "0", name])
            .await;
        self.run::<()>(&["HINCRBY", &keys.counts(partition), "tenant ACTIVE", "1"])
            .await;
        let (key, command) = self.new_key(&tenant, &[]);
        self.run::<()>(&command).await;
        self.keys.push(key.expose().to_owned());
        self.callers.push(RuntimeCaller {
            key_id: key.key_id().clone(),
            key_hash: key.hash(),
            tenant,
            partition,
        });
        self.keys.len() - 1
    }

    /// One more key of a tenant, with further fields of its record.
    pub async fn add_key(&self, tenant: usize, fields: &[(&str, &str)]) -> String {
        let (key, command) = self.new_key(&self.callers[tenant].tenant, fields);
        self.run::<()>(&command).await;
        key.expose().to_owned()
    }

    /// A new key, and the command that writes its record.
    fn new_key(&self, tenant: &TenantId, fields: &[(&str, &str)]) -> (ApiKeyText, Vec<String>) {
        let key = ApiKeyText::generate(self.key_prefix, tenant.partition());
        let (record, hash) = (self.key_record(&key), key.hash());
        let mut words = vec!["HSET", &record, "hash", hash.as_str()];
        words.extend(["tenant", tenant.as_str(), "status", "ACTIVE"]);
        words.extend(["permissions", PERMISSIONS]);
        words.extend(fields.iter().flat_map(|(field, value)| [*field, *value]));
        let command = words.into_iter().map(str::to_owned).collect();
        (key, command)
    }

    /// Changes fields of a key's record.
    pub async fn change_key(&self, key: &str, fields: &[(&str, &str)]) {
        let key = ApiKeyText::parse(key, &[self.key_prefix]).expect("a key");
        let record = self.key_record(&key);
        self.set(&record, fields).await;
    }

    fn key_record(&self, key: &ApiKeyText) -> String {
        let id = key.key_id();
        self.store.keys().api_key(id.partition(), id.as_str())
    }

    /// The caller, for events.
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

    /// A ledger of a tenant in TOKENS.
    pub async fn budget_of(&self, tenant: usize, scope: &str, allocated: i64) {
        self.seed(tenant, scope, Unit::Tokens, allocated, 0).await;
    }

    /// A ledger of a tenant with an overdraft limit.
    pub async fn seed(&self, tenant: usize, scope: &str, unit: Unit, allocated: i64, limit: i64) {
        let caller = &self.callers[tenant];
        let (partition, name) = (caller.partition, caller.tenant.as_str());
        let keys = self.store.keys();
        let (allocated, limit) = (allocated.to_string(), limit.to_string());
        let key = keys.budget(partition, name, unit.as_str(), scope);
        let fields = [
            ("status", "ACTIVE"),
            ("remaining", &allocated),
            ("reserved", "0"),
            ("spent", "0"),
            ("allocated", &allocated),
            ("debt", "0"),
            ("overdraft_limit", &limit),
            ("is_over_limit", "0"),
            ("terms", ""),
            ("base_spent", "0"),
            ("base_debt", "0"),
            ("ledger_id", "ledger"),
            ("tenant", name),
            ("scope", scope),
            ("unit", unit.as_str()),
            ("created_at_ms", "0"),
            ("updated_at_ms", "0"),
        ];
        self.set(&key, &fields).await;
        let counts = keys.counts(partition);
        self.run::<()>(&["HINCRBY", &counts, &format!("budget {unit} ACTIVE"), "1"])
            .await;
        let index = keys.budgets(partition, name);
        let entry = format!("{scope} {} {unit}", unit.index());
        self.run::<()>(&["ZADD", &index, "0", &entry]).await;
    }
}

impl Deref for LedgerFixture {
    type Target = RedisFixture;

    fn deref(&self) -> &RedisFixture {
        &self.redis
    }
}

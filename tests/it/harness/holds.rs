//! Ledgers with many holds, put into Redis directly: as `reserve.lua` leaves them, but with any times.

use budget_authority::domain::ids::{Partition, TenantId};
use budget_authority::store::dispatcher::lease::Taken;
use budget_authority::store::{Day, Lease, Store};
use redis::{Cmd, FromRedisValue};
use std::time::Duration;

/// A tenant with one ledger in TOKENS, `tenant:<name>`, on which its holds stand.
pub struct Tenant {
    pub store: Store,
    pub id: TenantId,
    commands: Vec<(String, Cmd)>,
}

impl Tenant {
    /// A tenant with nothing in its partition yet.
    pub async fn new(store: &Store, name: &str) -> Self {
        let id = TenantId::parse(name).expect("a tenant id");
        let mut tenant = Self {
            store: store.clone(),
            id,
            commands: Vec::new(),
        };
        let record = store.keys().tenant(tenant.id.partition(), name);
        tenant.queue(&["HSET", &record, "status", "ACTIVE"]);
        tenant.write().await;
        tenant
    }

    pub fn ledger_key(&self) -> String {
        let (partition, name) = (self.id.partition(), self.id.as_str());
        let scope = format!("tenant:{name}");
        self.store.keys().budget(partition, name, "TOKENS", &scope)
    }

    pub fn reservation_key(&self, id: &str) -> String {
        self.store.keys().reservation(self.id.partition(), id)
    }

    pub fn due_key(&self) -> String {
        self.store.keys().due(self.id.partition(), self.id.as_str())
    }

    /// Writes `count` holds of 10 each, due at `due_ms` after a grace of 1 s; answers their ids.
    pub async fn hold(&mut self, count: usize, due_ms: i64) -> Vec<String> {
        let (keys, partition) = (self.store.keys().clone(), self.id.partition());
        let (name, ledger) = (self.id.as_str().to_owned(), self.ledger_key());
        let scope = format!("tenant:{name}");
        let created_ms = due_ms - 61_000;
        let (created, expires, due) = (
            created_ms.to_string(),
            (due_ms - 1_000).to_string(),
            due_ms.to_string(),
        );
        let day = Day::of_ms(created_ms);
        let ids: Vec<_> = (0..count)
            .map(|_| format!("r{partition}_{:024x}", rand::random::<u64>()))
            .collect();
        let index = keys.reservations(partition, &name, day);
        for id in &ids {
            let key = keys.reservation(partition, id);
            self.queue(&[
                "HSET",
                &key,
                "status",
                "ACTIVE",
                "create_hash",
                "h",
                "tenant",
                &name,
                "unit",
                "TOKENS",
                "estimate",
                "10",
                "scope_path",
                &scope,
                "budgeted",
                "1",
                "created_at_ms",
                &created,
                "expires_at_ms",
                &expires,
                "grace_ms",
                "1000",
                "idempotency_key",
                id,
                "action_kind",
                "llm.completion",
                "action_name",
                "model",
            ]);
            self.queue(&["ZADD", &index, &created, id]);
            self.queue(&["ZADD", &keys.due(partition, &name), &due, id]);
        }
        self.queue(&["ZADD", &keys.due_tenants(partition), "LT", &due, &name]);
        self.queue(&[
            "ZADD",
            &keys.days(partition),
            "NX",
            &created,
            &format!("{name}:{day}"),
        ]);
        let held = (count * 10).to_string();
        let fields = [
            "status",
            "ACTIVE",
            "overdraft_limit",
            "0",
            "is_over_limit",
            "0",
            "spent",
            "0",
            "debt",
            "0",
        ];
        let mut words = vec!["HSET", ledger.as_str()];
        words.extend(fields);
        self.queue(&words);
        self.queue(&["HINCRBY", &ledger, "allocated", "1000000000"]);
        let remaining = (1_000_000_000 - count * 10).to_string();
        self.queue(&["HINCRBY", &ledger, "remaining", &remaining]);
        self.queue(&["HINCRBY", &ledger, "reserved", &held]);
        let entry = format!("{scope} 1 TOKENS");
        self.queue(&["ZADD", &keys.budgets(partition, &name), "0", &entry]);
        self.write().await;
        ids
    }

    /// Runs one command and reads its reply.
    pub async fn run<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let reply = self.store.query(words[1], &command(words)).await;
        let reply = reply.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        redis::from_redis_value(reply).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// `remaining reserved spent debt allocated` of the ledger.
    pub async fn figures(&self) -> [i64; 5] {
        let key = self.ledger_key();
        let words = [
            "HMGET",
            &key,
            "remaining",
            "reserved",
            "spent",
            "debt",
            "allocated",
        ];
        let figures: Vec<i64> = self.run(&words).await;
        figures.try_into().expect("five")
    }

    /// The lease of the tenant's partition, taken for `owner`.
    pub async fn lease(&self, owner: &str, duration: Duration) -> Lease {
        lease(&self.store, self.id.partition(), owner, duration).await
    }

    /// Adds a command to those that [`Tenant::write`] sends.
    pub fn queue(&mut self, words: &[&str]) {
        self.commands.push((words[1].to_owned(), command(words)));
    }

    /// Sends what was queued.
    pub async fn write(&mut self) {
        for batch in std::mem::take(&mut self.commands).chunks(5_000) {
            self.store
                .query_all(batch)
                .await
                .expect("the commands are right");
        }
    }
}

fn command(words: &[&str]) -> Cmd {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command
}

/// Redis's time in milliseconds.
pub async fn now_ms(store: &Store) -> i64 {
    store.deployment().await.expect("it runs");
    store.node_times().await.expect("a time")[0].1
}

/// The lease of a partition, taken for `owner`.
pub async fn lease(store: &Store, partition: Partition, owner: &str, duration: Duration) -> Lease {
    let taken = store
        .take_leases(owner, duration, &[owner.to_owned()], duration, &[partition])
        .await;
    match taken.expect("an answer")[..] {
        [Some(Taken::Mine(lease))] => lease,
        ref other => panic!("no lease for {owner}: {other:?}"),
    }
}

/// Waits until no minute of Redis's clock ends within the next ten seconds.
pub async fn within_a_minute(store: &Store) {
    let left_ms = 60_000 - now_ms(store).await % 60_000;
    if left_ms < 10_000 {
        tokio::time::sleep(Duration::from_millis(left_ms as u64 + 1)).await;
    }
}

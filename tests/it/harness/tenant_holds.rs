//! Many holds of a tenant, written to Redis as `reserve.lua` leaves them, but with any times.

use std::time::Duration;

use budget_authority::store::{Day, Lease};

use super::redis_fixture::command;
use super::tenant_fixture::TenantFixture;

/// The ledger of these holds is `tenant:<name>` in TOKENS.
impl TenantFixture {
    pub fn ledger_key(&self) -> String {
        let (partition, name) = (self.id.partition(), self.name());
        let scope = format!("tenant:{name}");
        self.store.keys().budget(partition, name, "TOKENS", &scope)
    }

    pub fn reservation_key(&self, id: &str) -> String {
        self.store.keys().reservation(self.id.partition(), id)
    }

    pub fn due_key(&self) -> String {
        self.store.keys().due(self.id.partition(), self.name())
    }

    pub fn other_graces_key(&self) -> String {
        let (keys, partition) = (self.store.keys(), self.id.partition());
        keys.other_graces(partition, self.name())
    }

    /// Writes `count` holds of 10 each, due at `due_ms` after a grace of 1 s; returns their ids.
    pub async fn write_holds(&mut self, count: usize, due_ms: i64) -> Vec<String> {
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
            self.queue(&["ZADD", &keys.other_graces(partition, &name), &expires, id]);
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
        self.lease_of(self.partition(), owner, duration).await
    }

    /// Adds a command to those that [`TenantFixture::write`] sends.
    pub fn queue(&mut self, words: &[&str]) {
        self.queued.push(command(words));
    }

    /// Sends what was queued.
    pub async fn write(&mut self) {
        let commands = std::mem::take(&mut self.queued);
        self.run_all(&commands).await;
    }

    /// Writes a root ledger, `budgets` agents' ledgers and `holds` holds on both, as `reserve.lua` leaves them.
    pub async fn crowd(&self, budgets: usize, holds: usize) {
        let (keys, partition, name) = (self.keys().clone(), self.id.partition(), self.name());
        let store = &self.store;
        store.node_times().await.expect("a time");
        let now_ms = store.clock().now_ms();
        let now = now_ms.to_string();
        let mut commands = Vec::new();
        let mut queue = |words: &[&str]| commands.push(command(words));
        let amount = |hold: usize| 1 + hold % 7;
        let mut held = vec![0; budgets];
        for hold in 0..holds {
            let agent = hold % budgets;
            held[agent] += amount(hold);
            let id = format!("r{partition}_{hold:024x}");
            let record = keys.reservation(partition, &id);
            let (scope, estimate) = (
                format!("tenant:{name}/agent:a{agent}"),
                amount(hold).to_string(),
            );
            // One a millisecond: a walk along an index of one score only would be slow.
            let created_ms = now_ms - hold as i64;
            let day = Day::of_ms(created_ms);
            let [now, expires, due] =
                [0, 3_599_000, 3_600_000].map(|later_ms| (created_ms + later_ms).to_string());
            let fields = format!(
                "status ACTIVE create_hash h tenant {name} unit TOKENS estimate {estimate} scope_path {scope} \
                 overage_policy REJECT created_at_ms {now} expires_at_ms {expires} grace_ms 1000 max_extensions 10"
            );
            let fields: Vec<_> = fields.split(' ').collect();
            queue(&[&["HSET", &record, "budgeted", "1 2"], &fields[..]].concat());
            queue(&["ZADD", &keys.reservations(partition, name, day), &now, &id]);
            queue(&["ZADD", &keys.due(partition, name), &due, &id]);
            queue(&["ZADD", &keys.other_graces(partition, name), &expires, &id]);
            queue(&["ZADD", &keys.due_tenants(partition), "LT", &due, name]);
            let registered = format!("{name}:{day}");
            queue(&["ZADD", &keys.days(partition), "NX", &now, &registered]);
        }
        let root = held.iter().sum::<usize>();
        let agents = held
            .iter()
            .enumerate()
            .map(|(agent, held)| (format!("/agent:a{agent}"), *held));
        for (place, held) in std::iter::once((String::new(), root)).chain(agents) {
            let scope = format!("tenant:{name}{place}");
            let key = keys.budget(partition, name, "TOKENS", &scope);
            let (remaining, held) = ((1_000_000_000 - held).to_string(), held.to_string());
            let fields = format!(
                "status ACTIVE spent 0 debt 0 overdraft_limit 0 is_over_limit 0 ledger_id {scope} tenant {name} \
                 scope {scope} unit TOKENS created_at_ms {now} base_spent 0 base_debt 0"
            );
            let fields: Vec<_> = fields.split(' ').collect();
            queue(&[&["HSET", &key], &fields[..]].concat());
            for (figure, by) in [
                ("remaining", &*remaining),
                ("reserved", &held),
                ("allocated", "1000000000"),
            ] {
                queue(&["HINCRBY", &key, figure, by]);
            }
            queue(&[
                "ZADD",
                &keys.budgets(partition, name),
                "0",
                &format!("{scope} 1 TOKENS"),
            ]);
        }
        self.run_all(&commands).await;
    }
}

//! Events written to the logs directly, as scripts append them, but with any time; and what the view over all tenants has of
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use budget_authority::dispatcher::{EventFollower, Outboxes, ViewMetrics};
use budget_authority::domain::event::StoredEvent;
use budget_authority::domain::ids::{Partition, TenantId};
use budget_authority::domain::log_entry::EntryId;
use budget_authority::domain::record::Record;
use budget_authority::store::dispatcher::views::Row;
use budget_authority::store::{Day, Lease, Store};
use serde_json::Value;

use super::redis_fixture::RedisFixture;

/// How long followers of tests believe that logs are kept.
pub const KEEP: Duration = Duration::from_secs(90 * 86_400);

/// A follower over a store.
pub fn follower(store: &Store) -> EventFollower {
    follower_in(store, &prometheus::Registry::new())
}

/// The same with its metrics in a registry.
pub fn follower_in(store: &Store, registry: &prometheus::Registry) -> EventFollower {
    let metrics = ViewMetrics::register(registry).expect("a fresh registry");
    let outboxes = Arc::new(Outboxes::new(store.clone()));
    EventFollower::new(store.clone(), outboxes, KEEP, metrics)
}

/// Every partition, leased or not: a follower needs no fence.
pub fn everywhere() -> Vec<Lease> {
    let lease = |partition| Lease {
        partition,
        token: 1,
    };
    Partition::all().map(lease).collect()
}

/// Follows until nothing is left. Events from before the call are then below the watermark.
pub async fn follow(store: &Store) {
    RedisFixture::on(store.clone()).next_ms().await;
    let follower = follower(store);
    while follower
        .run_once(&everywhere())
        .await
        .expect("Redis answers")
        .more
    {}
}

/// An entry of a log.
pub struct LoggedEvent {
    pub row: Row,
    pub facts: Record,
}

impl LoggedEvent {
    /// The expected event.
    pub fn envelope(&self) -> Value {
        let entry = self.row.entry.to_string();
        let event = StoredEvent {
            partition: self.row.partition,
            tenant: &self.row.tenant,
            entry: &entry,
            facts: &self.facts,
        };
        let envelope = event.envelope().expect("sound facts");
        serde_json::from_str(&envelope).expect("JSON")
    }
}

/// See the module documentation.
pub struct EventLog {
    redis: RedisFixture,
    /// How many events each millisecond has in each log.
    taken: BTreeMap<(String, i64), u64>,
}

/// The partition of the logs of a name: those without a tenant are in the first partition.
pub fn partition_of(tenant: &str) -> Partition {
    TenantId::parse(tenant).map_or(Partition::FIRST, |tenant| tenant.partition())
}

impl EventLog {
    pub fn on(store: &Store) -> Self {
        Self {
            redis: RedisFixture::on(store.clone()),
            taken: BTreeMap::new(),
        }
    }

    /// Appends one event of a type with more facts, and a pointer to it; its entry.
    pub async fn emit(&mut self, tenant: &str, at_ms: i64, facts: &[(&str, &str)]) -> EntryId {
        let entry = self.append(tenant, at_ms, facts).await;
        self.point(tenant, at_ms, entry, 1).await;
        entry
    }

    /// Appends one event without a pointer. Those of one log must come in the order of their times.
    pub async fn append(&mut self, tenant: &str, at_ms: i64, facts: &[(&str, &str)]) -> EntryId {
        // Behind what the service itself may have events in that very millisecond.
        let sequence = self
            .taken
            .entry((tenant.to_owned(), at_ms))
            .or_insert(70_000);
        let entry = EntryId {
            ms: at_ms.unsigned_abs(),
            sequence: *sequence,
        };
        *sequence += 1;
        let key = self.log(tenant, at_ms);
        let (id, at) = (entry.to_string(), at_ms.to_string());
        let mut words = vec!["XADD", &key, &id, "at_ms", &at];
        let default = [
            ("type", "tenant.updated"),
            ("source", "service-admin"),
            ("actor", "admin"),
            ("trace_id", "0123456789abcdef0123456789abcdef"),
            ("data.changed_fields", "name"),
        ];
        let given = |name: &str| facts.iter().any(|(known, _)| *known == name);
        let missing = default.iter().filter(|(name, _)| !given(name));
        for (name, value) in missing.chain(facts) {
            words.extend([*name, *value]);
        }
        self.run::<String>(&words).await;
        entry
    }

    /// Points to events from an entry on.
    pub async fn point(&self, tenant: &str, at_ms: i64, first: EntryId, count: usize) {
        let key = self.store.keys().outbox(partition_of(tenant));
        let (day, first) = (Day::of_ms(at_ms).to_string(), first.to_string());
        let count = count.to_string();
        let words = ["XADD", &key, "*", "tenant", tenant, "day", &day];
        let words = [&words[..], &["first", &first, "count", &count]].concat();
        self.run::<String>(&words).await;
    }

    pub fn log(&self, tenant: &str, at_ms: i64) -> String {
        let (partition, day) = (partition_of(tenant), Day::of_ms(at_ms));
        self.store.keys().events(partition, tenant, day)
    }

    /// The rows of the view over all tenants, days one after the other.
    pub async fn view(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for key in self.keys_like("{all}:events:????????").await {
            rows.extend(self.run::<Vec<String>>(&["ZRANGE", &key, "0", "-1"]).await);
        }
        rows
    }

    /// The rows that its narrower indexes have in all: by type, and by ids.
    pub async fn narrower(&self) -> (usize, usize) {
        let (mut kinds, mut ids) = (0, 0);
        for key in self.keys_like("{all}:events:*.*:????????").await {
            kinds += self.run::<usize>(&["ZCARD", &key]).await;
        }
        for key in self.keys_like("{all}:events_ids:????????").await {
            ids += self.run::<usize>(&["ZCARD", &key]).await;
        }
        (kinds, ids)
    }

    /// The expected rows for the logs of all tenants.
    pub async fn logged(&self) -> BTreeSet<String> {
        let events = self.events().await;
        events.iter().map(|events| events.row.member()).collect()
    }

    /// All that the logs of all tenants hold.
    pub async fn events(&self) -> Vec<LoggedEvent> {
        let mut rows = Vec::new();
        for key in self.keys_like("{???}:events:*").await {
            let rest = key.split_once('{').expect("a partition").1;
            let (partition, rest) = rest.split_once("}:events:").expect("a log");
            if partition == "all" {
                continue;
            }
            let tenant = rest.rsplit_once(':').expect("a day").0;
            let entries: Vec<(String, Vec<String>)> = self.run(&["XRANGE", &key, "-", "+"]).await;
            for (entry, facts) in entries {
                let facts = Record::from_pairs(facts);
                let row = Row {
                    partition: Partition::parse(partition).expect("a partition"),
                    entry: EntryId::parse(&entry).expect("an entry"),
                    tenant: tenant.to_owned(),
                    kind: facts.get("type").map(str::to_owned),
                };
                rows.push(LoggedEvent { row, facts });
            }
        }
        rows
    }

    /// Whether the view holds each event of the logs once and nothing else.
    pub async fn check(&self) {
        let (view, logged) = (self.view().await, self.logged().await);
        let distinct: BTreeSet<_> = view.iter().cloned().collect();
        assert_eq!(distinct.len(), view.len(), "a row is there twice");
        assert_eq!(distinct, logged);
        assert_eq!(self.narrower().await.0, logged.len());
    }
}

impl Deref for EventLog {
    type Target = RedisFixture;

    fn deref(&self) -> &RedisFixture {
        &self.redis
    }
}

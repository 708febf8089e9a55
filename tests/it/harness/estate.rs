//! A tenant that owns something of each kind, to be closed, and the check that all of it has ended as it must: each once.

use std::collections::{BTreeMap, BTreeSet};

use budget_authority::admin::{Admin, TenantUpdate, UpdatedTenant};
use budget_authority::domain::amount::Unit;
use budget_authority::domain::caller::{Caller, RuntimeCaller};
use budget_authority::domain::ids::{IdempotencyKey, ReservationId, TenantId};
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::PayloadHash;
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::scope::Level;
use budget_authority::domain::subject::Subject;
use budget_authority::domain::tenant::TenantStatus;
use budget_authority::ledger::{Ledger, LedgerError, Reserve, Reserved};
use budget_authority::store::{Day, Store};
use budget_authority::verify::verify;
use redis::FromRedisValue;

use super::books::Fields;
use super::desk::{Ask, Desk, admin_key, ask, cause, new_key, scope};

/// See the module documentation.
pub struct Estate {
    pub desk: Desk,
    pub ledger: Ledger,
    pub tenant: TenantId,
    pub caller: RuntimeCaller,
    /// The text of its key.
    pub secret: String,
}

/// What is stored of a tenant.
pub struct Account {
    /// By name: scope and unit.
    pub ledgers: BTreeMap<(String, String), Fields>,
    pub reservations: BTreeMap<String, Fields>,
    pub keys: BTreeMap<String, Fields>,
    pub webhooks: BTreeMap<String, Fields>,
    /// In the order of their log.
    pub events: Vec<Fields>,
    pub audit: Vec<Fields>,
    pub tenant: Fields,
}

pub fn closed() -> TenantUpdate {
    TenantUpdate {
        status: Some(TenantStatus::Closed),
        ..TenantUpdate::default()
    }
}

impl Estate {
    /// A tenant with a key and nothing else, on a store of its own.
    pub async fn new() -> Self {
        Self::on(super::store(&super::redis::shared().url()), "acme").await
    }

    pub async fn on(store: Store, name: &str) -> Self {
        let desk = Desk::on(store.clone());
        desk.tenant(name).await;
        let created = desk
            .admin
            .create_api_key(&new_key(name), &ask().request())
            .await;
        let created = created.expect("a key");
        let Caller::Tenant(caller) = super::desk::caller(&created) else {
            panic!("a tenant's key");
        };
        Self {
            ledger: Ledger::new(store, 600, 30),
            tenant: caller.tenant.clone(),
            caller,
            secret: created.key.expose().to_owned(),
            desk,
        }
    }

    /// With ledgers, a frozen one among them; holds on them; keys of each kind; subscriptions of each kind. Answers the ids
    /// of the holds.
    pub async fn furnished() -> (Self, Vec<ReservationId>) {
        let estate = Self::new().await;
        let ids = estate.furnish().await;
        (estate, ids)
    }

    pub async fn furnish(&self) -> Vec<ReservationId> {
        for place in ["", "/agent:a", "/agent:b", "/workspace:w"] {
            self.budget(place, 10_000).await;
        }
        let mut ids = Vec::new();
        for (n, place) in ["/agent:a", "/agent:b", "/agent:a"].iter().enumerate() {
            ids.push(
                self.hold(&format!("hold-{n}"), place, 100 + n as i64)
                    .await
                    .expect("held"),
            );
        }
        self.set_budget("/workspace:w", &["status", "FROZEN"]).await;
        for (status, expires) in [("REVOKED", ""), ("ACTIVE", "1000"), ("ACTIVE", "")] {
            let created = self
                .desk
                .admin
                .create_api_key(&new_key(self.name()), &ask().request())
                .await;
            let id = created.expect("a key").key.key_id().to_string();
            let key = self.keys().api_key(self.tenant.partition(), &id);
            self.run::<()>(&["HSET", &key, "status", status]).await;
            if !expires.is_empty() {
                self.run::<()>(&["HSET", &key, "expires_at_ms", expires])
                    .await;
            }
        }
        for (n, status) in ["ACTIVE", "PAUSED", "DISABLED"].iter().enumerate() {
            self.webhook(&format!("whsub_{n}"), status).await;
        }
        ids
    }

    /// A ledger of TOKENS below the tenant.
    pub async fn budget(&self, place: &str, allocated: i64) {
        let name = self.name();
        self.desk
            .budget(name, &format!("tenant:{name}{place}"), allocated)
            .await;
    }

    pub async fn set_budget(&self, place: &str, fields: &[&str]) {
        let name = self.name();
        let key = self.desk.budget_key(name, &format!("tenant:{name}{place}"));
        self.run::<()>(&[&["HSET", &key], fields].concat()).await;
    }

    pub async fn webhook(&self, id: &str, status: &str) {
        let (keys, partition) = (self.keys(), self.tenant.partition());
        let key = keys.webhook(partition, id);
        self.run::<()>(&["HSET", &key, "status", status, "name", "hook"])
            .await;
        let list = keys.webhooks(partition, self.name());
        self.run::<()>(&["ZADD", &list, "1", id]).await;
    }

    /// Reserves TOKENS below the tenant for an hour.
    pub async fn hold(
        &self,
        key: &str,
        place: &str,
        amount: i64,
    ) -> Result<ReservationId, LedgerError> {
        let name = self.name();
        let path = format!("tenant:{name}{place}");
        let levels = path.split('/').map(|segment| {
            let (level, value) = segment.split_once(':').expect("a segment");
            let level = match level {
                "tenant" => Level::Tenant,
                "agent" => Level::Agent,
                "workspace" => Level::Workspace,
                other => panic!("{other}"),
            };
            (level, value.to_owned())
        });
        let request = Reserve {
            idempotency_key: IdempotencyKey::parse(key).expect("a key"),
            payload_hash: PayloadHash::of_body(&Json::String(key.to_owned())),
            subject: Subject::from_values(levels).expect("a subject"),
            action: budget_authority::domain::action::Action {
                kind: "llm.completion".to_owned(),
                name: "model".to_owned(),
                tags: None,
            },
            estimate: super::desk::tokens(amount),
            ttl_ms: Some(3_600_000),
            grace_ms: 5_000,
            overage_policy: Some(OveragePolicy::Reject),
            dry_run: false,
            metadata: None,
        };
        let cause = cause(budget_authority::domain::cause::Actor::Admin);
        match self.ledger.reserve(&self.caller, &request, &cause).await? {
            Reserved::Held { .. } => {
                let secret = self.desk.store.secret().await?;
                Ok(ReservationId::derive(
                    secret,
                    &self.tenant,
                    &request.idempotency_key,
                ))
            }
            Reserved::DryRun { .. } => panic!("a dry run"),
        }
    }

    /// Closes the tenant under one request.
    pub async fn close(&self) -> UpdatedTenant {
        self.close_as(&ask()).await
    }

    pub async fn close_as(&self, ask: &Ask) -> UpdatedTenant {
        let updated = self
            .desk
            .admin
            .update_tenant(&self.tenant, &closed(), &ask.request())
            .await;
        updated.expect("a closed tenant")
    }

    /// The flip alone, as of a process that dies right after it.
    pub async fn flip(&self) {
        let (store, audit) = (
            &self.desk.store,
            vec![("operation", "updateTenant".to_owned())],
        );
        let change = budget_authority::store::admin::Change {
            cause: "source service-admin\nactor admin\nrequest_id req_flip\ntrace_id 0af7651916cd43dd8448eb211c80319c",
            audit: &audit,
            payload_hash: "h",
            idempotency: None,
        };
        let close = budget_authority::store::tenants::Close {
            correlation_id: &format!("tenant_close_cascade:{}:req_flip", self.name()),
            parent_correlation_id: None,
            request_part: std::time::Duration::ZERO,
        };
        let flipped = store
            .update_tenant(&self.tenant, &closed(), &close, &change)
            .await;
        assert!(flipped.expect("flipped").closing);
    }

    pub fn name(&self) -> &str {
        self.tenant.as_str()
    }

    pub fn keys(&self) -> &budget_authority::store::Keys {
        self.desk.store.keys()
    }

    pub async fn run<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let reply = self.desk.store.query(words[1], &command).await;
        let reply = reply.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        redis::from_redis_value(reply).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    async fn hashes(&self, names: Vec<(String, String)>) -> BTreeMap<String, Fields> {
        let commands: Vec<_> = names
            .iter()
            .map(|(_, key)| {
                let mut command = redis::cmd("HGETALL");
                command.arg(key);
                (key.clone(), command)
            })
            .collect();
        let mut found = BTreeMap::new();
        for (names, commands) in names.chunks(1_000).zip(commands.chunks(1_000)) {
            let replies = self
                .desk
                .store
                .query_all(commands)
                .await
                .expect("an answer");
            for ((name, _), reply) in names.iter().zip(replies) {
                let fields = redis::from_redis_value(reply).expect("a hash");
                found.insert(name.clone(), fields);
            }
        }
        found
    }

    /// All that is stored; the tenant must be at rest.
    pub async fn account(&self) -> Account {
        let (keys, partition, name) = (self.keys().clone(), self.tenant.partition(), self.name());
        let list = keys.budgets(partition, name);
        let members: Vec<String> = self.run(&["ZRANGE", &list, "0", "-1"]).await;
        let ledgers = members.iter().map(|member| {
            let mut words = member.split(' ');
            let scope = words.next().expect("a scope");
            let unit = words.nth(1).expect("a unit");
            (
                format!("{scope} {unit}"),
                keys.budget(partition, name, unit, scope),
            )
        });
        let ledgers = self.hashes(ledgers.collect()).await;
        let list = keys.api_keys(partition, name);
        let ids: Vec<String> = self.run(&["ZRANGE", &list, "0", "-1"]).await;
        let of_key = |id: String| (id.clone(), keys.api_key(partition, &id));
        let api_keys = self.hashes(ids.into_iter().map(of_key).collect()).await;
        let list = keys.webhooks(partition, name);
        let ids: Vec<String> = self.run(&["ZRANGE", &list, "0", "-1"]).await;
        let of_hook = |id: String| (id.clone(), keys.webhook(partition, &id));
        let webhooks = self.hashes(ids.into_iter().map(of_hook).collect()).await;
        let (mut reservations, mut events, mut audit) = (Vec::new(), Vec::new(), Vec::new());
        let today = self.desk.store.today().start_ms();
        for day in [Day::of_ms(today - 1), Day::of_ms(today)] {
            let index = keys.reservations(partition, name, day);
            let ids: Vec<String> = self.run(&["ZRANGE", &index, "0", "-1"]).await;
            reservations.extend(
                ids.into_iter()
                    .map(|id| (id.clone(), keys.reservation(partition, &id))),
            );
            for (log, entries) in [
                (keys.events(partition, name, day), &mut events),
                (keys.audit(partition, name, day), &mut audit),
            ] {
                let read: Vec<(String, Fields)> = self.run(&["XRANGE", &log, "-", "+"]).await;
                entries.extend(read.into_iter().map(|(_, fields)| fields));
            }
        }
        let split = |name: String| {
            let (scope, unit) = name.split_once(' ').expect("two words");
            (scope.to_owned(), unit.to_owned())
        };
        Account {
            ledgers: ledgers
                .into_iter()
                .map(|(name, fields)| (split(name), fields))
                .collect(),
            reservations: self.hashes(reservations).await,
            keys: api_keys,
            webhooks,
            events,
            audit,
            tenant: self.run(&["HGETALL", &keys.tenant(partition, name)]).await,
        }
    }

    /// Whether the intent of a close stands.
    pub async fn is_closing(&self) -> bool {
        let key = self.keys().closing(self.tenant.partition(), self.name());
        self.run(&["EXISTS", &key]).await
    }

    /// Checks that everything has ended as it must since `before`, each child told once, the tenant last.
    pub async fn check_closed(&self, before: &Account) -> Account {
        let after = self.account().await;
        assert!(!self.is_closing().await, "the intent is gone");
        let closings = self.keys().closings(self.tenant.partition());
        let listed: Vec<String> = self.run(&["ZRANGE", &closings, "0", "-1"]).await;
        assert!(!listed.contains(&self.name().to_owned()));
        assert_eq!(after.tenant["status"], "CLOSED");

        let (mut children, mut released_events) = (BTreeSet::new(), 0);
        for (name, ledger) in &after.ledgers {
            let figure =
                |fields: &Fields, name: &str| fields[name].parse::<i128>().expect("a figure");
            let then = &before.ledgers[name];
            assert_eq!(
                (&*ledger["status"], &*ledger["reserved"]),
                ("CLOSED", "0"),
                "{name:?}"
            );
            for kept in ["allocated", "debt", "overdraft_limit", "ledger_id"] {
                assert_eq!(ledger[kept], then[kept], "{kept} of {name:?}");
            }
            let [allocated, spent, debt] =
                ["allocated", "spent", "debt"].map(|name| figure(ledger, name));
            assert_eq!(
                figure(ledger, "remaining"),
                allocated - spent - debt,
                "{name:?}"
            );
            if then["status"] != "CLOSED" {
                children.insert((
                    "budget.closed_via_tenant_cascade",
                    ledger["ledger_id"].clone(),
                ));
            }
        }
        for (id, key) in &after.keys {
            let then = &before.keys[id];
            let expired = then.get("expires_at_ms").is_some_and(|ms| ms == "1000");
            if then["status"] == "ACTIVE" && !expired {
                assert_eq!(
                    (&*key["status"], &*key["revoked_reason"]),
                    ("REVOKED", "tenant_closed")
                );
                children.insert(("api_key.revoked_via_tenant_cascade", id.clone()));
            } else {
                assert_eq!(key, then, "{id} stays as it was");
            }
        }
        for (id, webhook) in &after.webhooks {
            assert_eq!(webhook["status"], "DISABLED");
            if before.webhooks[id]["status"] != "DISABLED" {
                children.insert(("webhook.disabled_via_tenant_cascade", id.clone()));
            }
        }
        let statuses: BTreeSet<_> = after
            .reservations
            .values()
            .map(|record| &*record["status"])
            .collect();
        assert!(!statuses.contains("ACTIVE"), "{statuses:?}");

        let told: Vec<_> = after
            .events
            .iter()
            .filter(|event| event["type"].ends_with("_via_tenant_cascade"))
            .collect();
        let mut seen = BTreeSet::new();
        for event in &told {
            let id = ["ledger_id", "subscription_id", "key_id"]
                .iter()
                .find_map(|name| event.get(&format!("data.{name}")))
                .expect("an id");
            let kind = event["type"].clone();
            released_events += usize::from(kind.starts_with("reservation."));
            assert!(seen.insert((kind, id.clone())), "told twice: {event:?}");
        }
        let expected: BTreeSet<_> = children
            .iter()
            .map(|(kind, id)| ((*kind).to_owned(), id.clone()))
            .collect();
        let of_children: BTreeSet<_> = seen
            .iter()
            .filter(|(kind, _)| !kind.starts_with("reservation."))
            .cloned()
            .collect();
        assert_eq!(of_children, expected);
        let audited: Vec<_> = after
            .audit
            .iter()
            .filter(|entry| entry["operation"] == "tenant_close_cascade")
            .collect();
        let distinct: BTreeSet<_> = audited
            .iter()
            .map(|entry| {
                (
                    entry["metadata.event_kind"].clone(),
                    entry["resource_id"].clone(),
                )
            })
            .collect();
        assert_eq!((audited.len(), distinct), (expected.len(), expected));

        let closes: Vec<_> = after
            .events
            .iter()
            .filter(|event| event["type"] == "tenant.closed")
            .collect();
        assert_eq!(closes.len(), 1, "one tenant.closed");
        assert_eq!(
            after.events.last().expect("events")["type"],
            "tenant.closed",
            "the last"
        );
        let correlations: BTreeSet<_> = told
            .iter()
            .chain(&closes)
            .map(|event| {
                (
                    &event["correlation_id"],
                    &event["request_id"],
                    &event["trace_id"],
                )
            })
            .collect();
        assert_eq!(correlations.len(), 1, "{correlations:?}");
        let released: BTreeSet<_> = after
            .reservations
            .iter()
            .filter(|(_, record)| {
                record["status"] == "RELEASED"
                    && record
                        .get("release_reason")
                        .is_some_and(|why| why == "tenant_closed")
            })
            .map(|(_, record)| (&record["scope_path"], &record["unit"]))
            .collect();
        assert!(
            released_events >= released.len().min(1),
            "{released_events}"
        );

        let sequences: Vec<i64> = after
            .audit
            .iter()
            .map(|entry| entry["sequence"].parse().expect("a number"))
            .collect();
        assert!(
            sequences
                .iter()
                .zip(1..)
                .all(|(sequence, n)| *sequence == n),
            "gapless"
        );
        let report = verify(&self.desk.store, Some(&self.tenant), |_| {})
            .await
            .expect("an answer");
        assert!(report.is_right(), "{}", report.table(true));
        after
    }

    /// The entries of requests that closed.
    pub fn requests(account: &Account) -> Vec<&Fields> {
        let entries = account.audit.iter();
        entries
            .filter(|entry| entry["operation"] == "updateTenant")
            .collect()
    }

    /// The ledger of TOKENS below the tenant.
    pub async fn ledger_at(
        &self,
        place: &str,
    ) -> budget_authority::domain::budget_ledger::BudgetLedger {
        let path = format!("tenant:{}{place}", self.name());
        let found = self
            .desk
            .admin
            .lookup_budget(&admin_key(), &scope(&path), Unit::Tokens)
            .await;
        found.expect("a ledger")
    }
}

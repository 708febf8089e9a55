//! A snapshot of a tenant's records, and the check that a close has ended them all: each once, the tenant last.

use std::collections::{BTreeMap, BTreeSet};

use budget_authority::tools::verify::verify;

use super::days::days_around;
use super::eventually;
use super::redis_fixture::Fields;
use super::tenant_fixture::TenantFixture;

/// A snapshot of a tenant's records.
pub struct TenantSnapshot {
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

impl TenantFixture {
    async fn named(&self, names: Vec<(String, String)>) -> BTreeMap<String, Fields> {
        let (names, keys): (Vec<_>, Vec<_>) = names.into_iter().unzip();
        names.into_iter().zip(self.hashes(&keys).await).collect()
    }

    /// All that is stored; the tenant must be at rest.
    pub async fn account(&self) -> TenantSnapshot {
        let (keys, partition, name) = (self.keys().clone(), self.id.partition(), self.name());
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
        let ledgers = self.named(ledgers.collect()).await;
        let list = keys.api_keys(partition, name);
        let ids: Vec<String> = self.run(&["ZRANGE", &list, "0", "-1"]).await;
        let of_key = |id: String| (id.clone(), keys.api_key(partition, &id));
        let api_keys = self.named(ids.into_iter().map(of_key).collect()).await;
        let list = keys.webhooks(partition, name);
        let ids: Vec<String> = self.run(&["ZRANGE", &list, "0", "-1"]).await;
        let of_hook = |id: String| (id.clone(), keys.webhook(partition, &id));
        let webhooks = self.named(ids.into_iter().map(of_hook).collect()).await;
        let (mut reservations, mut events, mut audit) = (Vec::new(), Vec::new(), Vec::new());
        for day in days_around(&self.store) {
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
        TenantSnapshot {
            ledgers: ledgers
                .into_iter()
                .map(|(name, fields)| (split(name), fields))
                .collect(),
            reservations: self.named(reservations).await,
            keys: api_keys,
            webhooks,
            events,
            audit,
            tenant: self.run(&["HGETALL", &keys.tenant(partition, name)]).await,
        }
    }

    /// Whether the intent of a close exists.
    pub async fn is_closing(&self) -> bool {
        let key = self.keys().closing(self.id.partition(), self.name());
        self.run(&["EXISTS", &key]).await
    }

    /// Checks that everything has ended as it must since `before`, with one event per child, the tenant's last.
    pub async fn check_closed(&self, before: &TenantSnapshot) -> TenantSnapshot {
        let after = self.account().await;
        assert!(!self.is_closing().await, "the intent is gone");
        let closings = self.keys().closings(self.id.partition());
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

        let emitted: Vec<_> = after
            .events
            .iter()
            .filter(|event| event["type"].ends_with("_via_tenant_cascade"))
            .collect();
        let mut seen = BTreeSet::new();
        for event in &emitted {
            let id = ["ledger_id", "subscription_id", "key_id"]
                .iter()
                .find_map(|name| event.get(&format!("data.{name}")))
                .expect("an id");
            let kind = event["type"].clone();
            released_events += usize::from(kind.starts_with("reservation."));
            assert!(seen.insert((kind, id.clone())), "emitted twice: {event:?}");
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
        let correlations: BTreeSet<_> = emitted
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
        // It reads many keys at once, which Redis refuses while their slot moves.
        let report = eventually("the ledgers can be read", || async {
            verify(&self.store, Some(&self.id), |_| {}).await.ok()
        })
        .await;
        assert!(report.is_right(), "{}", report.table(true));
        after
    }

    /// The entries of requests that closed.
    pub fn requests(account: &TenantSnapshot) -> Vec<&Fields> {
        let entries = account.audit.iter();
        entries
            .filter(|entry| entry["operation"] == "updateTenant")
            .collect()
    }
}

//! Recomputes a tenant's ledgers from its records, without any code of the service.

use std::collections::BTreeMap;

use budget_authority::tools::verify::verify;

use super::days::days_around;
use super::ledger_fixture::LedgerFixture;
use super::redis_fixture::Fields;

/// All records of one tenant that a test has written.
pub struct LedgerAudit {
    /// By unit and scope.
    pub ledgers: BTreeMap<(String, String), Fields>,
    /// By id.
    pub reservations: BTreeMap<String, Fields>,
    /// By id.
    pub posts: BTreeMap<String, Fields>,
    /// In the order of their log.
    pub events: Vec<Fields>,
}

impl LedgerAudit {
    /// Reads them; the tenant must be at rest.
    pub async fn read(fixture: &LedgerFixture, tenant: usize) -> Self {
        let (store, caller) = (&fixture.store, &fixture.callers[tenant]);
        let (keys, partition, name) = (store.keys(), caller.partition, caller.tenant.as_str());
        let entries: Vec<String> = fixture
            .run(&["ZRANGE", &keys.budgets(partition, name), "0", "-1"])
            .await;
        let scopes = entries.iter().map(|entry| {
            let mut words = entry.split(' ');
            let scope = words.next().expect("a scope");
            let unit = words.nth(1).expect("a unit");
            (unit.to_owned(), scope.to_owned())
        });
        let scopes: Vec<_> = scopes.collect();
        let key = |(unit, scope): &(String, String)| keys.budget(partition, name, unit, scope);
        let ledger_keys: Vec<_> = scopes.iter().map(key).collect();
        let ledgers = fixture.hashes(&ledger_keys).await;

        let (mut reservation_ids, mut post_ids, mut events) = (Vec::new(), Vec::new(), Vec::new());
        for day in days_around(store) {
            let index = keys.reservations(partition, name, day);
            let ids: Vec<String> = fixture.run(&["ZRANGE", &index, "0", "-1"]).await;
            reservation_ids.extend(ids);
            let index = keys.usage_events(partition, name, day);
            let ids: Vec<String> = fixture.run(&["ZRANGE", &index, "0", "-1"]).await;
            post_ids.extend(ids);
            let log = keys.events(partition, name, day);
            let entries: Vec<(String, Fields)> = fixture.run(&["XRANGE", &log, "-", "+"]).await;
            events.extend(entries.into_iter().map(|(_, facts)| facts));
        }
        let reservation_keys: Vec<_> = reservation_ids
            .iter()
            .map(|id| keys.reservation(partition, id))
            .collect();
        let post_keys: Vec<_> = post_ids
            .iter()
            .map(|id| keys.usage_event(partition, id))
            .collect();
        Self {
            ledgers: scopes.into_iter().zip(ledgers).collect(),
            reservations: reservation_ids
                .into_iter()
                .zip(fixture.hashes(&reservation_keys).await)
                .collect(),
            posts: post_ids
                .into_iter()
                .zip(fixture.hashes(&post_keys).await)
                .collect(),
            events,
        }
    }

    /// Reads them and audits them, and has the service's own verification do the same.
    pub async fn run(fixture: &LedgerFixture, tenant: usize) -> Self {
        let ledger_audit = Self::read(fixture, tenant).await;
        ledger_audit.audit();
        let id = &fixture.callers[tenant].tenant;
        let report = verify(&fixture.store, Some(id), |_| {}).await;
        let report = report.expect("Redis answers");
        assert!(report.is_right(), "{}", report.table(false));
        assert_eq!(report.ledgers.len(), ledger_audit.ledgers.len());
        ledger_audit
    }

    /// Panics when a ledger is not what its records say, to the unit, or has been oversubscribed.
    fn audit(&self) {
        let mut expected: BTreeMap<(String, String), [i64; 3]> = BTreeMap::new();
        for (id, record) in self.reservations.iter().chain(&self.posts) {
            let (reserved, charged) = match text(record, "status") {
                "ACTIVE" => (integer(record, "estimate"), 0),
                "COMMITTED" | "APPLIED" => (0, integer(record, "charged")),
                "RELEASED" | "EXPIRED" => (0, 0),
                other => panic!("{id} is {other}"),
            };
            // Only tests without debt refund.
            let refunded = optional(record, "refunded");
            for depth in text(record, "budgeted").split(' ') {
                let depth_number: usize = depth.parse().expect("a depth");
                let levels: Vec<_> = text(record, "scope_path").split('/').collect();
                let key = (
                    text(record, "unit").to_owned(),
                    levels[..depth_number].join("/"),
                );
                let debt = optional(record, &format!("debt.{depth}"));
                let figures = expected.entry(key).or_default();
                figures[0] += reserved;
                figures[1] += charged - debt - refunded;
                figures[2] += debt;
            }
        }
        for (key, ledger) in &self.ledgers {
            let figure = |name: &str| integer(ledger, name);
            let [remaining, reserved, spent, debt] =
                ["remaining", "reserved", "spent", "debt"].map(figure);
            let figures = expected.remove(key).unwrap_or_default();
            let (base_spent, base_debt) = (figure("base_spent"), figure("base_debt"));
            let found = [reserved, spent - base_spent, debt - base_debt];
            assert_eq!(
                found, figures,
                "reserved, spent and debt of {key:?}: {ledger:?}"
            );
            let allocated = figure("allocated");
            assert_eq!(
                remaining,
                allocated - spent - reserved - debt,
                "{key:?}: {ledger:?}"
            );
            let limit = figure("overdraft_limit");
            assert!(remaining >= -limit, "{key:?} is oversubscribed: {ledger:?}");
        }
        assert!(
            expected.is_empty(),
            "charged but without a ledger: {expected:?}"
        );
    }

    /// A figure of a ledger in TOKENS.
    pub fn figure(&self, scope: &str, name: &str) -> i64 {
        let key = ("TOKENS".to_owned(), scope.to_owned());
        integer(&self.ledgers[&key], name)
    }

    /// How many events of a type were emitted.
    pub fn events_of(&self, event_type: &str) -> usize {
        let of_type = |facts: &&Fields| facts.get("type").is_some_and(|found| found == event_type);
        self.events.iter().filter(of_type).count()
    }

    /// How many reservations are in a state.
    pub fn reservations_in(&self, status: &str) -> usize {
        let records = self.reservations.values();
        records
            .filter(|record| text(record, "status") == status)
            .count()
    }
}

fn text<'a>(record: &'a Fields, name: &str) -> &'a str {
    record
        .get(name)
        .unwrap_or_else(|| panic!("no {name} in {record:?}"))
}

fn integer(record: &Fields, name: &str) -> i64 {
    text(record, name).parse().expect("an integer")
}

fn optional(record: &Fields, name: &str) -> i64 {
    record
        .get(name)
        .map_or(0, |value| value.parse().expect("an integer"))
}

//! Reads one tenant: its ledgers at one moment, then its records, then what is due.

use std::collections::{BTreeMap, BTreeSet};

use super::inventory::Found;
use super::report::{Difference, LedgerRow, Report};
use super::sums::{Comparison, Moved, Sums};
use crate::domain::amount::Unit;
use crate::domain::ids::TenantId;
use crate::store::dispatcher::purge::Records;
use crate::store::tools::verify::{Figures, READ_ROWS};
use crate::store::{Day, Store, StoreError};

/// A scope and a unit.
pub(super) type LedgerName = (String, Unit);

/// A ledger and the moment at which it was read.
pub(super) struct Ledger {
    pub at_ms: i64,
    figures: Figures,
    pub sums: Sums,
}

/// What is known of one tenant so far.
pub(super) struct Collector<'a> {
    pub store: &'a Store,
    pub tenant: &'a TenantId,
    pub ledgers: BTreeMap<LedgerName, Ledger>,
    pub part: Report,
}

impl<'a> Collector<'a> {
    /// Reads a tenant and compares. `progress` is told how many records were read.
    pub(super) async fn read(
        store: &'a Store,
        tenant: &'a TenantId,
        found: &Found,
        found_ms: i64,
        progress: &mut impl FnMut(u64),
    ) -> Result<Report, StoreError> {
        let mut collector = Self {
            store,
            tenant,
            ledgers: BTreeMap::new(),
            part: Report {
                tenants: 1,
                ..Report::default()
            },
        };
        collector.ledgers().await?;
        // What was written since the tenants were found is of a day between then and now.
        let read_ms = collector
            .ledgers
            .values()
            .map(|ledger| ledger.at_ms)
            .max()
            .unwrap_or(found_ms);
        let mut since = BTreeSet::from([Day::of_ms(found_ms)]);
        while let Some(last) = since.last().filter(|last| **last < Day::of_ms(read_ms)) {
            since.insert(last.plus(1));
        }
        for day in found.reservations.union(&since) {
            collector
                .day(Records::Reservations, *day, read_ms, progress)
                .await?;
        }
        for day in found.posts.union(&since) {
            collector
                .day(Records::Posts, *day, read_ms, progress)
                .await?;
        }
        collector.due(progress).await?;
        collector.registered(found).await?;
        collector.compare().await
    }

    pub(super) fn differs(&mut self, what: &str, id: &str, detail: String) {
        self.part.differences.push(Difference {
            tenant: self.tenant.to_string(),
            what: what.to_owned(),
            id: id.to_owned(),
            detail,
        });
    }

    /// Reads every ledger of the tenant's index.
    async fn ledgers(&mut self) -> Result<(), StoreError> {
        let (keys, partition, tenant) = (
            self.store.keys(),
            self.tenant.partition(),
            self.tenant.as_str(),
        );
        let members = self
            .store
            .members_of(&keys.budgets(partition, tenant))
            .await?;
        let mut names = Vec::with_capacity(members.len());
        for member in members {
            match parse_member(&member) {
                Some(name) => names.push(name),
                None => self.differs(
                    "ledger",
                    &member,
                    "the index of ledgers names no scope and unit".to_owned(),
                ),
            }
        }
        self.read_ledgers(names).await
    }

    async fn read_ledgers(&mut self, names: Vec<LedgerName>) -> Result<(), StoreError> {
        for batch in names.chunks(READ_ROWS) {
            let read = self.store.read_ledgers(self.tenant, batch).await?;
            for (name, row) in batch.iter().zip(read.rows) {
                match row {
                    Ok(Some(figures)) => {
                        let ledger = Ledger {
                            at_ms: read.now_ms,
                            figures,
                            sums: Sums::default(),
                        };
                        self.ledgers.insert(name.clone(), ledger);
                    }
                    Ok(None) => self.differs(
                        "ledger",
                        &show(name),
                        "the index names it, but it is gone".to_owned(),
                    ),
                    Err(why) => {
                        self.differs("ledger", &show(name), format!("it is corrupt: {why}"))
                    }
                }
            }
        }
        Ok(())
    }

    /// Retention learns of each day with records from the partition's registry.
    async fn registered(&mut self, found: &Found) -> Result<(), StoreError> {
        let days: Vec<_> = found.reservations.union(&found.posts).copied().collect();
        for member in self.store.unregistered_days(self.tenant, &days).await? {
            let detail = "it has records, but retention does not know of it".to_owned();
            self.differs("day", &member, detail);
        }
        Ok(())
    }

    /// Compares each ledger with its records; then looks whether a base moved meanwhile.
    async fn compare(mut self) -> Result<Report, StoreError> {
        let ledgers = std::mem::take(&mut self.ledgers);
        let names: Vec<_> = ledgers.keys().cloned().collect();
        for (name, ledger) in &ledgers {
            let figures = &ledger.figures;
            let rest =
                i128::from(figures.spent) + i128::from(figures.reserved) + i128::from(figures.debt);
            let law = i128::from(figures.remaining) == i128::from(figures.allocated) - rest;
            let comparison = ledger.sums.compare(figures);
            if comparison == Comparison::Unknown {
                self.part
                    .unsettled
                    .push(format!("{} {}", self.tenant, show(name)));
            }
            let computed = match comparison {
                Comparison::Wrong(computed) => computed,
                Comparison::Right | Comparison::Unknown => Moved::stored(figures),
            };
            let row = LedgerRow::new(self.tenant, name, figures, computed);
            for detail in row.details() {
                self.differs("ledger", &show(name), detail);
            }
            if !law {
                let detail = "remaining is not allocated less spent, reserved and debt".to_owned();
                self.differs("ledger", &show(name), detail);
            }
            if figures.strained != figures.strain() {
                let detail = "the index of debts and limits does not have it as it is".to_owned();
                self.differs("ledger", &show(name), detail);
            }
            self.part.ledgers.push(row);
        }
        self.read_ledgers(names).await?;
        for (name, before) in &ledgers {
            let now = self
                .ledgers
                .get(name)
                .map(|ledger| Moved::base(&ledger.figures));
            if now != Some(Moved::base(&before.figures)) {
                self.part
                    .unsettled
                    .push(format!("{} {}", self.tenant, show(name)));
            }
        }
        Ok(self.part)
    }
}

/// Reads `<scope> <unit index> <UNIT>`.
fn parse_member(member: &str) -> Option<LedgerName> {
    let mut words = member.split(' ');
    let (scope, _, unit) = (words.next()?, words.next()?, words.next()?);
    Some((scope.to_owned(), Unit::parse(unit)?))
}

pub(super) fn show((scope, unit): &LedgerName) -> String {
    format!("{scope} {unit}")
}

//! Verifies one tenant: reads its ledgers at one moment, then its records, then its due index.

use std::collections::{BTreeMap, BTreeSet};

use super::inventory::RecordDays;
use super::report::{Difference, LedgerRow, Report};
use super::totals::{Amounts, Comparison, Totals};
use crate::domain::amount::Unit;
use crate::domain::ids::TenantId;
use crate::store::dispatcher::purge::Records;
use crate::store::tools::verify::{Figures, READ_ROWS};
use crate::store::{Day, Store, StoreError};

/// A scope and a unit.
pub(super) type LedgerName = (String, Unit);

/// A ledger, and when it was read.
pub(super) struct Ledger {
    pub at_ms: i64,
    figures: Figures,
    pub totals: Totals,
}

/// What is known of one tenant.
pub(super) struct Collector<'a> {
    pub store: &'a Store,
    pub tenant: &'a TenantId,
    pub ledgers: BTreeMap<LedgerName, Ledger>,
    pub report: Report,
}

impl<'a> Collector<'a> {
    /// Verifies a tenant, and calls `progress` with the numbers of records read. `days` were found at `found_ms`.
    pub(super) async fn read(
        store: &'a Store,
        tenant: &'a TenantId,
        days: &RecordDays,
        found_ms: i64,
        progress: &mut impl FnMut(u64),
    ) -> Result<Report, StoreError> {
        let mut collector = Self {
            store,
            tenant,
            ledgers: BTreeMap::new(),
            report: Report {
                tenants: 1,
                ..Report::default()
            },
        };
        collector.ledgers().await?;
        // Records written since the scan are of a day between then and now.
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
        for day in days.reservations.union(&since) {
            collector
                .day(Records::Reservations, *day, read_ms, progress)
                .await?;
        }
        for day in days.usage_events.union(&since) {
            collector
                .day(Records::UsageEvents, *day, read_ms, progress)
                .await?;
        }
        collector.due(progress).await?;
        collector.registered(days).await?;
        collector.compare().await
    }

    pub(super) fn differs(&mut self, what: &str, id: &str, detail: String) {
        self.report.differences.push(Difference {
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
                    "the index of ledgers holds a name without scope and unit".to_owned(),
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
                            totals: Totals::default(),
                        };
                        self.ledgers.insert(name.clone(), ledger);
                    }
                    Ok(None) => self.differs(
                        "ledger",
                        &show(name),
                        "it is in the index, but does not exist".to_owned(),
                    ),
                    Err(why) => {
                        self.differs("ledger", &show(name), format!("it is corrupt: {why}"))
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that each day with records is registered for retention.
    async fn registered(&mut self, days: &RecordDays) -> Result<(), StoreError> {
        let days: Vec<_> = days
            .reservations
            .union(&days.usage_events)
            .copied()
            .collect();
        for member in self.store.unregistered_days(self.tenant, &days).await? {
            let detail = "it has records, but is not registered for retention".to_owned();
            self.differs("day", &member, detail);
        }
        Ok(())
    }

    /// Compares each ledger with its records, then checks whether a base moved meanwhile.
    async fn compare(mut self) -> Result<Report, StoreError> {
        let ledgers = std::mem::take(&mut self.ledgers);
        let names: Vec<_> = ledgers.keys().cloned().collect();
        for (name, ledger) in &ledgers {
            let figures = &ledger.figures;
            let rest =
                i128::from(figures.spent) + i128::from(figures.reserved) + i128::from(figures.debt);
            let adds_up = i128::from(figures.remaining) == i128::from(figures.allocated) - rest;
            let comparison = ledger.totals.compare(figures);
            if comparison == Comparison::Unknown {
                self.report
                    .unverified
                    .push(format!("{} {}", self.tenant, show(name)));
            }
            let computed = match comparison {
                Comparison::Wrong(computed) => computed,
                Comparison::Right | Comparison::Unknown => Amounts::stored(figures),
            };
            let row = LedgerRow::new(self.tenant, name, figures, computed);
            for detail in row.details() {
                self.differs("ledger", &show(name), detail);
            }
            if !adds_up {
                let detail = "remaining is not allocated minus spent, reserved and debt".to_owned();
                self.differs("ledger", &show(name), detail);
            }
            if figures.strained != figures.strain() {
                let detail = "the index of ledgers over limit or in debt has it wrong".to_owned();
                self.differs("ledger", &show(name), detail);
            }
            self.report.ledgers.push(row);
        }
        self.read_ledgers(names).await?;
        for (name, before) in &ledgers {
            let now = self
                .ledgers
                .get(name)
                .map(|ledger| Amounts::base(&ledger.figures));
            if now != Some(Amounts::base(&before.figures)) {
                self.report
                    .unverified
                    .push(format!("{} {}", self.tenant, show(name)));
            }
        }
        Ok(self.report)
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

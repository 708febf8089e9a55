//! Verifies one tenant: reads its ledgers at one moment, then its records, then its due index.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{Difference, LedgerRow, Report};
use super::totals::Totals;
use super::usage::Usage;
use crate::domain::amount::Unit;
use crate::domain::ids::TenantId;
use crate::store::dispatcher::retention::Records;
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

/// The verification of one tenant.
pub(super) struct Collector<'a> {
    pub store: &'a Store,
    pub tenant: &'a TenantId,
    pub ledgers: BTreeMap<LedgerName, Ledger>,
    /// The latest time that a record or an index has.
    pub latest_ms: i64,
    pub report: Report,
    pub usage: Usage,
    /// Is called with the numbers of records read.
    pub progress: &'a mut (dyn FnMut(u64) + Send),
}

impl<'a> Collector<'a> {
    /// Verifies a tenant, whose `days` were found at `found_ms`.
    pub(super) async fn read(
        store: &'a Store,
        tenant: &'a TenantId,
        days: &BTreeSet<Day>,
        found_ms: i64,
        progress: &'a mut (dyn FnMut(u64) + Send),
    ) -> Result<Report, StoreError> {
        let mut collector = Self {
            store,
            tenant,
            ledgers: BTreeMap::new(),
            latest_ms: 0,
            report: Report {
                tenants: 1,
                ..Report::default()
            },
            usage: Usage::read(store, tenant).await?,
            progress,
        };
        collector.ledgers().await?;
        // Records written since the scan are of a day between then and now.
        let read_ms = collector.ledgers.values().map(|ledger| ledger.at_ms).max();
        let read_ms = read_ms.unwrap_or(found_ms);
        let days_since = std::iter::successors(Some(Day::of_ms(found_ms)), |day| Some(day.plus(1)));
        let since: BTreeSet<_> = days_since
            .take_while(|day| *day <= Day::of_ms(read_ms))
            .collect();
        for day in days.union(&since) {
            for records in [Records::Reservations, Records::UsageEvents] {
                collector.day(records, *day, read_ms).await?;
            }
        }
        collector.due().await?;
        collector.registered(days).await?;
        for (day, detail) in collector.usage.differences(store, tenant).await? {
            collector.differs("usage", &day, detail);
        }
        collector.compare().await
    }

    pub(super) fn differs(&mut self, what: &str, id: &str, detail: impl Into<String>) {
        self.report.differences.push(Difference {
            tenant: self.tenant.to_string(),
            what: what.to_owned(),
            id: id.to_owned(),
            detail: detail.into(),
        });
    }

    fn title(&self, name: &LedgerName) -> String {
        format!("{} {}", self.tenant, show(name))
    }

    /// Reads every ledger of the tenant's index.
    async fn ledgers(&mut self) -> Result<(), StoreError> {
        let (keys, partition) = (self.store.keys(), self.tenant.partition());
        let index = keys.budgets(partition, self.tenant.as_str());
        let mut names = Vec::new();
        for member in self.store.members_of(&index).await? {
            match parse_member(&member) {
                Some(name) => names.push(name),
                None => {
                    let detail = "the index of ledgers holds a name without scope and unit";
                    self.differs("ledger", &member, detail);
                }
            }
        }
        self.read_ledgers(names).await
    }

    async fn read_ledgers(&mut self, names: Vec<LedgerName>) -> Result<(), StoreError> {
        for batch in names.chunks(READ_ROWS) {
            let read = self.store.read_ledgers(self.tenant, batch).await?;
            for (name, row) in batch.iter().zip(read.rows) {
                match row {
                    Ok(figures) => {
                        let ledger = Ledger {
                            at_ms: read.now_ms,
                            figures,
                            totals: Totals::default(),
                        };
                        self.ledgers.insert(name.clone(), ledger);
                    }
                    Err(detail) => self.differs("ledger", &show(name), detail),
                }
            }
        }
        Ok(())
    }

    /// Checks that each day with records is registered for retention.
    async fn registered(&mut self, days: &BTreeSet<Day>) -> Result<(), StoreError> {
        let days: Vec<_> = days.iter().copied().collect();
        for member in self.store.unregistered_days(self.tenant, &days).await? {
            let detail = "it has records, but is not registered for retention";
            self.differs("day", &member, detail);
        }
        Ok(())
    }

    /// Compares each ledger with its records, and checks whether a base changed meanwhile.
    async fn compare(mut self) -> Result<Report, StoreError> {
        let ledgers = std::mem::take(&mut self.ledgers);
        self.read_ledgers(ledgers.keys().cloned().collect()).await?;
        for (name, ledger) in &ledgers {
            let figures = &ledger.figures;
            let stored = figures.stored;
            // Changes after the ledger was read do not count. A time in the future is from before the clock went back.
            let later_ms = self.latest_ms.max(ledger.at_ms);
            let after = self.ledgers.get(name);
            let went_back = after.is_some_and(|after| after.at_ms < later_ms);
            let has_same_base = after.is_some_and(|after| after.figures.base == figures.base);
            let expected = ledger.totals.expected(figures);
            if expected.is_none() || !has_same_base {
                self.report.unverified.push(self.title(name));
            }
            let mut computed = expected.unwrap_or(stored);
            if computed != stored && went_back {
                self.report.unsettled.push(self.title(name));
                computed = stored;
            }
            let row = LedgerRow {
                tenant: self.tenant.to_string(),
                scope: name.0.clone(),
                unit: name.1,
                allocated: figures.allocated,
                remaining: figures.remaining,
                reserved: stored.reserved,
                spent: stored.spent,
                debt: stored.debt,
                expected_reserved: computed.reserved,
                expected_spent: computed.spent,
                expected_debt: computed.debt,
            };
            let mut details = row.details();
            let used = [stored.spent, stored.reserved, stored.debt].map(i128::from);
            let used: i128 = used.into_iter().sum();
            if i128::from(figures.remaining) != i128::from(figures.allocated) - used {
                let detail = "remaining is not allocated minus spent, reserved and debt";
                details.push(detail.to_owned());
            }
            if !figures.is_indexed {
                let detail = "the index of ledgers over limit or in debt has it wrong";
                details.push(detail.to_owned());
            }
            if !figures.is_turn_indexed {
                let detail = "the index of ledgers that turn has it wrong";
                details.push(detail.to_owned());
            }
            if let (Some(id), false) = (&figures.over_limit_by, figures.is_over_limit) {
                details.push(format!(
                    "`{id}` took it over its limit, but it is not over it"
                ));
            }
            for detail in details {
                self.differs("ledger", &show(name), detail);
            }
            self.report.ledgers.push(row);
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

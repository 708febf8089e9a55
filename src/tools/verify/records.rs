//! Reads a tenant's records: their effect on the ledgers, and whether the due index is right.

use super::collect::{Collector, LedgerName, show};
use super::scan::Scan;
use super::totals::{Amounts, Effect};
use crate::domain::amount::Unit;
use crate::domain::scope::ScopePath;
use crate::store::dispatcher::purge::Records;
use crate::store::tools::verify::{DEPTHS, Row};
use crate::store::{Day, StoreError};

/// The positions of the fields in the reply of `records.lua`.
mod field {
    pub const STATUS: usize = 0;
    pub const TENANT: usize = 1;
    pub const UNIT: usize = 2;
    pub const ESTIMATE: usize = 3;
    pub const SCOPE_PATH: usize = 4;
    pub const BUDGETED: usize = 5;
    pub const CHARGED: usize = 6;
    pub const CREATED_AT: usize = 7;
    pub const FINALIZED_AT: usize = 8;
    pub const EXPIRED_AT: usize = 9;
    pub const EXPIRES_AT: usize = 10;
    pub const GRACE: usize = 11;
    pub const DEBT_1: usize = 12;
}

impl Collector<'_> {
    /// Counts a day's records that were created until `until_ms`, in the order of their creation.
    pub(super) async fn day(
        &mut self,
        records: Records,
        day: Day,
        until_ms: i64,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), StoreError> {
        let (keys, partition, tenant) = (
            self.store.keys(),
            self.tenant.partition(),
            self.tenant.as_str(),
        );
        let (index, prefix) = match records {
            Records::Reservations => (
                keys.reservations(partition, tenant, day),
                keys.reservation(partition, ""),
            ),
            Records::UsageEvents => (
                keys.usage_events(partition, tenant, day),
                keys.usage_event(partition, ""),
            ),
        };
        let mut scan = Scan::until(until_ms);
        while let Some(ids) = scan.next(self.store, &index).await? {
            let read = self.store.read_records(self.tenant, &prefix, &ids).await?;
            progress(ids.len() as u64);
            for row in &read.rows {
                match records {
                    Records::Reservations => {
                        self.report.reservations += 1;
                        self.reservation(row);
                    }
                    Records::UsageEvents => {
                        self.report.usage_events += 1;
                        self.usage_event(row);
                    }
                }
            }
            self.tenant_due(read.first_due_ms, read.tenant_due_ms);
        }
        Ok(())
    }

    fn reservation(&mut self, row: &Row) {
        let Some(status) = row.field(field::STATUS) else {
            // Retention removed a record without any field meanwhile. Another one is no hash, or lacks its status.
            if row
                .fields
                .as_ref()
                .is_none_or(|fields| fields.iter().any(Option::is_some))
                && row.quarantined_ms.is_none()
            {
                self.differs(
                    "reservation",
                    &row.id,
                    "the record cannot be read".to_owned(),
                );
            }
            return;
        };
        let ended_ms = match status {
            "ACTIVE" => None,
            "EXPIRED" => row.field(field::EXPIRED_AT),
            _ => row.field(field::FINALIZED_AT),
        };
        let ended_ms = ended_ms.and_then(integer);
        let is_complete = match status {
            "ACTIVE" => true,
            "COMMITTED" | "RELEASED" | "EXPIRED" => ended_ms.is_some(),
            _ => false,
        };
        let (Some(estimate), Some(begun_ms), true) = (
            row.field(field::ESTIMATE).and_then(integer),
            row.field(field::CREATED_AT).and_then(integer),
            is_complete,
        ) else {
            return self.corrupt(row);
        };
        self.due_of(row, status == "ACTIVE");
        let active = Amounts {
            reserved: estimate,
            ..Amounts::default()
        };
        let charged = if status == "COMMITTED" {
            row.field(field::CHARGED).and_then(integer)
        } else {
            Some(0)
        };
        let Some(charged) = charged else {
            return self.corrupt(row);
        };
        self.count(row, |debt| Effect {
            begun_ms,
            ended_ms,
            active,
            ended: Amounts {
                reserved: 0,
                spent: charged.wrapping_sub(debt),
                debt,
            },
        });
    }

    fn usage_event(&mut self, row: &Row) {
        let gone = row
            .fields
            .as_ref()
            .is_some_and(|fields| fields.iter().all(Option::is_none));
        if gone {
            return;
        }
        let charged = row.field(field::CHARGED).and_then(integer);
        let (Some(charged), Some(begun_ms)) =
            (charged, row.field(field::CREATED_AT).and_then(integer))
        else {
            return self.corrupt(row);
        };
        self.count(row, |debt| Effect {
            begun_ms,
            ended_ms: None,
            active: Amounts {
                reserved: 0,
                spent: charged.wrapping_sub(debt),
                debt,
            },
            ended: Amounts::default(),
        });
    }

    fn corrupt(&mut self, row: &Row) {
        // Records in quarantine are listed separately.
        if row.quarantined_ms.is_none() {
            self.differs("record", &row.id, "the record is corrupt".to_owned());
        }
    }

    /// Counts a record in each ledger that it names. `effect` gets the debt of the record in that ledger.
    fn count(&mut self, row: &Row, effect: impl Fn(i64) -> Effect) {
        let (path, unit) = (row.field(field::SCOPE_PATH), row.field(field::UNIT));
        let parsed = path
            .and_then(ScopePath::parse)
            .zip(unit.and_then(Unit::parse));
        let (Some((path, unit)), Some(depths)) = (parsed, row.field(field::BUDGETED)) else {
            return self.corrupt(row);
        };
        for depth in depths.split_whitespace() {
            let depth = depth
                .parse()
                .ok()
                .filter(|depth| (1..=DEPTHS).contains(depth));
            let scope =
                depth.and_then(|depth: usize| path.with_parents().nth(depth - 1).zip(Some(depth)));
            let Some((scope, depth)) = scope else {
                return self.corrupt(row);
            };
            let debt = row
                .field(field::DEBT_1 + depth - 1)
                .map_or(Some(0), integer);
            let Some(debt) = debt else {
                return self.corrupt(row);
            };
            let (name, effect) = ((scope.to_string(), unit), effect(debt));
            match self.ledgers.get_mut(&name) {
                Some(ledger) => ledger.totals.count(effect, ledger.at_ms),
                None => self.missing(&name, row, effect),
            }
        }
    }

    /// Reports a ledger that a record names but the index lacked, unless the ledger was made later.
    fn missing(&mut self, name: &LedgerName, row: &Row, effect: Effect) {
        let read_ms = self.ledgers.values().map(|ledger| ledger.at_ms).min();
        if read_ms.is_none_or(|read_ms| effect.begun_ms < read_ms)
            && row.field(field::TENANT) == Some(self.tenant.as_str())
        {
            self.differs(
                "ledger",
                &show(name),
                format!("record `{}` names it, but it is not in the index", row.id),
            );
        }
    }

    /// Checks that an active reservation is in the due index at its time, and an ended one is not.
    fn due_of(&mut self, row: &Row, active: bool) {
        let due_ms = row
            .field(field::EXPIRES_AT)
            .and_then(integer)
            .zip(row.field(field::GRACE).and_then(integer));
        let due_ms = due_ms.map(|(expires_ms, grace_ms)| expires_ms.saturating_add(grace_ms));
        match (active, row.due_ms) {
            (true, None) if row.quarantined_ms.is_none() => {
                self.differs(
                    "due",
                    &row.id,
                    "it is active, but not in the due index, so it would never expire".to_owned(),
                );
            }
            (true, Some(indexed_ms)) if due_ms != Some(indexed_ms) => {
                self.differs(
                    "due",
                    &row.id,
                    format!("it is due at {due_ms:?} ms, but indexed at {indexed_ms} ms"),
                );
            }
            (false, Some(_)) => self.differs(
                "due",
                &row.id,
                "it has ended, but is in the due index".to_owned(),
            ),
            _ => {}
        }
    }

    /// Checks that the partition's index has the tenant no later than its first due reservation.
    fn tenant_due(&mut self, first_ms: Option<i64>, tenant_ms: Option<i64>) {
        if let Some(first_ms) = first_ms
            && tenant_ms.is_none_or(|tenant_ms| tenant_ms > first_ms)
        {
            let known = self
                .report
                .differences
                .iter()
                .any(|difference| difference.what == "due index");
            if !known {
                let detail = format!(
                    "its first reservation is due at {first_ms} ms, the partition has {tenant_ms:?}"
                );
                self.differs("due index", self.tenant.as_str(), detail);
            }
        }
    }

    /// Checks that everything in the due index has an active record.
    pub(super) async fn due(&mut self, progress: &mut impl FnMut(u64)) -> Result<(), StoreError> {
        let keys = self.store.keys();
        let index = keys.due(self.tenant.partition(), self.tenant.as_str());
        let prefix = keys.reservation(self.tenant.partition(), "");
        // Later additions are not read.
        let Some(last_ms) = self.store.last_score(&index).await? else {
            return Ok(());
        };
        let mut scan = Scan::until(last_ms);
        while let Some(ids) = scan.next(self.store, &index).await? {
            let read = self.store.read_records(self.tenant, &prefix, &ids).await?;
            progress(ids.len() as u64);
            for row in read.rows.iter().filter(|row| row.due_ms.is_some()) {
                if row.field(field::STATUS) != Some("ACTIVE") {
                    let status = row.field(field::STATUS).unwrap_or("absent");
                    self.differs(
                        "due",
                        &row.id,
                        format!("it is in the due index, but its record is {status}"),
                    );
                }
            }
            self.tenant_due(read.first_due_ms, read.tenant_due_ms);
        }
        Ok(())
    }
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

//! Reads a tenant's records: what each moved in its ledgers, and whether it is due when it should be.

use super::collect::{Collector, LedgerName, show};
use super::sums::{Life, Moved};
use super::walk::Walk;
use crate::domain::amount::Unit;
use crate::domain::scope::ScopePath;
use crate::store::dispatcher::purge::Records;
use crate::store::tools::verify::{DEPTHS, Row};
use crate::store::{Day, StoreError};

/// Where `records.lua` puts the fields.
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
    /// Walks a day's records in the order of their creation, as far as the ledgers can know of them.
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
            Records::Posts => (
                keys.usage_events(partition, tenant, day),
                keys.usage_event(partition, ""),
            ),
        };
        let mut walk = Walk::until(until_ms);
        while let Some(ids) = walk.next(self.store, &index).await? {
            let read = self.store.read_records(self.tenant, &prefix, &ids).await?;
            progress(ids.len() as u64);
            for row in &read.rows {
                match records {
                    Records::Reservations => {
                        self.part.reservations += 1;
                        self.reservation(row);
                    }
                    Records::Posts => {
                        self.part.posts += 1;
                        self.post(row);
                    }
                }
            }
            self.tenant_due(read.first_due_ms, read.tenant_due_ms);
        }
        Ok(())
    }

    fn reservation(&mut self, row: &Row) {
        let Some(status) = row.field(field::STATUS) else {
            // Gone between the index and here: retention. Otherwise no hash, or one without its status.
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
        let sound = match status {
            "ACTIVE" => true,
            "COMMITTED" | "RELEASED" | "EXPIRED" => ended_ms.is_some(),
            _ => false,
        };
        let (Some(estimate), Some(begun_ms), true) = (
            row.field(field::ESTIMATE).and_then(integer),
            row.field(field::CREATED_AT).and_then(integer),
            sound,
        ) else {
            return self.corrupt(row);
        };
        self.due_of(row, status == "ACTIVE");
        let active = Moved {
            reserved: estimate,
            ..Moved::default()
        };
        let charged = if status == "COMMITTED" {
            row.field(field::CHARGED).and_then(integer)
        } else {
            Some(0)
        };
        let Some(charged) = charged else {
            return self.corrupt(row);
        };
        self.share(row, |debt| Life {
            begun_ms,
            ended_ms,
            active,
            ended: Moved {
                reserved: 0,
                spent: charged.wrapping_sub(debt),
                debt,
            },
        });
    }

    fn post(&mut self, row: &Row) {
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
        self.share(row, |debt| Life {
            begun_ms,
            ended_ms: None,
            active: Moved {
                reserved: 0,
                spent: charged.wrapping_sub(debt),
                debt,
            },
            ended: Moved::default(),
        });
    }

    fn corrupt(&mut self, row: &Row) {
        // What is in quarantine is listed there.
        if row.quarantined_ms.is_none() {
            self.differs("record", &row.id, "the record is corrupt".to_owned());
        }
    }

    /// Counts a record in each ledger that it names. `life` is given the ledger's share of debt.
    fn share(&mut self, row: &Row, life: impl Fn(i64) -> Life) {
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
            let (name, life) = ((scope.to_string(), unit), life(debt));
            match self.ledgers.get_mut(&name) {
                Some(ledger) => ledger.sums.count(life, ledger.at_ms),
                None => self.missing(&name, row, life),
            }
        }
    }

    /// A record names a ledger that was not there when the ledgers were read; one that was made later is no difference.
    fn missing(&mut self, name: &LedgerName, row: &Row, life: Life) {
        let read_ms = self.ledgers.values().map(|ledger| ledger.at_ms).min();
        if read_ms.is_none_or(|read_ms| life.begun_ms < read_ms)
            && row.field(field::TENANT) == Some(self.tenant.as_str())
        {
            self.differs(
                "ledger",
                &show(name),
                format!("record `{}` names it, but it is not in the index", row.id),
            );
        }
    }

    /// An active reservation is due at its time; an ended one is not due.
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
                    "it is active, but not among the due ones: nobody would expire it".to_owned(),
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
                "it has ended, but is among the due ones".to_owned(),
            ),
            _ => {}
        }
    }

    /// The partition must look at the tenant no later than when its first reservation is due.
    fn tenant_due(&mut self, first_ms: Option<i64>, tenant_ms: Option<i64>) {
        if let Some(first_ms) = first_ms
            && tenant_ms.is_none_or(|tenant_ms| tenant_ms > first_ms)
        {
            let known = self
                .part
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

    /// Whatever is due has an active record.
    pub(super) async fn due(&mut self, progress: &mut impl FnMut(u64)) -> Result<(), StoreError> {
        let keys = self.store.keys();
        let index = keys.due(self.tenant.partition(), self.tenant.as_str());
        let prefix = keys.reservation(self.tenant.partition(), "");
        // What comes to be due while we look is not walked after.
        let Some(last_ms) = self.store.last_score(&index).await? else {
            return Ok(());
        };
        let mut walk = Walk::until(last_ms);
        while let Some(ids) = walk.next(self.store, &index).await? {
            let read = self.store.read_records(self.tenant, &prefix, &ids).await?;
            progress(ids.len() as u64);
            for row in read.rows.iter().filter(|row| row.due_ms.is_some()) {
                if row.field(field::STATUS) != Some("ACTIVE") {
                    let status = row.field(field::STATUS).unwrap_or("absent");
                    self.differs(
                        "due",
                        &row.id,
                        format!("it is among the due ones, but its record is {status}"),
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

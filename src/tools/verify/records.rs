//! Reads a tenant's records: their effect on the ledgers, and whether the due index is right.

use std::collections::HashSet;

use super::collect::{Collector, show};
use super::totals::Effect;
use crate::domain::amount::Unit;
use crate::domain::record::Record;
use crate::domain::reservation::GRACE_PERIOD_MS_DEFAULT;
use crate::domain::scope::ScopePath;
use crate::store::dispatcher::retention::Records;
use crate::store::tools::verify::{Amounts, DEPTHS, READ_ROWS, StoredRecord};
use crate::store::{Day, StoreError};

impl Collector<'_> {
    /// Counts a day's records that were created until `until_ms`, in the order of their creation.
    pub(super) async fn day(
        &mut self,
        records: Records,
        day: Day,
        until_ms: i64,
    ) -> Result<(), StoreError> {
        let (keys, partition) = (self.store.keys(), self.tenant.partition());
        let tenant = self.tenant.as_str();
        let (index, prefix, check): (_, _, fn(&mut Self, &StoredRecord)) = match records {
            Records::Reservations => (
                keys.reservations(partition, tenant, day),
                keys.reservation(partition, ""),
                Self::reservation,
            ),
            Records::UsageEvents => (
                keys.usage_events(partition, tenant, day),
                keys.usage_event(partition, ""),
                Self::usage_event,
            ),
        };
        let Some(last_ms) = self.store.last_score(&index).await? else {
            return Ok(());
        };
        self.latest_ms = self.latest_ms.max(last_ms);
        self.check_each(&index, &prefix, until_ms, check).await
    }

    /// Checks that everything in the due index has an active record.
    pub(super) async fn due(&mut self) -> Result<(), StoreError> {
        let (keys, partition) = (self.store.keys(), self.tenant.partition());
        let index = keys.due(partition, self.tenant.as_str());
        let prefix = keys.reservation(partition, "");
        // Later additions are not read.
        let Some(last_ms) = self.store.last_score(&index).await? else {
            return Ok(());
        };
        let check = Self::indexed_as_due;
        self.check_each(&index, &prefix, last_ms, check).await
    }

    /// Reads the records of an index up to a score, page by page, and calls `check` with each.
    async fn check_each(
        &mut self,
        index: &str,
        prefix: &str,
        until: i64,
        check: fn(&mut Self, &StoredRecord),
    ) -> Result<(), StoreError> {
        let mut from = i64::MIN;
        // The members already read of the score `from`. Rows that leave the index meanwhile do not make it skip others.
        let mut seen = HashSet::new();
        loop {
            let (store, rows) = (self.store, READ_ROWS + seen.len());
            let mut page = store.scores_between(index, from, until, rows).await?;
            page.retain(|(id, score)| *score != from || !seen.contains(id));
            page.truncate(READ_ROWS);
            let Some((_, last)) = page.last() else {
                return Ok(());
            };
            if *last != from {
                seen.clear();
                from = *last;
            }
            let at_last = page.iter().filter(|(_, score)| *score == from);
            seen.extend(at_last.map(|(id, _)| id.clone()));
            let ids: Vec<_> = page.into_iter().map(|(id, _)| id).collect();
            let read = store.read_records(self.tenant, prefix, &ids).await?;
            (self.progress)(ids.len() as u64);
            read.rows.iter().for_each(|row| check(self, row));
            self.tenant_due(read.first_due_ms, read.tenant_due_ms);
        }
    }

    fn reservation(&mut self, row: &StoredRecord) {
        self.report.reservations += 1;
        let Some(status) = row.field("status") else {
            // Retention may delete the record meanwhile. Any other record is no hash, or lacks its status.
            if !is_deleted(row) && row.quarantined_ms.is_none() {
                self.differs("reservation", &row.id, "the record cannot be read");
            }
            return;
        };
        let ended_ms = match status {
            "ACTIVE" => Some(None),
            "EXPIRED" => number(row, "expired_at_ms").map(Some),
            "COMMITTED" | "RELEASED" => number(row, "finalized_at_ms").map(Some),
            _ => None,
        };
        let created_ms = number(row, "created_at_ms");
        let (Some(reserved), Some(created_ms), Some(ended_ms)) =
            (number(row, "estimate"), created_ms, ended_ms)
        else {
            return self.corrupt(row);
        };
        self.due_time(row, status == "ACTIVE");
        self.other_grace(row, status == "ACTIVE");
        let charged = match status {
            "COMMITTED" => number(row, "charged"),
            _ => Some(0),
        };
        let Some(charged) = charged else {
            return self.corrupt(row);
        };
        let charged_at = ended_ms.filter(|_| status == "COMMITTED");
        self.usage
            .record(row, charged_at.map(|at_ms| (at_ms, charged)));
        let active = Amounts {
            reserved,
            ..Amounts::default()
        };
        self.count(row, |debt| Effect {
            created_ms,
            ended_ms,
            active,
            ended: Amounts::charged(charged, debt),
        });
    }

    fn usage_event(&mut self, row: &StoredRecord) {
        self.report.usage_events += 1;
        if is_deleted(row) {
            return;
        }
        let charged = number(row, "charged");
        let Some((charged, created_ms)) = charged.zip(number(row, "created_at_ms")) else {
            return self.corrupt(row);
        };
        self.usage.record(row, Some((created_ms, charged)));
        self.count(row, |debt| Effect {
            created_ms,
            ended_ms: None,
            active: Amounts::charged(charged, debt),
            ended: Amounts::default(),
        });
    }

    fn corrupt(&mut self, row: &StoredRecord) {
        // Records in quarantine are listed separately.
        if row.quarantined_ms.is_none() {
            self.differs("record", &row.id, "the record is corrupt");
        }
    }

    /// Counts a record in each ledger that it names. `effect` gets the debt of the record in that ledger.
    fn count(&mut self, row: &StoredRecord, effect: impl Fn(i64) -> Effect) {
        let path = row.field("scope_path").and_then(ScopePath::parse);
        let unit = row.field("unit").and_then(Unit::parse);
        let (Some(path), Some(unit), Some(depths)) = (path, unit, row.field("budgeted")) else {
            return self.corrupt(row);
        };
        for depth in depths.split_whitespace() {
            let ledger = || {
                let depth = depth.parse().ok().filter(|depth| *depth <= DEPTHS)?;
                let scope = path.with_parents().nth(usize::checked_sub(depth, 1)?)?;
                let debt = match row.field(&format!("debt.{depth}")) {
                    Some(debt) => debt.parse().ok()?,
                    None => 0,
                };
                Some(((scope.to_string(), unit), debt))
            };
            let Some((name, debt)) = ledger() else {
                return self.corrupt(row);
            };
            let Some(refunds) = refunds(row.field("refunds"), depth) else {
                return self.corrupt(row);
            };
            for refund in refunds {
                self.latest_ms = self.latest_ms.max(refund.created_ms);
                if let Some(ledger) = self.ledgers.get_mut(&name) {
                    ledger.totals.count(refund, ledger.at_ms);
                }
            }
            let effect = effect(debt);
            let latest_ms = effect.ended_ms.unwrap_or(effect.created_ms);
            self.latest_ms = self.latest_ms.max(latest_ms);
            if let Some(ledger) = self.ledgers.get_mut(&name) {
                ledger.totals.count(effect, ledger.at_ms);
                continue;
            }
            // A ledger that was made after the index was read may have records already.
            let read_ms = self.ledgers.values().map(|ledger| ledger.at_ms).min();
            let is_later = read_ms.is_some_and(|read_ms| effect.created_ms >= read_ms);
            if !is_later && row.field("tenant") == Some(self.tenant.as_str()) {
                let detail = format!("record `{}` names it, but it is not in the index", row.id);
                self.differs("ledger", &show(&name), detail);
            }
        }
    }

    /// Checks that an active reservation is in the due index at its time, and an ended one is not.
    fn due_time(&mut self, row: &StoredRecord, is_active: bool) {
        let expires_ms = number(row, "expires_at_ms");
        let due_ms = expires_ms.zip(number(row, "grace_ms"));
        let due_ms = due_ms.map(|(expires_ms, grace_ms)| expires_ms.saturating_add(grace_ms));
        let detail = match row.due_ms {
            None if is_active && row.quarantined_ms.is_none() => {
                "it is active, but not in the due index, so it would never expire".to_owned()
            }
            Some(indexed_ms) if is_active && due_ms != Some(indexed_ms) => {
                format!("it is due at {due_ms:?} ms, but indexed at {indexed_ms} ms")
            }
            Some(_) if !is_active => "it has ended, but is in the due index".to_owned(),
            _ => return,
        };
        self.differs("due", &row.id, detail);
    }

    /// Checks that the index of other graces has an active reservation of such a grace at its expiry, and no other.
    fn other_grace(&mut self, row: &StoredRecord, is_active: bool) {
        let has_other = number(row, "grace_ms") != Some(GRACE_PERIOD_MS_DEFAULT);
        let expected_ms = number(row, "expires_at_ms").filter(|_| is_active && has_other);
        if row.quarantined_ms.is_none() && row.other_grace_ms != expected_ms {
            let indexed_ms = row.other_grace_ms;
            let detail = format!(
                "the index of other graces has it at {indexed_ms:?} ms, not {expected_ms:?} ms"
            );
            self.differs("due", &row.id, detail);
        }
    }

    /// Checks that a reservation in the due index is active.
    fn indexed_as_due(&mut self, row: &StoredRecord) {
        let status = row.field("status").unwrap_or("absent");
        if row.due_ms.is_some() && status != "ACTIVE" {
            let detail = format!("it is in the due index, but its record is {status}");
            self.differs("due", &row.id, detail);
        }
    }

    /// Checks that the partition's index has the tenant no later than its first due reservation.
    fn tenant_due(&mut self, first_ms: Option<i64>, tenant_ms: Option<i64>) {
        let Some(first_ms) = first_ms else { return };
        let is_late = tenant_ms.is_none_or(|tenant_ms| tenant_ms > first_ms);
        let mut known = self.report.differences.iter();
        if is_late && !known.any(|difference| difference.what == "due index") {
            let detail = format!(
                "its first reservation is due at {first_ms} ms, the partition has {tenant_ms:?}"
            );
            self.differs("due index", self.tenant.as_str(), detail);
        }
    }
}

/// Whether the record was deleted after its index was read.
fn is_deleted(row: &StoredRecord) -> bool {
    row.fields.as_ref().is_some_and(Record::is_empty)
}

/// What the refunds of a record gave back to the ledger at a depth: a line each, of time, amount and depth:spent:debt. `None` if they
/// cannot be read.
fn refunds(text: Option<&str>, depth: &str) -> Option<Vec<Effect>> {
    let refund = |line: &str| {
        let mut words = line.split(' ');
        let created_ms: i64 = words.next()?.parse().ok()?;
        words.next()?;
        let given = words.find_map(|word| word.strip_prefix(depth)?.strip_prefix(':'));
        let (spent, debt) = given.unwrap_or("0:0").split_once(':')?;
        let (spent, debt): (i64, i64) = (spent.parse().ok()?, debt.parse().ok()?);
        Some(Effect {
            created_ms,
            ended_ms: None,
            active: Amounts {
                reserved: 0,
                spent: -spent,
                debt: -debt,
            },
            ended: Amounts::default(),
        })
    };
    text.unwrap_or_default().lines().map(refund).collect()
}

fn number(row: &StoredRecord, field: &str) -> Option<i64> {
    row.field(field)?.parse().ok()
}

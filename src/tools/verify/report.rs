//! The report of `ledger verify`, for people and as JSON.

use serde::Serialize;

use super::inventory::Inventory;
use crate::domain::amount::Unit;
use crate::domain::ids::TenantId;
use crate::store::tools::verify::READ_ROWS;
use crate::store::{Lane, Store, StoreError};
use crate::tools::table::Table;

/// The columns of the table.
const HEADINGS: &str = "TENANT SCOPE UNIT ALLOCATED SPENT RESERVED DEBT REMAINING";

/// The report of `ledger verify`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Tenants verified.
    pub tenants: u64,
    /// Reservations counted.
    pub reservations: u64,
    /// Usage events counted.
    pub usage_events: u64,
    /// Every ledger, stored and recomputed.
    pub ledgers: Vec<LedgerRow>,
    /// What is wrong.
    pub differences: Vec<Difference>,
    /// Ledgers and counts that changed too often to be verified.
    pub unverified: Vec<String>,
    /// Ledgers with records from before Redis's clock went back, which cannot be verified before it has been there again.
    pub unsettled: Vec<String>,
    /// Reservations that the sweeper could not expire.
    pub quarantine: Vec<Quarantined>,
    /// Records read, repetitions included.
    #[serde(skip)]
    pub rows_read: u64,
}

/// A ledger as stored, and as recomputed from its records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LedgerRow {
    /// Id of the tenant.
    pub tenant: String,
    /// Full path of the scope.
    pub scope: String,
    /// Unit of all figures.
    pub unit: Unit,
    /// The stored allocation.
    pub allocated: i64,
    /// The stored remaining amount.
    pub remaining: i64,
    /// The stored reserved amount.
    pub reserved: i64,
    /// The stored spent amount.
    pub spent: i64,
    /// The stored debt.
    pub debt: i64,
    /// The recomputed reserved amount.
    pub expected_reserved: i64,
    /// The recomputed spent amount.
    pub expected_spent: i64,
    /// The recomputed debt.
    pub expected_debt: i64,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Id of the tenant; `*` for a partition.
    pub tenant: String,
    /// The kind of thing: `ledger`, `reservation`, `record`, `due`, `due index`, `day`, `counts`.
    pub what: String,
    /// Its id.
    pub id: String,
    /// What is wrong with it.
    pub detail: String,
}

/// A reservation in quarantine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quarantined {
    /// Name of the partition.
    pub partition: String,
    /// Id of the tenant, if the record holds it.
    pub tenant: Option<String>,
    /// Id of the reservation.
    pub reservation_id: String,
    /// When the sweeper found it corrupt, in milliseconds.
    pub since_ms: i64,
}

impl LedgerRow {
    /// A sentence for each figure that differs.
    pub(super) fn details(&self) -> Vec<String> {
        let figures = [
            ("reserved", self.reserved, self.expected_reserved),
            ("spent", self.spent, self.expected_spent),
            ("debt", self.debt, self.expected_debt),
        ];
        let differing = figures
            .into_iter()
            .filter(|(_, stored, expected)| stored != expected);
        let sentence =
            |(name, stored, expected)| format!("{name} is {stored}, its records give {expected}");
        differing.map(sentence).collect()
    }
}

impl Report {
    /// Whether nothing is wrong and everything was verified.
    pub fn is_right(&self) -> bool {
        self.differences.is_empty() && self.unverified.is_empty() && self.unsettled.is_empty()
    }

    /// Adds the report of one tenant.
    pub(super) fn add(&mut self, part: &mut Self) {
        self.tenants += part.tenants;
        self.reservations += part.reservations;
        self.usage_events += part.usage_events;
        self.ledgers.append(&mut part.ledgers);
        self.differences.append(&mut part.differences);
        self.unverified.append(&mut part.unverified);
        self.unsettled.append(&mut part.unsettled);
    }

    /// Lists the quarantine of one tenant or of all.
    pub(super) async fn quarantine(
        &mut self,
        store: &Store,
        tenant: Option<&TenantId>,
        inventory: &Inventory,
    ) -> Result<(), StoreError> {
        for partition in &inventory.quarantines {
            let index = store.keys().quarantine(*partition);
            let rows = store.scores_between(&index, 0, i64::MAX, 10 * READ_ROWS);
            for (reservation_id, since_ms) in rows.await? {
                let key = store.keys().reservation(*partition, &reservation_id);
                let mut command = redis::cmd("HGET");
                command.arg(&key).arg("tenant");
                let owner = match store.send(Lane::Background, (&key, &command)).await {
                    Ok(reply) => redis::from_redis_value(reply).unwrap_or(None::<String>),
                    // A key of another type has no owner.
                    Err(StoreError::ErrorReply { .. }) => None,
                    Err(error) => return Err(error),
                };
                let other = tenant
                    .zip(owner.as_deref())
                    .is_some_and(|(tenant, owner)| tenant.as_str() != owner);
                if !other {
                    self.quarantine.push(Quarantined {
                        partition: partition.to_string(),
                        tenant: owner,
                        reservation_id,
                        since_ms,
                    });
                }
            }
        }
        Ok(())
    }

    /// A table of the ledgers that differ, or of all; then the other findings.
    pub fn table(&self, all: bool) -> String {
        let rows = self.ledgers.iter();
        let mut rows = rows
            .filter(|row| all || !row.details().is_empty())
            .peekable();
        let mut text = String::new();
        if rows.peek().is_some() {
            let figure = |stored: i64, expected: i64| match stored == expected {
                true => stored.to_string(),
                false => format!("{stored} (records: {expected})"),
            };
            let mut table = Table::new(3, HEADINGS.split(' '));
            for row in rows {
                table.row([
                    row.tenant.clone(),
                    row.scope.clone(),
                    row.unit.to_string(),
                    row.allocated.to_string(),
                    figure(row.spent, row.expected_spent),
                    figure(row.reserved, row.expected_reserved),
                    figure(row.debt, row.expected_debt),
                    row.remaining.to_string(),
                ]);
            }
            text = format!("{table}\n");
        }
        for found in &self.differences {
            let (what, id) = (&found.what, &found.id);
            text += &format!("{}: {what} `{id}`: {}\n", found.tenant, found.detail);
        }
        for ledger in &self.unverified {
            text += &format!("{ledger}: it changed too often to be verified; try again\n");
        }
        for ledger in &self.unsettled {
            text += &format!(
                "{ledger}: unsettled, the clock went back; try again once it has reached the times of the records\n"
            );
        }
        for row in &self.quarantine {
            let owner = row.tenant.as_deref().unwrap_or("an unknown tenant");
            text += &format!(
                "quarantine: reservation `{}` of {owner}, since {} ms\n",
                row.reservation_id, row.since_ms
            );
        }
        text + &format!(
            "{} tenants, {} ledgers, {} reservations, {} usage events: {}\n",
            self.tenants,
            self.ledgers.len(),
            self.reservations,
            self.usage_events,
            match (
                self.differences.len(),
                self.unverified.len() + self.unsettled.len()
            ) {
                (0, 0) => "all is right".to_owned(),
                (count, 0) => format!("{count} differences"),
                (count, open) => format!("{count} differences, {open} ledgers not verified"),
            }
        )
    }
}

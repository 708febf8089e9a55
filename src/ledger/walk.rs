//! Walking a tenant's reservations along the indexes of days, or along the due times of the active ones.

use super::list::{ReservationQuery, ReservationRow};
use super::{Ledger, LedgerError, done, facts};
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::reservation::{Record, RecordError, ReservationSort, Status};
use crate::domain::scope::ScopePath;
use crate::store::read::{Index, Walk};
use crate::store::{Day, ExtraTrip};
use tracing::error;

/// Rows that one script call looks at: the longest page, and one more to know whether another follows.
pub(super) const STEP_ROWS: usize = 201;
/// Days that one script call looks into.
const STEP_DAYS: usize = 96;
/// How much longer than retention a reservation can be kept: its own life, extensions included.
const LIFE_DAYS: i64 = 42;
/// The longest grace, in milliseconds: how far a due time may lie behind the expiry.
const GRACE_MS_MAX: i64 = 60_000;

/// One reservation on the way.
pub(super) struct Step {
    /// The reservation.
    pub row: ReservationRow,
    /// Whether the caller's key may see it.
    pub visible: bool,
}

/// A walk that remembers where it is.
pub(super) struct Walker {
    tenant: TenantId,
    indexes: Vec<Index>,
    scores: (i64, i64),
    descending: bool,
    after_id: Option<String>,
    /// Rows of the next step.
    rows: usize,
    begun: bool,
    complete: bool,
}

impl Walker {
    /// In the order of creation, from the position of the query on.
    pub fn by_creation(ledger: &Ledger, query: &ReservationQuery) -> Self {
        let now_ms = ledger.store.clock().now_ms();
        let oldest = Day::of_ms(now_ms)
            .plus(-(ledger.retention_days + LIFE_DAYS))
            .start_ms();
        // The estimate of the store's clock may lag: look a day further.
        let newest = Day::of_ms(now_ms).plus(2).start_ms() - 1;
        // Nothing is older than what retention keeps, so an earlier bound only costs empty days.
        let (mut low, mut high) = (
            query.created.from_ms.unwrap_or(oldest).max(oldest),
            query.created.to_ms.unwrap_or(newest).min(newest),
        );
        let mut after_id = None;
        if let Some(after) = &query.after
            && query.sort == ReservationSort::CreatedAtMs
            && let Ok(score) = after.value.parse::<i64>()
        {
            after_id = Some(after.reservation_id.clone());
            if query.descending {
                high = high.min(score);
            } else {
                low = low.max(score);
            }
        }
        let mut indexes = Vec::new();
        let mut day = Day::of_ms(low);
        while low <= high && day <= Day::of_ms(high) {
            indexes.push(Index::Created(day));
            day = day.plus(1);
        }
        if query.descending {
            indexes.reverse();
        }
        Self {
            tenant: query.tenant.clone(),
            complete: indexes.is_empty(),
            indexes,
            scores: (low, high),
            descending: query.descending,
            after_id,
            // How many rows match a filter is not known before.
            rows: match query.is_filtered() {
                true => STEP_ROWS,
                false => STEP_ROWS.min(query.limit + 1),
            },
            begun: false,
        }
    }

    /// In whatever order visits the fewest rows.
    pub fn for_gathering(ledger: &Ledger, query: &ReservationQuery) -> Self {
        if query.status != Some(Status::Active) {
            return Self {
                rows: STEP_ROWS,
                ..Self::by_creation(ledger, query)
            };
        }
        let low = query.expires.from_ms.unwrap_or(0);
        let high = query.expires.to_ms.unwrap_or(i64::MAX >> 11);
        Self {
            tenant: query.tenant.clone(),
            indexes: vec![Index::Due],
            scores: (low, high.saturating_add(GRACE_MS_MAX)),
            descending: false,
            after_id: None,
            rows: STEP_ROWS,
            begun: false,
            complete: false,
        }
    }

    /// The next rows; `None` at the end.
    pub async fn step(
        &mut self,
        ledger: &Ledger,
        caller: &Caller,
    ) -> Result<Option<Vec<Step>>, LedgerError> {
        if self.complete {
            return Ok(None);
        }
        if std::mem::replace(&mut self.begun, true) {
            ledger.store.metrics().extra_trip(ExtraTrip::Paging);
        }
        let days = &self.indexes[..self.indexes.len().min(STEP_DAYS)];
        let walk = Walk {
            tenant: &self.tenant,
            indexes: days,
            descending: self.descending,
            rows: std::mem::replace(&mut self.rows, STEP_ROWS),
            scores: self.scores,
            after_id: self.after_id.as_deref(),
        };
        let found = done(ledger.store.list_reservations(caller, &walk).await?)?;
        let walked = days.len();
        match found.rows.last() {
            Some(last) if !found.complete => {
                self.indexes.drain(..last.index.min(walked - 1));
                self.after_id = Some(last.reservation_id.clone());
                if self.descending {
                    self.scores.1 = last.score;
                } else {
                    self.scores.0 = last.score;
                }
            }
            _ => {
                self.indexes.drain(..walked);
                self.after_id = None;
                self.complete = self.indexes.is_empty();
            }
        }
        let mut steps = Vec::with_capacity(found.rows.len());
        for row in found.rows.into_iter().filter(|row| !row.record.is_empty()) {
            let id = row.reservation_id;
            match readable(&row.record, found.now_ms) {
                Ok((status, scope)) => steps.push(Step {
                    visible: found.scope_filter.admits(&scope),
                    row: ReservationRow {
                        reservation_id: id,
                        status,
                        record: row.record,
                    },
                }),
                // One damaged record must not take a tenant's whole list away.
                Err(damage) => error!(
                    reservation.id = id, error = %damage,
                    "reservation `{id}` is left out of lists: {damage}"
                ),
            }
        }
        Ok(Some(steps))
    }
}

/// Whether a list can show the record; its status and scope.
fn readable(record: &Record, now_ms: i64) -> Result<(Status, ScopePath), RecordError> {
    let status = record.effective_status(now_ms)?;
    record.unit()?;
    record.text("idempotency_key")?;
    facts::subject_of(record)?;
    facts::action_of(record)?;
    for name in ["estimate", "created_at_ms", "expires_at_ms"] {
        record.integer(name)?;
    }
    if status == Status::Committed {
        record.integer("charged")?;
    }
    Ok((status, record.scope_path()?))
}

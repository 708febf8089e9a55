//! Walking a tenant's reservations along the indexes of days, or along the due times of the active ones.

use super::list::{ReservationQuery, ReservationRow};
use super::{Ledger, LedgerError, done, facts};
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::record::{Record, RecordError};
use crate::domain::reservation::{ReservationSort, Status};
use crate::domain::scope::ScopePath;
use crate::store::runtime::read::{Index, Walk};
use crate::store::{Day, ExtraTrip};
use tracing::error;

/// Rows that one script call looks at: the longest page, and one more to know whether another follows.
pub(super) const STEP_ROWS: usize = 201;
/// Days that one script call looks into.
const STEP_DAYS: usize = 96;
/// How much longer than retention a reservation is usually kept: its own life, extensions included. Where one lives longer,
/// `extend.lua` keeps that with its tenant.
const LIFE_DAYS: i64 = 42;
const DAY_MS: i64 = 86_400_000;
/// The longest grace, in milliseconds: how far a due time may lie behind the expiry.
pub(super) const GRACE_MS_MAX: i64 = 60_000;

/// What a row of a list is told from, metadata aside.
pub(super) const ROW_FIELDS: [&str; 14] = [
    "status",
    "unit",
    "estimate",
    "charged",
    "scope_path",
    "subject",
    "action_kind",
    "action_name",
    "action_tags",
    "idempotency_key",
    "created_at_ms",
    "expires_at_ms",
    "grace_ms",
    "finalized_at_ms",
];

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
    back: Option<LookBack>,
}

/// How far a walk along the days looks back, until it is known how long the tenant's reservations live.
struct LookBack {
    /// Where the walk begins or ends by what it knows so far.
    low: i64,
    /// What ended before this time is gone.
    kept_from: Day,
    /// The bound of the query.
    from_ms: Option<i64>,
}

impl LookBack {
    fn low(&self, life_days: i64) -> i64 {
        // Nothing is older than what retention keeps, so an earlier bound only costs empty days.
        let oldest = self.kept_from.plus(-life_days).start_ms();
        self.from_ms.unwrap_or(oldest).max(oldest)
    }
}

impl Walker {
    /// In the order of creation, from the position of the query on.
    pub fn by_creation(ledger: &Ledger, query: &ReservationQuery) -> Self {
        let today = Day::of_ms(ledger.store.clock().now_ms());
        let mut back = LookBack {
            low: 0,
            kept_from: today.plus(-ledger.retention_days),
            from_ms: query.created.from_ms,
        };
        back.low = back.low(LIFE_DAYS);
        // The estimate of the store's clock may lag: look a day further.
        let newest = today.plus(2).start_ms() - 1;
        let (mut low, mut high) = (back.low, query.created.to_ms.unwrap_or(newest).min(newest));
        let (mut after_id, mut back) = (None, Some(back));
        if let Some(after) = &query.after
            && query.sort == ReservationSort::CreatedAtMs
            && let Ok(score) = after.value.parse::<i64>()
        {
            after_id = Some(after.reservation_id.clone());
            if query.descending {
                high = high.min(score);
            } else {
                low = score;
                back = None;
            }
        }
        let mut indexes = days(low, high);
        if query.descending {
            indexes.reverse();
        }
        Self {
            tenant: query.tenant.clone(),
            complete: false,
            indexes,
            scores: (low, high),
            descending: query.descending,
            after_id,
            back,
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
        let (low, high) = (query.expires.from_ms, query.expires.to_ms);
        Self::by_due_time(query, low.unwrap_or(0), high.unwrap_or(i64::MAX >> 11))
    }

    /// Along the due times of the active reservations that expire between two times, in the direction of the query.
    pub fn by_due_time(query: &ReservationQuery, low: i64, high: i64) -> Self {
        Self {
            tenant: query.tenant.clone(),
            indexes: vec![Index::Due],
            scores: (low, high.saturating_add(GRACE_MS_MAX)),
            descending: query.descending,
            after_id: None,
            rows: STEP_ROWS,
            begun: false,
            complete: false,
            back: None,
        }
    }

    /// The score up to which every row was seen, save others of that very score; `None` when all were.
    pub fn reached(&self) -> Option<i64> {
        let (low, high) = self.scores;
        let score = if self.descending { high } else { low };
        (!self.complete).then_some(score)
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
        let rows = std::mem::replace(&mut self.rows, STEP_ROWS);
        let (found, walked) = loop {
            if std::mem::replace(&mut self.begun, true) {
                ledger.store.metrics().extra_trip(ExtraTrip::Paging);
            }
            let days = &self.indexes[..self.indexes.len().min(STEP_DAYS)];
            let walk = Walk {
                tenant: &self.tenant,
                indexes: days,
                descending: self.descending,
                rows,
                scores: self.scores,
                after_id: self.after_id.as_deref(),
                fields: &ROW_FIELDS,
            };
            let found = done(ledger.store.list_reservations(caller, &walk).await?)?;
            let walked = days.len();
            if !self.look_further_back(found.longest_life_ms) {
                break (found, walked);
            }
        };
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
                if walked > 0 {
                    self.after_id = None;
                }
                self.complete = self.indexes.is_empty();
            }
        }
        let mut steps = Vec::with_capacity(found.rows.len());
        for row in found.rows {
            let id = row.reservation_id;
            let Some((status, scope, record)) = sound(&id, row.record, found.now_ms) else {
                continue;
            };
            steps.push(Step {
                visible: found.scope_filter.admits(&scope),
                row: ReservationRow {
                    reservation_id: id,
                    status,
                    record,
                },
            });
        }
        Ok(Some(steps))
    }

    /// Adds the days that hold reservations of a longer life than usual. Whether the walk must begin anew, because these
    /// days come first.
    fn look_further_back(&mut self, longest_life_ms: Option<i64>) -> bool {
        let (Some(back), Some(life_ms)) = (self.back.take(), longest_life_ms) else {
            return false;
        };
        let low = back.low(LIFE_DAYS.max(life_ms / DAY_MS + 2));
        if low >= back.low || self.scores.1 < low {
            return false;
        }
        let mut older = days(low, self.scores.1.min(back.low - 1));
        self.scores.0 = low;
        if self.descending {
            older.reverse();
            self.indexes.extend(older);
        } else {
            older.append(&mut self.indexes);
            self.indexes = older;
        }
        !self.descending
    }
}

/// The days between two times, both included.
fn days(low: i64, high: i64) -> Vec<Index> {
    let mut indexes = Vec::new();
    let mut day = Day::of_ms(low);
    while low <= high && day <= Day::of_ms(high) {
        indexes.push(Index::Created(day));
        day = day.plus(1);
    }
    indexes
}

/// A record that a list can show, with its status and scope; `None` where it is gone or damaged.
pub(super) fn sound(
    id: &str,
    record: Option<Record>,
    now_ms: i64,
) -> Option<(Status, ScopePath, Record)> {
    let damage = match record {
        Some(record) if record.is_empty() => return None,
        Some(record) => match readable(&record, now_ms) {
            Ok((status, scope)) => return Some((status, scope, record)),
            Err(damage) => damage.to_string(),
        },
        None => "its key holds no hash".to_owned(),
    };
    // One damaged record must not take a tenant's whole list away.
    error!(
        reservation.id = id,
        error = damage,
        "reservation `{id}` is left out of lists: {damage}"
    );
    None
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

//! Listing a tenant's reservations: along an index where there is one, else gathered and sorted within a bound.

use std::cmp::Ordering;

use super::walk::{ROW_FIELDS, Step, Walker, sound};
use super::{Ledger, LedgerError, done};
use crate::domain::caller::Caller;
use crate::domain::ids::{IdempotencyKey, ReservationId, TenantId};
use crate::domain::moment::Window;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::Refusal;
use crate::domain::reservation::{ReservationSort, Status};
use crate::domain::scope::{Level, SegmentFilter};
use crate::listing::SortKey;
use crate::store::ExtraTrip;

impl SortKey for ReservationSort {
    const DEFAULT: Self = Self::CreatedAtMs;
    const TIES_ASCEND: bool = true;
}

/// Where a page ended: the sort value and id of its last row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The sort value; integers in decimal.
    pub value: String,
    /// The id.
    pub reservation_id: String,
}

/// Reservations that are asked for.
#[derive(Debug)]
pub struct ReservationQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Segments that the scope must have.
    pub segments: SegmentFilter,
    /// The create key.
    pub idempotency_key: Option<IdempotencyKey>,
    /// The effective status.
    pub status: Option<Status>,
    /// Bounds on creation.
    pub created: Window,
    /// Bounds on expiry.
    pub expires: Window,
    /// Bounds on the end by commit or release; rows without one are left out once a side is bound.
    pub finalized: Window,
    /// What rows are sorted by.
    pub sort: ReservationSort,
    /// Largest first; ties are always by ascending id.
    pub descending: bool,
    /// Rows at most.
    pub limit: usize,
    /// Where the last page ended.
    pub after: Option<Position>,
    /// Fields of the record that rows have besides the usual: `metadata`, `committed_metadata`.
    pub further_fields: Vec<&'static str>,
}

impl ReservationQuery {
    /// Whether a row that lies between the bounds on creation may still be left out.
    pub(super) fn is_filtered(&self) -> bool {
        let times_open = self.expires.is_open() && self.finalized.is_open();
        self.status.is_some() || self.segments.is_within_tenant() || !times_open
    }
}

/// One row.
#[derive(Debug)]
pub struct ReservationRow {
    /// Which reservation.
    pub reservation_id: String,
    /// The status on the store's clock.
    pub status: Status,
    /// The stored fields that a row shows.
    pub record: Record,
}

/// A page of rows.
#[derive(Debug, Default)]
pub struct ReservationPage {
    /// The rows, in order.
    pub rows: Vec<ReservationRow>,
    /// Where the next page starts, when there is one.
    pub next: Option<Position>,
}

/// Why a list cannot be given.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// More rows match, or would have to be looked at, than a sort without an index may gather.
    #[error("more than {bound} reservations {what}: narrow the list with from and to")]
    TooMany {
        /// The bound.
        bound: usize,
        /// `match` or `must be looked at`.
        what: &'static str,
    },
    /// As for every other operation.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Rows of the indexed order that one page looks at; with a sparse filter it may be short, and its cursor goes on.
pub(super) const PAGE_ROWS_MAX: usize = 5_000;
/// Bytes of the records of one page, where they hold data of the client's own.
const PAGE_BYTES_MAX: i64 = 4 << 20;

impl Ledger {
    /// A page of a tenant's reservations.
    ///
    /// # Errors
    /// [`ListError`].
    pub async fn list(
        &self,
        caller: &Caller,
        query: &ReservationQuery,
    ) -> Result<ReservationPage, ListError> {
        if let Some(key) = &query.idempotency_key {
            return Ok(self.list_one(caller, query, key).await?);
        }
        if query.sort == ReservationSort::CreatedAtMs {
            return Ok(self.list_indexed(caller, query).await?);
        }
        if query.sort == ReservationSort::ExpiresAtMs && query.status == Some(Status::Active) {
            return self.list_by_expiry(caller, query).await;
        }
        self.list_gathered(caller, query).await
    }

    /// The one reservation that a create key can have made: its id is derived from the key.
    async fn list_one(
        &self,
        caller: &Caller,
        query: &ReservationQuery,
        key: &IdempotencyKey,
    ) -> Result<ReservationPage, LedgerError> {
        let id = ReservationId::derive(self.store.secret().await?, &query.tenant, key);
        let answer = self
            .store
            .get_reservation(
                caller.into(),
                query.tenant.partition(),
                &id,
                &query.fields(),
            )
            .await?;
        let found = match done(answer) {
            Ok(found) => found,
            Err(LedgerError::Refused(Refusal::NotFound | Refusal::ScopeForbidden)) => {
                return Ok(ReservationPage::default());
            }
            Err(error) => return Err(error),
        };
        let row = ReservationRow {
            reservation_id: id.as_str().to_owned(),
            status: found.record.effective_status(found.now_ms)?,
            record: found.record,
        };
        let position = position_of(&row, query.sort)?;
        let unseen = query
            .after
            .as_ref()
            .is_none_or(|after| order(&position, after, query) == Ordering::Greater);
        let rows = if unseen && matches(&row, query)? {
            vec![row]
        } else {
            Vec::new()
        };
        Ok(ReservationPage { rows, next: None })
    }

    async fn list_indexed(
        &self,
        caller: &Caller,
        query: &ReservationQuery,
    ) -> Result<ReservationPage, LedgerError> {
        let mut walker = Walker::by_creation(self, query);
        let (mut page, mut last, mut examined) = (Vec::new(), query.after.clone(), 0);
        while let Some(step) = walker.step(self, caller).await? {
            for Step { row, visible } in step {
                examined += 1;
                let position = position_of(&row, ReservationSort::CreatedAtMs)?;
                if visible && matches(&row, query)? {
                    if page.len() == query.limit {
                        return self.page_of(query, page, last).await;
                    }
                    page.push(Candidate {
                        position: position.clone(),
                        row,
                    });
                }
                last = Some(position);
            }
            if examined >= PAGE_ROWS_MAX {
                return self.page_of(query, page, last).await;
            }
        }
        self.page_of(query, page, None).await
    }

    /// A page of candidates in order: as they were read, or where further fields are wanted read again, each as it is now.
    /// Where their bytes would pass a bound the page is short, and its cursor goes on.
    pub(super) async fn page_of(
        &self,
        query: &ReservationQuery,
        candidates: Vec<Candidate>,
        mut next: Option<Position>,
    ) -> Result<ReservationPage, LedgerError> {
        if query.further_fields.is_empty() || candidates.is_empty() {
            let rows = candidates.into_iter().map(|candidate| candidate.row);
            let rows = rows.collect();
            return Ok(ReservationPage { rows, next });
        }
        let ids: Vec<_> = candidates
            .iter()
            .map(|candidate| candidate.position.reservation_id.as_str())
            .collect();
        self.store.metrics().extra_trip(ExtraTrip::Paging);
        let fields = query.fields();
        let (now_ms, records) = self
            .store
            .read_rows(query.tenant.partition(), &ids, &fields, PAGE_BYTES_MAX)
            .await?;
        if records.len() < ids.len()
            && let Some(last) = records.len().checked_sub(1)
        {
            next = Some(candidates[last].position.clone());
        }
        let mut rows = Vec::with_capacity(records.len());
        for (id, record) in ids.into_iter().zip(records) {
            let Some((status, _, record)) = sound(id, record, now_ms) else {
                continue;
            };
            let row = ReservationRow {
                reservation_id: id.to_owned(),
                status,
                record,
            };
            if matches(&row, query)? {
                rows.push(row);
            }
        }
        Ok(ReservationPage { rows, next })
    }
}

/// A row that may come onto a page.
pub(super) struct Candidate {
    /// Its place in the order.
    pub position: Position,
    /// The row as it was read.
    pub row: ReservationRow,
}

impl ReservationQuery {
    fn fields(&self) -> Vec<&'static str> {
        let further = self.further_fields.iter().copied();
        ROW_FIELDS.into_iter().chain(further).collect()
    }
}

pub(super) fn matches(row: &ReservationRow, query: &ReservationQuery) -> Result<bool, RecordError> {
    let record = &row.record;
    let finalized = record.optional_integer("finalized_at_ms")?;
    Ok(query.status.is_none_or(|status| status == row.status)
        && query.segments.matches(&record.scope_path()?)
        && query.created.contains(record.integer("created_at_ms")?)
        && query.expires.contains(record.integer("expires_at_ms")?)
        && (query.finalized.is_open() || finalized.is_some_and(|at| query.finalized.contains(at))))
}

pub(super) fn position_of(
    row: &ReservationRow,
    sort: ReservationSort,
) -> Result<Position, RecordError> {
    let record = &row.record;
    let value = match sort {
        ReservationSort::CreatedAtMs => record.integer("created_at_ms")?.to_string(),
        ReservationSort::ExpiresAtMs => record.integer("expires_at_ms")?.to_string(),
        ReservationSort::Reserved => record.integer("estimate")?.to_string(),
        ReservationSort::ReservationId => row.reservation_id.clone(),
        ReservationSort::ScopePath => record.text("scope_path")?.to_owned(),
        ReservationSort::Status => row.status.as_str().to_owned(),
        ReservationSort::Tenant => {
            let subject = super::facts::subject_of(record)?;
            subject.value(Level::Tenant).unwrap_or_default().to_owned()
        }
    };
    Ok(Position {
        value,
        reservation_id: row.reservation_id.clone(),
    })
}

/// The order of the list: by value in the direction asked for, ties by ascending id.
pub(super) fn order(a: &Position, b: &Position, query: &ReservationQuery) -> Ordering {
    let by_value = match query.sort {
        ReservationSort::CreatedAtMs | ReservationSort::ExpiresAtMs | ReservationSort::Reserved => {
            let number = |position: &Position| position.value.parse::<i64>().unwrap_or(0);
            number(a).cmp(&number(b))
        }
        ReservationSort::ReservationId
        | ReservationSort::ScopePath
        | ReservationSort::Status
        | ReservationSort::Tenant => a.value.cmp(&b.value),
    };
    let directed = if query.descending {
        by_value.reverse()
    } else {
        by_value
    };
    directed.then_with(|| a.reservation_id.cmp(&b.reservation_id))
}

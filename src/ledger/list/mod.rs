//! Lists a tenant's reservations: along an index where there is one, else gathered and sorted within a bound.

mod usage_events;
mod walk;

use tokio::task::yield_now;

use super::Ledger;
use super::get::Reservation;
use crate::domain::caller::Caller;
use crate::domain::ids::{IdempotencyKey, ReservationId, TenantId};
use crate::domain::moment::Window;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::{AccessRefusal, Refusal, ReservationRefusal};
use crate::domain::reservation::Status;
use crate::domain::scope::{Level, SegmentFilter};
use crate::evidence::Attester;
use crate::listing::{
    Bounds, ListQuery, Page, RowOrder, Sorted, orders, page, page_along, readable,
};
use crate::store::runtime::fields_of;
use crate::store::runtime::read::{ReadRows, RowsReply};
use crate::store::{ExtraRoundTrip, Lane, StoreError, outcome};
pub use usage_events::{
    UsageEvent, UsageEventFilter, UsageEventPage, UsageEventQuery, UsageEventSort,
};
use walk::{ExpiryWalk, LIFE_DAYS, ReservationIndex, ReservationWalk};

orders! {
    /// Sorts of the list of reservations.
    ReservationSort of row: Reservation {
        rows: "reservations", advice: "narrow the list with from and to, or sort by created_at_ms",
        id: row.reservation_id, default: CreatedAtMs, indexed: [CreatedAtMs],
        ties_ascend: true, is_of_runtime_plane: true
    }
    /// The id, by code point.
    ReservationId = "reservation_id": row.reservation_id.as_str(),
    /// The subject's tenant, by code point; absent is empty.
    Tenant = "tenant": row.subject.value(Level::Tenant).unwrap_or_default(),
    /// The subject's scope, by code point.
    ScopePath = "scope_path": row.scope_path.as_str(),
    /// The status, by code point.
    Status = "status": row.status.as_str(),
    /// The estimate, whatever its unit.
    Reserved = "reserved": row.reserved.value(),
    /// The time of creation; the indexed order.
    CreatedAtMs = "created_at_ms": row.created_at_ms,
    /// The time at which the hold lapses.
    ExpiresAtMs = "expires_at_ms": row.expires_at_ms,
}

/// A filter of reservations; all conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationFilter {
    /// The tenant as the client named it; whose reservations are listed is an argument of [`Ledger::list`].
    pub tenant: Option<String>,
    /// Segments that the scope must have.
    pub segments: SegmentFilter,
    /// The key of the create.
    pub idempotency_key: Option<IdempotencyKey>,
    /// The status as of now.
    pub status: Option<Status>,
    /// When it was created.
    pub created: Window,
    /// When its hold lapses or lapsed.
    pub expires: Window,
    /// When it was committed or released. Others are left out as soon as one end is given.
    pub finalized: Window,
    /// Optional members of the rows. It does not select rows.
    pub include: Include,
}

/// Members of a row that are shown only on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Include {
    /// `metadata`.
    pub metadata: bool,
    /// `committed_metadata`.
    pub committed_metadata: bool,
    /// `evidence`.
    pub evidence: bool,
    /// `key_id`, in the dialect whose rows have it only on request.
    pub key_id: bool,
}

/// A query of the list of reservations. A position has the value that they are sorted by, and the id.
pub type ReservationQuery = ListQuery<ReservationFilter, ReservationSort>;
/// A part of a list of reservations.
pub type ReservationPage = Page<Reservation, ReservationSort>;

impl ReservationFilter {
    fn matches(&self, row: &Reservation) -> bool {
        let finalized = row.finalized_at_ms;
        self.status.is_none_or(|status| status == row.status)
            && self.segments.matches(&row.scope_path)
            && self.created.contains(row.created_at_ms)
            && self.expires.contains(row.expires_at_ms)
            && (self.finalized.is_open() || finalized.is_some_and(|at| self.finalized.contains(at)))
    }

    /// Whether one that was created within the bounds may still be left out.
    fn leaves_out(&self) -> bool {
        let times_open = self.expires.is_open() && self.finalized.is_open();
        self.status.is_some() || self.segments.is_within_tenant() || !times_open
    }
}

impl Include {
    /// Whether rows have data of the client's own, or evidence, which is made of such data.
    fn has_objects(self) -> bool {
        self.metadata || self.committed_metadata || self.evidence
    }

    /// The fields of a record that hold the data of the client's own.
    fn names(self) -> Vec<&'static str> {
        let metadata = self.metadata.then_some("metadata");
        let committed = self.committed_metadata.then_some("committed_metadata");
        metadata.into_iter().chain(committed).collect()
    }

    /// The members that can be included: evidence only while it is on.
    fn available(self, evidence: bool) -> Self {
        Self {
            evidence: self.evidence && evidence,
            ..self
        }
    }
}

/// Bytes of the records of one page, where they hold data of the client's own.
const PAGE_BYTES_MAX: i64 = 4 << 20;
/// Rows of these that one script call reads, and their bytes, so that it stays below a millisecond.
const CALL_ROWS: usize = 100;
const CALL_BYTES: i64 = 256 << 10;

impl Ledger {
    /// A page of a tenant's reservations.
    ///
    /// # Errors
    /// [`StoreError`]; refused is the caller, or an order that has no index.
    pub async fn list(
        &self,
        caller: &Caller,
        tenant: &TenantId,
        query: &ReservationQuery,
    ) -> Result<ReservationPage, StoreError> {
        let (filter, by, bounds) = (&query.filter, query.sort.by, Bounds::default());
        if let Some(key) = &filter.idempotency_key {
            return self.list_one(caller, tenant, query, key).await;
        }
        let index = match (by, filter.status) {
            (ReservationSort::CreatedAtMs, _) => ReservationIndex::Created,
            (_, Some(Status::Active)) => ReservationIndex::Due,
            _ => ReservationIndex::Created,
        };
        let mut walk = ReservationWalk {
            ledger: self,
            caller,
            tenant,
            query,
            index,
            life_days: LIFE_DAYS,
        };
        let page = match (by, index) {
            (ReservationSort::CreatedAtMs, _) => page_along(&mut walk, query, by, bounds).await,
            (ReservationSort::ExpiresAtMs, ReservationIndex::Due) => {
                page_along(&mut ExpiryWalk::new(walk), query, by, bounds).await
            }
            _ => {
                let sorted = page(&mut walk, query, bounds);
                self.store.serve_gathering(sorted).await
            }
        };
        self.with_objects(tenant, query, page?).await
    }

    /// The one reservation that a create key can have made: its id is derived from the key.
    async fn list_one(
        &self,
        caller: &Caller,
        tenant: &TenantId,
        query: &ReservationQuery,
        key: &IdempotencyKey,
    ) -> Result<ReservationPage, StoreError> {
        let filter = &query.filter;
        let id = ReservationId::derive(self.store.secret().await?, tenant, key);
        let attester = self.attesting.attester().await?;
        let include = filter.include.available(attester.is_some());
        let fields = self.fields(include.evidence, &include.names());
        let partition = tenant.partition();
        let found = self.read_reservation(caller.into(), partition, &id, &fields);
        let (now_ms, record) = match found.await {
            Err(StoreError::Refusal(
                Refusal::Reservation(ReservationRefusal::NotFound(_))
                | Refusal::Access(AccessRefusal::ScopeForbidden(_)),
            )) => return Ok(query.empty_page()),
            found => found?,
        };
        let row = Reservation::read(id.as_str(), &record, now_ms)?;
        let row = with_included(row, include, attester.as_ref(), &record, now_ms);
        let mut sorted = Sorted::new(query);
        sorted.extend(Some(row).filter(|row| filter.matches(row)));
        Ok(sorted.into_page())
    }

    /// The page with the data of the client's own that the query includes: the rows are read again, each as it is now. Where
    /// their bytes would pass a bound the page is short, and its cursor continues.
    async fn with_objects(
        &self,
        tenant: &TenantId,
        query: &ReservationQuery,
        page: ReservationPage,
    ) -> Result<ReservationPage, StoreError> {
        let (filter, mut next) = (&query.filter, page.next);
        let attester = self.attesting.attester().await?;
        let include = filter.include.available(attester.is_some());
        if !include.has_objects() || page.rows.is_empty() {
            return Ok(Page { next, ..page });
        }
        let ids = page.rows.iter().map(|row| row.reservation_id.as_str());
        let ids: Vec<_> = ids.collect();
        let names = self.fields(include.evidence, &include.names());
        let keys = self.store.keys().of(tenant.partition());
        let (mut rows, mut read, mut left) = (Vec::new(), 0, PAGE_BYTES_MAX);
        'page: while read < ids.len() {
            let some = ids[read..].iter().take(CALL_ROWS);
            let call = ReadRows {
                tenant,
                reservations: some.map(|id| keys.reservation(id)).collect(),
                bytes: left.min(CALL_BYTES),
                names: &names,
            };
            self.store.extra_round_trip(ExtraRoundTrip::Paging);
            let RowsReply::Rows { now_ms, fields } =
                outcome(self.store.run(Lane::Background, &call).await)?;
            for fields in fields {
                let bytes: usize = fields.0.iter().flatten().map(String::len).sum();
                left = left.saturating_sub_unsigned(bytes as u64);
                if left < 0 && read > 0 {
                    break 'page;
                }
                let record = fields_of(&names, fields.0);
                let row = read_row(ids[read], record.as_ref(), now_ms);
                let record = record.unwrap_or_default();
                rows.extend(
                    row.map(|row| with_included(row, include, attester.as_ref(), &record, now_ms)),
                );
                read += 1;
                if include.evidence {
                    // The envelopes of a row are hashed, and a page has a thousand: others get their turn.
                    yield_now().await;
                }
            }
        }
        if read < ids.len() {
            next = Some(page.sort.by.position(&page.rows[read - 1]));
        }
        rows.retain(|row| filter.matches(row));
        Ok(Page::new(rows, page.sort, next))
    }
}

/// The row with what is included of its record, and nothing else that evidence is made of.
fn with_included(
    row: Reservation,
    include: Include,
    attester: Option<&Attester<'_>>,
    record: &Record,
    now_ms: i64,
) -> Reservation {
    let attester = attester.filter(|_| include.evidence);
    let evidence = attester.and_then(|it| it.of_reservation(&row.reservation_id, record, now_ms));
    Reservation {
        metadata: row.metadata.filter(|_| include.metadata),
        committed_metadata: row
            .committed_metadata
            .filter(|_| include.committed_metadata),
        evidence,
        ..row
    }
}

/// A row of a list; `None` where the record is damaged, or has just been purged.
fn read_row(id: &str, record: Option<&Record>, now_ms: i64) -> Option<Reservation> {
    // A key that holds no hash has no field at all.
    let record = record.ok_or_else(|| RecordError::of("status"));
    let row = record.and_then(|record| match record.is_empty() {
        true => Ok(None),
        false => Reservation::read(id, record, now_ms).map(Some),
    });
    readable("reservation", id, row).flatten()
}

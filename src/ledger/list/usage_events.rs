//! Lists a tenant's usage events along the indexes of days, and reads one.

use super::walk::{STEP_DAYS, days_between, left, step_of};
use crate::domain::amount::Amount;
use crate::domain::api_key::secret::KeyId;
use crate::domain::caller::Caller;
use crate::domain::fields::object;
use crate::domain::ids::{PostId, ReservationId, TenantId};
use crate::domain::json::FreeObject;
use crate::domain::moment::Window;
use crate::domain::policy::OveragePolicy;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::ReservationRefusal;
use crate::domain::reservation::USAGE_EVENT_DAYS_MIN;
use crate::domain::scope::{ScopePath, SegmentFilter};
use crate::domain::subject::{Action, Subject};
use crate::ledger::Ledger;
use crate::ledger::get::NamedRecord;
use crate::listing::{
    Bounds, Entry, ListQuery, Page, Position, Step, StepRange, Walk, orders, page_along, readable,
};
use crate::store::runtime::fields_of;
use crate::store::runtime::read::{List, ListReply};
use crate::store::runtime::target::RuntimeTarget;
use crate::store::target::Target as _;
use crate::store::{Day, ExtraRoundTrip, Lane, StoreError};

object! {
    /// A charge without a reservation, in full or as a row of a list.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct UsageEvent: Serialize {
        /// Id of the charge.
        pub event_id: PostId,
        /// The key under which it was reported.
        pub idempotency_key: String { chars: 1..=256 },
        /// Subject, as it was sent.
        pub subject: Subject,
        /// Action, as it was sent.
        pub action: Action,
        /// The reported amount.
        pub actual: Amount,
        /// The amount charged to every budget.
        pub charged: Amount,
        /// What was given back of the charge. Absent without a refund.
        pub refunded: Option<Amount>,
        /// The overage policy that applied.
        pub overage_policy: OveragePolicy,
        /// When it was charged, in milliseconds since the epoch.
        pub created_at_ms: i64 { range: 0.. },
        /// When it happened by the client's clock, in milliseconds since the epoch.
        pub client_time_ms: Option<i64> { range: 0.. },
        /// Deepest scope of the subject.
        pub scope_path: ScopePath,
        /// Every scope that encloses the subject, root first.
        pub affected_scopes: Vec<ScopePath>,
        /// The API key that reported it.
        pub key_id: Option<KeyId>,
        /// Measurements of the client. Not in a list.
        pub metrics: Option<FreeObject>,
        /// Data that the client chose. Not in a list.
        pub metadata: Option<FreeObject>,
    }
}

/// The fields of a record that every row needs.
const FIELDS: [&str; 13] = [
    "unit",
    "actual",
    "charged",
    "refunded",
    "overage_policy",
    "scope_path",
    "subject",
    "action_kind",
    "action_name",
    "action_tags",
    "idempotency_key",
    "created_at_ms",
    "key_id",
];

/// The fields that lists leave out.
const MORE: [&str; 3] = ["client_time_ms", "metrics", "metadata"];

impl UsageEvent {
    fn read(id: &str, record: &Record) -> Result<Self, RecordError> {
        let scope_path = record.read::<ScopePath>("scope_path")?;
        Ok(Self {
            event_id: PostId::parse(id).ok_or_else(|| RecordError::of("event_id"))?,
            idempotency_key: record.text("idempotency_key")?.to_owned(),
            subject: record.subject()?,
            action: record.action()?,
            actual: record.read("actual")?,
            charged: record.read("charged")?,
            refunded: record.optional("refunded")?,
            overage_policy: record.read("overage_policy")?,
            created_at_ms: record.integer("created_at_ms")?,
            client_time_ms: record.optional("client_time_ms")?,
            affected_scopes: scope_path.with_parents().collect(),
            scope_path,
            key_id: record.get("key_id").and_then(KeyId::parse),
            metrics: record.optional("metrics")?,
            metadata: record.optional("metadata")?,
        })
    }
}

orders! {
    /// Sorts of the list of usage events.
    UsageEventSort of row: UsageEvent {
        rows: "usage events", advice: "narrow the list with from and to",
        id: row.event_id, default: CreatedAtMs, indexed: [CreatedAtMs],
        ties_ascend: true, is_of_runtime_plane: true
    }
    /// The time of the charge.
    CreatedAtMs = "created_at_ms": row.created_at_ms,
}

/// A filter of usage events; all conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageEventFilter {
    /// The tenant as the client named it; whose events are listed is an argument of [`Ledger::usage_events`].
    pub tenant: Option<String>,
    /// Segments that the scope must have.
    pub segments: SegmentFilter,
    /// Kind of the action.
    pub action_kind: Option<String>,
    /// Name of the action.
    pub action_name: Option<String>,
    /// When it was charged.
    pub created: Window,
}

impl UsageEventFilter {
    fn matches(&self, row: &UsageEvent) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        self.segments.matches(&row.scope_path)
            && is(&self.action_kind, &row.action.kind)
            && is(&self.action_name, &row.action.name)
            && self.created.contains(row.created_at_ms)
    }
}

/// A query of the list of usage events.
pub type UsageEventQuery = ListQuery<UsageEventFilter, UsageEventSort>;
/// A part of a list of usage events.
pub type UsageEventPage = Page<UsageEvent, UsageEventSort>;

impl Ledger {
    /// A page of a tenant's usage events, in the order of their times.
    ///
    /// # Errors
    /// [`StoreError`]; refused is the caller.
    pub async fn usage_events(
        &self,
        caller: &Caller,
        tenant: &TenantId,
        query: &UsageEventQuery,
    ) -> Result<UsageEventPage, StoreError> {
        let mut walk = UsageEventWalk {
            ledger: self,
            caller,
            tenant,
            filter: &query.filter,
        };
        page_along(&mut walk, query, query.sort.by, Bounds::default()).await
    }

    /// Reads a usage event.
    ///
    /// # Errors
    /// [`StoreError`]; refused when there is none, or when it belongs to another tenant.
    pub async fn usage_event(
        &self,
        caller: &Caller,
        id: &PostId,
    ) -> Result<UsageEvent, StoreError> {
        let text = ReservationId::parse(id.as_str()).ok_or_else(|| RecordError::of("event_id"))?;
        let named = NamedRecord {
            id: &text,
            partition: id.partition(),
            is_event: true,
        };
        let partition = match caller {
            Caller::Tenant(caller) => {
                self.refuse_foreign(caller, named, "reservations:list")
                    .await?;
                caller.partition
            }
            Caller::Admin(_) => id
                .partition()
                .ok_or_else(|| ReservationRefusal::NotFound(text.clone()))?,
        };
        let fields = [&FIELDS[..], &MORE[..]].concat();
        let (_, record) = self
            .read_record(caller.into(), partition, named, &fields)
            .await?;
        Ok(UsageEvent::read(id.as_str(), &record)?)
    }
}

/// A walk along the usage events of one tenant, by the indexes of days. A position is the time in milliseconds and an id, which is
/// empty where a day was passed.
struct UsageEventWalk<'a> {
    ledger: &'a Ledger,
    caller: &'a Caller,
    tenant: &'a TenantId,
    filter: &'a UsageEventFilter,
}

impl UsageEventWalk<'_> {
    /// The earliest and the latest time that are left.
    fn times(&self, range: StepRange<'_>) -> (i64, i64) {
        let today = Day::of_ms(self.ledger.store.clock().now_ms());
        // Retention, or the estimate of the store's clock, may be behind.
        let kept_days = self.ledger.retention_days.max(USAGE_EVENT_DAYS_MIN) + 1;
        let oldest_ms = today.plus(-kept_days).start_ms();
        let newest_ms = today.plus(2).start_ms() - 1;
        let created = &self.filter.created;
        let low = created.from_ms.unwrap_or(0).max(oldest_ms);
        let high = created.to_ms.unwrap_or(newest_ms).min(newest_ms);
        left((low, high), range, 0)
    }
}

impl Walk for UsageEventWalk<'_> {
    type Row = UsageEvent;
    type Error = StoreError;
    /// As for reservations.
    const ROWS: usize = 101;

    fn is_filtered(&self) -> bool {
        let filter = self.filter;
        let has_action = filter.action_kind.is_some() || filter.action_name.is_some();
        has_action || filter.segments.is_within_tenant()
    }

    async fn step(&mut self, range: StepRange<'_>) -> Result<Step<UsageEvent>, StoreError> {
        let store = &self.ledger.store;
        if !range.is_first {
            store.extra_round_trip(ExtraRoundTrip::Paging);
        }
        let (low, high) = self.times(range);
        let mut days = days_between((low, high), range);
        let next_day = days.get(STEP_DAYS).copied();
        days.truncate(STEP_DAYS);
        let keys = store.keys().of(self.tenant.partition());
        let key = |day: &Day| keys.usage_events(self.tenant.as_str(), *day);
        let call = List {
            caller: self.caller.into(),
            indexes: days.iter().map(key).collect(),
            tenant: self.tenant,
            direction: if range.descending { "desc" } else { "asc" },
            rows: range.rows,
            low,
            high,
            after_id: range.after_id(),
            record_prefix: keys.usage_event(""),
            names: &FIELDS,
        };
        let listed = store.run(Lane::Background, &call).await;
        let ListReply::Listed {
            scope_filter,
            complete,
            index_id_score_fields: found,
            ..
        } = RuntimeTarget::default().named(listed)?;
        let entries = found.into_iter().map(|((_, id, at_ms), fields)| {
            let row = fields_of(&FIELDS, fields.0)
                .ok_or_else(|| RecordError::of("status"))
                .and_then(|record| match record.is_empty() {
                    true => Ok(None),
                    false => UsageEvent::read(&id, &record).map(Some),
                });
            let row = readable("usage event", &id, row).flatten();
            let row = row.filter(|row| {
                scope_filter.admits(row.scope_path.as_str()) && self.filter.matches(row)
            });
            Entry {
                position: Position::new(at_ms, id),
                row,
            }
        });
        Ok(step_of(entries.collect(), complete, next_day, range))
    }
}

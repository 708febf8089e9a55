//! Events: listed, of one tenant or of all, and read one by one.
//!
//! What one tenant's logs hold is always current. A list over all tenants shows what the view over all of them holds, up to
//! the time that the view has reached, and says which that is.

use super::log_walk::{LogEntry, LogFilter, Logs, Route, index_of_ids, page};
use super::refuse;
use crate::domain::caller::Caller;
use crate::domain::event::query::{EventFilter, EventSort};
use crate::domain::event::types::{EventCategory, category_of};
use crate::domain::event::{EventId, StoredEvent};
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::EventRefusal;
use crate::domain::scope::ScopeFilter;
use crate::domain::tenant::SYSTEM;
use crate::listing::{ListQuery, Page, Position, RowOrder, SortKey, readable};
use crate::store::StoreError;
use crate::store::dispatcher::view_rows::LogIndex;
use crate::store::dispatcher::views::{CORRELATION_ID, REQUEST_ID, Row, TRACE_ID, View};

/// The operations on events.
pub type Events = Logs<EventFilter>;

impl SortKey for EventSort {
    const DEFAULT: Self = Self::Timestamp;
    const INDEXED: &'static [Self] = &[Self::Timestamp];
}

impl RowOrder<LogEntry> for EventSort {
    const ROWS: &'static str = "events";
    const ADVICE: &'static str = "narrow the list with from and to, or sort by timestamp";

    fn position(self, row: &LogEntry) -> Position {
        let (none, entry) = (Record::default(), row.row.entry.to_string());
        let id = stored(&row.row, &none, &entry).event_id();
        let scope = || row.facts.as_ref().and_then(|facts| facts.get("scope"));
        match self {
            EventSort::EventType => Position::new(row.event_type(), id),
            EventSort::Category => Position::new(category_of(row.event_type()), id),
            EventSort::Scope => Position::new(scope(), id),
            EventSort::TenantId => Position::new(row.row.tenant.as_str(), id),
            EventSort::Timestamp => row.position(),
        }
    }
}

/// A request for a page of events.
pub type EventQuery = ListQuery<EventFilter, EventSort>;
/// A page of events: the JSON of each.
pub type EventPage = Page<String, EventSort>;

impl Events {
    /// The JSON of one event.
    ///
    /// # Errors
    /// [`EventRefusal::NotFound`].
    pub async fn get(&self, id: &str) -> Result<String, StoreError> {
        let not_found = EventRefusal::NotFound(id.to_owned());
        let Some(id) = EventId::parse(id) else {
            return refuse(not_found);
        };
        let Some((tenant, facts)) = self.store.get_event(&id).await? else {
            return refuse(not_found);
        };
        let event = StoredEvent {
            partition: id.partition,
            tenant: &tenant,
            entry: &id.entry.to_string(),
            facts: &facts,
        };
        Ok(event.envelope()?)
    }

    /// A page of events.
    ///
    /// # Errors
    /// Refusals of a tenant's key; [`crate::domain::refusal::TooManyToSort`] for an order without an index.
    pub async fn list(&self, caller: &Caller, query: &EventQuery) -> Result<EventPage, StoreError> {
        let scope = query.filter.scope.as_deref().unwrap_or_default();
        let scopes = self
            .store
            .admin_access(caller, "events:read", scope)
            .await?;
        if query.filter.is_void() {
            return Ok(query.empty_page());
        }
        let page = page(self, &scopes, query).await?;
        Ok(page.filter_map(|entry| envelope(&entry.row, entry.facts.as_ref()?)))
    }
}

impl LogFilter for EventFilter {
    type Sort = EventSort;
    type Row = LogEntry;

    fn route(&self) -> Route {
        // Of ids the rarest first.
        let ids = [
            (REQUEST_ID, &self.request_id),
            (CORRELATION_ID, &self.correlation_id),
            (TRACE_ID, &self.trace_id),
        ];
        let tenant = self.tenant.as_deref();
        let kind = match (tenant, &self.event_type, self.category) {
            (Some(SYSTEM), ..) => Some(SYSTEM),
            (_, Some(event_type), _) => Some(event_type.as_str()),
            (_, None, category) => category.map(EventCategory::as_str),
        };
        let kind = LogIndex::Kind(kind.map(str::to_owned));
        let index = index_of_ids(ids).unwrap_or(kind);
        Route::new(View::Events, tenant, self.window, index)
    }

    fn leaves_out(&self) -> bool {
        let is_narrow = self.event_type.is_some() || self.category.is_some();
        self.asks_facts() || is_narrow && self.tenant.is_some()
    }

    fn may_pass(&self, entry: &LogEntry) -> bool {
        self.may_pass(entry.at_ms, entry.event_type(), &entry.row.tenant)
    }

    fn row(&self, entry: LogEntry, keys: &ScopeFilter) -> Option<LogEntry> {
        let passes = |event: &StoredEvent<'_>| self.passes(event, keys);
        let passes = read(&entry.row, entry.facts.as_ref()?, passes)?;
        passes.then_some(entry)
    }
}

impl LogEntry {
    fn event_type(&self) -> &str {
        self.row.kind.as_deref().unwrap_or_default()
    }
}

/// The JSON of an event; `None` where it is gone or damaged.
pub(super) fn envelope(row: &Row, facts: &Record) -> Option<String> {
    read(row, facts, |event| event.envelope())
}

/// What `read` makes of the facts of an event; `None` where they are gone or damaged.
fn read<T>(
    row: &Row,
    facts: &Record,
    read: impl FnOnce(&StoredEvent<'_>) -> Result<T, RecordError>,
) -> Option<T> {
    // Retention has been faster than the view.
    if facts.is_empty() {
        return None;
    }
    let id = format!("{} of {}", row.entry, row.tenant);
    let entry = row.entry.to_string();
    readable("event", &id, read(&stored(row, facts, &entry)))
}

fn stored<'a>(row: &'a Row, facts: &'a Record, entry: &'a str) -> StoredEvent<'a> {
    StoredEvent {
        partition: row.partition,
        tenant: &row.tenant,
        entry,
        facts,
    }
}

//! Events: listed, of one tenant or of all, and read one by one.
//!
//! What one tenant's logs tell is always current. A list over all tenants shows what the view over all of them holds, up to
//! the time that the view has reached, and says which that is.

use super::log_walk::{LogEntry, LogWalk, ROWS, Route, read_facts};
use super::{AdminError, refuse};
use crate::domain::caller::{Caller, RuntimeCaller};
use crate::domain::event::query::{EventFilter, EventSort, category_of};
use crate::domain::event::{EventId, StoredEvent};
use crate::domain::ids::TenantId;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::scope::ScopeFilter;
use crate::domain::tenant::SYSTEM;
use crate::listing::{
    Bounds, Entry, ListQuery, Page, Position, RowOrder, SortKey, Step, Walk, gather, page_along,
    readable,
};
use crate::store::Store;
use crate::store::dispatcher::view_rows::ViewIndex;
use crate::store::dispatcher::views::{CORRELATION_ID, REQUEST_ID, TRACE_ID, View, id_digest};

/// Rows that one step of a sort reads whose facts may not matter.
const GATHER_ROWS: usize = 1_000;

/// The operations on events. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    store: Store,
    retention_days: i64,
    bounds: Bounds,
}

impl SortKey for EventSort {
    const DEFAULT: Self = Self::Timestamp;
}

impl RowOrder<LogEntry> for EventSort {
    const ROWS: &'static str = "events";
    const ADVICE: &'static str = "narrow the list with from and to, or sort by timestamp";

    fn position(self, row: &LogEntry) -> Position {
        let none = Record::default();
        let entry = row.row.entry.to_string();
        let id = row.event(&none, &entry).event_id();
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

/// What is asked of the list of events.
pub type EventQuery = ListQuery<EventFilter, EventSort>;
/// A page of events: the JSON of each.
pub type EventPage = Page<String, EventSort>;

impl Events {
    /// Over a store. `retention_days`: how long events are kept.
    pub fn new(store: Store, retention_days: i64) -> Self {
        Self {
            store,
            retention_days,
            bounds: Bounds::default(),
        }
    }

    /// The same with other bounds, for tests.
    pub fn bounded(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    /// The JSON of one event.
    ///
    /// # Errors
    /// [`AdminRefusal::EventNotFound`].
    pub async fn get(&self, id: &str) -> Result<String, AdminError> {
        let Some(id) = EventId::parse(id) else {
            return refuse(AdminRefusal::EventNotFound);
        };
        let Some((tenant, facts)) = self.store.get_event(&id).await? else {
            return refuse(AdminRefusal::EventNotFound);
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
    /// Refusals of a tenant's key; [`AdminRefusal::TooManyToSort`] for an order without an index.
    pub async fn list(&self, caller: &Caller, query: &EventQuery) -> Result<EventPage, AdminError> {
        let (store, filter) = (&self.store, &query.filter);
        if filter.is_void() {
            self.check_key(caller, query).await?;
            return Ok(query.empty_page());
        }
        let route = route(query);
        let (by, caller) = (query.sort.by, key_of(caller));
        let log = LogWalk::new(store, caller, self.retention_days, route).await?;
        let mut walk = EventWalk {
            store,
            with_facts: filter.asks_facts()
                || [EventSort::Timestamp, EventSort::Scope].contains(&by),
            filter,
            log,
        };
        let mut page = match by {
            EventSort::Timestamp => page_along(&mut walk, query, by, self.bounds).await?,
            _ => gather(&mut walk, query, self.bounds).await?,
        };
        read_facts(store, View::Events, page.rows.iter_mut()).await?;
        page.as_of_ms = walk.log.as_of_ms;
        Ok(page.filter_map(|entry| entry.envelope()))
    }

    /// For a list that is empty whatever happened: a tenant's key is checked all the same.
    async fn check_key(&self, caller: &Caller, query: &EventQuery) -> Result<(), AdminError> {
        let Some(caller) = key_of(caller) else {
            return Ok(());
        };
        let scope = query.filter.scope.as_deref().unwrap_or_default();
        self.store.admin_access(caller, "events:read", scope).await
    }
}

/// A walk along events in order of time.
struct EventWalk<'a> {
    store: &'a Store,
    filter: &'a EventFilter,
    log: LogWalk<'a>,
    /// Whether the facts of every entry that may match are read.
    with_facts: bool,
}

impl Walk for EventWalk<'_> {
    type Row = LogEntry;
    type Error = AdminError;

    async fn step(&mut self) -> Result<Step<LogEntry>, AdminError> {
        let mut step = self.log.step().await?;
        if self.with_facts {
            let entries = step.entries.iter_mut();
            let entries = entries.filter(|entry| entry.may_pass(self.filter));
            read_facts(self.store, View::Events, entries).await?;
        }
        let entries = step.entries.into_iter().map(|entry| Entry {
            position: entry.position(),
            row: Some(entry).filter(|entry| entry.passes(self.filter, &self.log.scope_filter)),
        });
        Ok(Step::new(entries.collect(), step.complete))
    }
}

/// Who is checked by the store; the admin key has been.
fn key_of(caller: &Caller) -> Option<&RuntimeCaller> {
    match caller {
        Caller::Tenant(caller) => Some(caller),
        Caller::Admin(_) => None,
    }
}

/// How to come to what is asked for.
fn route(query: &EventQuery) -> Route<'_> {
    let filter = &query.filter;
    let is_narrow = filter.event_type.is_some() || filter.category.is_some();
    // Whether entries of the index may be left out.
    let is_filtered = filter.asks_facts() || is_narrow && filter.tenant.is_some();
    let in_time = query.sort.by == EventSort::Timestamp;
    let rows = if in_time { ROWS } else { GATHER_ROWS };
    Route {
        view: View::Events,
        tenant: filter.tenant.as_deref().and_then(TenantId::parse),
        scope: filter.scope.as_deref(),
        index: index_of(filter),
        window: filter.window,
        descending: query.sort.descending,
        after: query.after.as_ref().filter(|_| in_time),
        rows_first: query.first_step(is_filtered || !in_time, rows),
        rows,
    }
}

/// The narrowest index that holds all that is asked for; of ids the rarest.
fn index_of(filter: &EventFilter) -> ViewIndex {
    let ids = [
        (REQUEST_ID, &filter.request_id),
        (CORRELATION_ID, &filter.correlation_id),
        (TRACE_ID, &filter.trace_id),
    ];
    let mut ids = ids.into_iter();
    let id = ids.find_map(|(letter, id)| Some(id_digest(letter, id.as_deref()?)));
    let kind = |kind: &str| ViewIndex::Kind(kind.to_owned());
    match (id, &filter.event_type, filter.category) {
        (Some(id), ..) => ViewIndex::Id(id),
        _ if filter.tenant.as_deref() == Some(SYSTEM) => kind(SYSTEM),
        (None, Some(event_type), _) => kind(event_type),
        (None, None, Some(category)) => kind(category.as_str()),
        (None, None, None) => ViewIndex::All,
    }
}

impl LogEntry {
    fn may_pass(&self, filter: &EventFilter) -> bool {
        filter.may_pass(self.at_ms, self.event_type(), &self.row.tenant)
    }

    fn event_type(&self) -> &str {
        self.row.kind.as_deref().unwrap_or_default()
    }

    /// Whether the list has the event. An entry whose facts were not read passes on what its row says.
    fn passes(&self, filter: &EventFilter, keys: &ScopeFilter) -> bool {
        let entry = self.row.entry.to_string();
        match &self.facts {
            None => self.may_pass(filter),
            // Retention has been faster than the view.
            Some(facts) if facts.is_empty() => false,
            Some(facts) => {
                let passes = filter.passes(&self.event(facts, &entry), keys);
                self.readable(passes).unwrap_or(false)
            }
        }
    }

    fn event<'a>(&'a self, facts: &'a Record, entry: &'a str) -> StoredEvent<'a> {
        StoredEvent {
            partition: self.row.partition,
            tenant: &self.row.tenant,
            entry,
            facts,
        }
    }

    /// The JSON of the event; `None` where it is gone or damaged.
    fn envelope(&self) -> Option<String> {
        let facts = self.facts.as_ref().filter(|facts| !facts.is_empty())?;
        let entry = self.row.entry.to_string();
        self.readable(self.event(facts, &entry).envelope())
    }

    fn readable<T>(&self, read: Result<T, RecordError>) -> Option<T> {
        let id = format!("{} of {}", self.row.entry, self.row.tenant);
        readable("event", &id, read)
    }
}

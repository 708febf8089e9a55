//! Events: listed, of one tenant or of all, and read one by one.
//!
//! What one tenant's logs tell is always current. A list over all tenants shows what the view over all of them holds, up to
//! the time that the view has reached, and says which that is.

use tracing::error;

use super::log_walk::{Bounds, Found, Place, ROWS, Route, Walk, keep_first, read_facts};
use super::{AdminError, refuse};
use crate::domain::caller::{Caller, RuntimeCaller};
use crate::domain::event::query::{EventFilter, EventSort, category_of};
use crate::domain::event::{EventId, StoredEvent};
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::domain::refusal::TooManyToSort;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::scope::ScopeFilter;
use crate::domain::tenant::SYSTEM;
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

/// Events that are asked for.
#[derive(Debug, Clone)]
pub struct EventQuery {
    /// What they must have.
    pub filter: EventFilter,
    /// The order.
    pub sort: EventSort,
    /// The order as a whole turned round.
    pub descending: bool,
    /// Where the last page ended.
    pub after: Option<Place>,
    /// Rows at most, at least 1.
    pub limit: usize,
}

/// A page of events.
#[derive(Debug, Default)]
pub struct EventPage {
    /// In order: the JSON of each.
    pub events: Vec<String>,
    /// Behind which place the next page starts, when there may be one.
    pub next: Option<Place>,
    /// For a list over all tenants: all that happened before this time, in milliseconds, could be shown.
    pub as_of_ms: Option<i64>,
}

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
    /// Refusals of a tenant's key; [`AdminRefusal::TooManyToSort`] for a sort without an index.
    pub async fn list(&self, caller: &Caller, query: &EventQuery) -> Result<EventPage, AdminError> {
        if query.filter.is_void() {
            self.check_key(caller, query).await?;
            return Ok(EventPage::default());
        }
        let route = route(query);
        let watermark_ms = match route.asks_view() {
            true => Some(self.store.watermark(View::Events).await?),
            false => None,
        };
        let mut walk = Walk::new(&self.store, self.retention_days, route, watermark_ms).await?;
        let mut page = match query.sort {
            EventSort::Timestamp => self.by_time(caller, query, &mut walk).await?,
            _ => self.gathered(caller, query, &mut walk).await?,
        };
        page.as_of_ms = watermark_ms.filter(|_| walk.is_of_view());
        Ok(page)
    }

    /// For a list that is empty whatever happened: a tenant's key is judged all the same.
    async fn check_key(&self, caller: &Caller, query: &EventQuery) -> Result<(), AdminError> {
        let Some(caller) = key_of(caller) else {
            return Ok(());
        };
        let scope = query.filter.scope.as_deref().unwrap_or_default();
        self.store.admin_access(caller, "events:read", scope).await
    }

    /// In order of time: along an index.
    async fn by_time(
        &self,
        caller: &Caller,
        query: &EventQuery,
        walk: &mut Walk,
    ) -> Result<EventPage, AdminError> {
        let (mut rows, mut last, mut examined) = (Vec::new(), None, 0);
        while let Some(step) = walk.step(&self.store, key_of(caller)).await? {
            for found in self.told(step, &query.filter, true).await? {
                examined += 1;
                let place = found.place();
                if found.passes(&query.filter, &walk.scope_filter) {
                    if rows.len() == query.limit {
                        return self.page_of(rows, last).await;
                    }
                    rows.push(found);
                }
                last = Some(place);
            }
            if examined >= self.bounds.page_rows {
                return self.page_of(rows, last).await;
            }
        }
        self.page_of(rows, None).await
    }

    /// In any other order: all that matches is looked at, and what comes first kept.
    async fn gathered(
        &self,
        caller: &Caller,
        query: &EventQuery,
        walk: &mut Walk,
    ) -> Result<EventPage, AdminError> {
        let with_facts = query.sort == EventSort::Scope;
        let (mut first, mut matched, mut examined) = (Vec::new(), 0, 0);
        while let Some(step) = walk.step(&self.store, key_of(caller)).await? {
            examined += step.len();
            for found in self.told(step, &query.filter, with_facts).await? {
                if found.passes(&query.filter, &walk.scope_filter) {
                    matched += 1;
                    first.push((found.place_by(query.sort), found));
                }
            }
            keep_first(
                &mut first,
                query.after.as_ref(),
                query.descending,
                query.limit,
            );
            for (bound, count) in [(self.bounds.matches, matched), (self.bounds.rows, examined)] {
                if count > bound {
                    return Err(too_many(bound).into());
                }
            }
        }
        let more = first.len() > query.limit;
        first.truncate(query.limit);
        let next = first.last().filter(|_| more);
        let next = next.map(|(place, _)| place.clone());
        let rows = first.into_iter().map(|(_, found)| found).collect();
        self.page_of(rows, next).await
    }

    /// The rows with their facts where they matter for the filter, or where they are asked for. A row whose facts are gone
    /// passes no filter.
    async fn told(
        &self,
        mut step: Vec<Found>,
        filter: &EventFilter,
        with_facts: bool,
    ) -> Result<Vec<Found>, AdminError> {
        if with_facts || filter.asks_facts() {
            let may_pass = |found: &&mut Found| found.may_pass(filter);
            read_facts(&self.store, View::Events, step.iter_mut().filter(may_pass)).await?;
        }
        Ok(step)
    }

    async fn page_of(
        &self,
        mut rows: Vec<Found>,
        next: Option<Place>,
    ) -> Result<EventPage, AdminError> {
        read_facts(&self.store, View::Events, rows.iter_mut()).await?;
        Ok(EventPage {
            events: rows.iter().filter_map(Found::envelope).collect(),
            next,
            as_of_ms: None,
        })
    }
}

/// Who is judged by the store; the admin key has been.
fn key_of(caller: &Caller) -> Option<&RuntimeCaller> {
    match caller {
        Caller::Tenant(caller) => Some(caller),
        Caller::Admin(_) => None,
    }
}

fn too_many(bound: usize) -> TooManyToSort {
    TooManyToSort {
        rows: "events",
        bound,
        advice: "narrow the list with from and to, or sort by timestamp",
    }
}

/// How to come to what is asked for.
fn route(query: &EventQuery) -> Route<'_> {
    let filter = &query.filter;
    let narrow = filter.event_type.is_some() || filter.category.is_some();
    // Whether every row of the index comes onto the page.
    let plain = !(filter.asks_facts() || narrow && filter.tenant.is_some());
    let timely = query.sort == EventSort::Timestamp;
    let rows = if timely { ROWS } else { GATHER_ROWS };
    Route {
        view: View::Events,
        tenant: filter.tenant.as_deref().and_then(TenantId::parse),
        scope: filter.scope.as_deref(),
        index: index_of(filter),
        window: filter.window,
        descending: query.descending,
        after: query.after.as_ref().filter(|_| timely),
        rows_first: if timely && plain {
            query.limit + 1
        } else {
            rows
        },
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

impl Found {
    fn may_pass(&self, filter: &EventFilter) -> bool {
        filter.may_pass(self.at_ms, self.event_type(), &self.row.tenant)
    }

    fn event_type(&self) -> &str {
        self.row.kind.as_deref().unwrap_or_default()
    }

    /// Whether the row is to be shown. One that was not read passes on what it tells itself.
    fn passes(&self, filter: &EventFilter, keys: &ScopeFilter) -> bool {
        let entry = self.row.entry.to_string();
        match &self.facts {
            None => self.may_pass(filter),
            // Retention has been faster than the view.
            Some(facts) if facts.is_empty() => false,
            Some(facts) => {
                let passes = filter.passes(&self.event(facts, &entry), keys);
                passes.unwrap_or_else(|damage| self.left_out(&damage.to_string()))
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
        let envelope = self.event(facts, &entry).envelope();
        envelope
            .map_err(|damage| self.left_out(&damage.to_string()))
            .ok()
    }

    /// One damaged event must not take a whole list away.
    fn left_out(&self, damage: &str) -> bool {
        let (tenant, entry) = (&self.row.tenant, self.row.entry);
        error!(
            tenant.id = tenant, entry = %entry, error = damage,
            "the event {entry} of `{tenant}` is left out of lists: {damage}"
        );
        false
    }

    fn place_by(&self, sort: EventSort) -> Place {
        let scope = || self.facts.as_ref().and_then(|facts| facts.get("scope"));
        let value = match sort {
            EventSort::EventType => self.event_type(),
            EventSort::Category => category_of(self.event_type()),
            EventSort::Scope => scope().unwrap_or_default(),
            EventSort::TenantId => &self.row.tenant,
            EventSort::Timestamp => return self.place(),
        };
        let none = Record::default();
        let entry = self.row.entry.to_string();
        Place {
            value: value.to_owned(),
            id: self.event(&none, &entry).event_id(),
        }
    }
}

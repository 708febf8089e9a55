//! Events: listed, of one tenant or of all, and read one by one.
//!
//! What one tenant's logs tell is always current. A list over all tenants shows what the view over all of them holds, up to
//! the time that the view has reached, and says which that is.

mod walk;

use std::cmp::Ordering;

use tracing::error;

use super::{AdminError, refuse};
use crate::domain::admin_refusal::AdminRefusal;
use crate::domain::caller::Caller;
use crate::domain::event::{EventId, StoredEvent};
use crate::domain::event_query::{EventFilter, EventSort, category_of};
use crate::domain::reservation::Record;
use crate::domain::scope::ScopeFilter;
use crate::store::views::{Row, View};
use crate::store::{Day, ExtraTrip, Store};
use walk::{Found, Walk};

/// How much a list may look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Rows that a page in order of time looks at; then it may be short, and its cursor goes on.
    pub page_rows: usize,
    /// Matches that any other sort gathers.
    pub matches: usize,
    /// Rows that such a sort looks at.
    pub rows: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            page_rows: 5_000,
            matches: 10_000,
            rows: 50_000,
        }
    }
}

/// The operations on events. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    store: Store,
    retention_days: i64,
    bounds: Bounds,
}

/// Where a page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPlace {
    /// The last row's value of what the list is sorted by; a time in milliseconds.
    pub value: String,
    /// In order of time the text of the row, else the id of the event: it decides between equal values.
    pub id: String,
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
    pub after: Option<EventPlace>,
    /// Rows at most, at least 1.
    pub limit: usize,
}

/// A page of events.
#[derive(Debug, Default)]
pub struct EventPage {
    /// In order: the JSON of each.
    pub events: Vec<String>,
    /// Behind which place the next page starts, when there may be one.
    pub next: Option<EventPlace>,
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
    /// Refusals of a tenant's key; [`AdminRefusal::TooManyEvents`] for a sort without an index.
    pub async fn list(&self, caller: &Caller, query: &EventQuery) -> Result<EventPage, AdminError> {
        if query.filter.is_void() {
            self.check_key(caller, query).await?;
            return Ok(EventPage::default());
        }
        let watermark_ms = match Walk::asks_view(query) {
            true => Some(self.store.watermark(View::Events).await?),
            false => None,
        };
        let mut walk = Walk::new(self, query, watermark_ms).await?;
        let mut page = match query.sort {
            EventSort::Timestamp => self.by_time(caller, query, &mut walk).await?,
            _ => self.gathered(caller, query, &mut walk).await?,
        };
        page.as_of_ms = watermark_ms.filter(|_| walk.is_of_all());
        Ok(page)
    }

    /// For a list that is empty whatever happened: a tenant's key is judged all the same.
    async fn check_key(&self, caller: &Caller, query: &EventQuery) -> Result<(), AdminError> {
        let Caller::Tenant(caller) = caller else {
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
        while let Some(step) = walk.step(&self.store, caller).await? {
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
        while let Some(step) = walk.step(&self.store, caller).await? {
            examined += step.len();
            for found in self.told(step, &query.filter, with_facts).await? {
                if found.passes(&query.filter, &walk.scope_filter) {
                    matched += 1;
                    first.push((found.place_by(query.sort), found));
                }
            }
            keep_first(&mut first, query);
            for (bound, count) in [(self.bounds.matches, matched), (self.bounds.rows, examined)] {
                if count > bound {
                    return refuse(AdminRefusal::TooManyEvents { bound });
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
            self.read_facts(step.iter_mut().filter(may_pass)).await?;
        }
        Ok(step)
    }

    async fn read_facts(&self, rows: impl Iterator<Item = &mut Found>) -> Result<(), AdminError> {
        let mut untold: Vec<_> = rows.filter(|found| found.facts.is_none()).collect();
        if untold.is_empty() {
            return Ok(());
        }
        let places: Vec<(&Row, Day)> = untold
            .iter()
            .map(|found| (&found.row, Day::of_ms(found.at_ms)))
            .collect();
        let facts = self.store.facts_of(&places).await?;
        for (found, facts) in untold.iter_mut().zip(facts) {
            found.facts = Some(facts.unwrap_or_default());
        }
        Ok(())
    }

    async fn page_of(
        &self,
        mut rows: Vec<Found>,
        next: Option<EventPlace>,
    ) -> Result<EventPage, AdminError> {
        self.read_facts(rows.iter_mut()).await?;
        Ok(EventPage {
            events: rows.iter().filter_map(Found::envelope).collect(),
            next,
            as_of_ms: None,
        })
    }

    fn extra_trip(&self) {
        self.store.metrics().extra_trip(ExtraTrip::Paging);
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

    fn place(&self) -> EventPlace {
        EventPlace {
            value: self.at_ms.to_string(),
            id: self.row.member(),
        }
    }

    fn place_by(&self, sort: EventSort) -> EventPlace {
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
        EventPlace {
            value: value.to_owned(),
            id: self.event(&none, &entry).event_id(),
        }
    }
}

/// By value, one that is absent last; ties by id. Descending, all of it turned round.
fn order(a: &EventPlace, b: &EventPlace, descending: bool) -> Ordering {
    fn key(place: &EventPlace) -> (bool, &str, &str) {
        (place.value.is_empty(), &place.value, &place.id)
    }
    match descending {
        true => key(b).cmp(&key(a)),
        false => key(a).cmp(&key(b)),
    }
}

/// Keeps what stands first behind the last page, in order: a page, and one more to know whether another follows.
fn keep_first(rows: &mut Vec<(EventPlace, Found)>, query: &EventQuery) {
    if let Some(after) = &query.after {
        rows.retain(|(place, _)| order(place, after, query.descending) == Ordering::Greater);
    }
    rows.sort_by(|(a, _), (b, _)| order(a, b, query.descending));
    rows.truncate(query.limit + 1);
}

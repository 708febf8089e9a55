//! Walking events or audit entries in order of time: along the logs of one tenant, along an index of the view over all
//! tenants, or along both where an id is looked for in one tenant: what the view has not reached is looked for in the logs.

mod parts;

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::AdminError;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::TenantId;
use crate::domain::moment::Window;
use crate::domain::record::Record;
use crate::domain::scope::ScopeFilter;
use crate::store::dispatcher::view_rows::ViewIndex;
use crate::store::dispatcher::views::{Row, View};
use crate::store::{Day, ExtraTrip, Store};
use parts::{Logs, Rows};

/// Rows that one step reads, with their facts.
pub(super) const ROWS: usize = 200;

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

/// Where a page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The last row's value of what the list is sorted by; a time in milliseconds.
    pub value: String,
    /// In order of time the text of the row, else the id of what is shown: it decides between equal values.
    pub id: String,
}

impl Place {
    /// By value, one that is absent last; ties by id. Descending, all of it turned round.
    pub(super) fn order(&self, other: &Self, descending: bool) -> Ordering {
        fn key(place: &Place) -> (bool, &str, &str) {
            (place.value.is_empty(), &place.value, &place.id)
        }
        match descending {
            true => key(other).cmp(&key(self)),
            false => key(self).cmp(&key(other)),
        }
    }
}

/// Of what was gathered, what stands first behind the last page, in order: a page, and one more to know whether another
/// follows.
pub(super) fn keep_first<T>(
    rows: &mut Vec<(Place, T)>,
    after: Option<&Place>,
    descending: bool,
    limit: usize,
) {
    if let Some(after) = after {
        rows.retain(|(place, _)| place.order(after, descending) == Ordering::Greater);
    }
    rows.sort_by(|(a, _), (b, _)| a.order(b, descending));
    rows.truncate(limit + 1);
}

/// A row on the way.
#[derive(Debug)]
pub(super) struct Found {
    /// When it happened, in milliseconds.
    pub at_ms: i64,
    /// Where it lies.
    pub row: Row,
    /// What the entry holds, where it was read; empty where it is gone.
    pub facts: Option<Record>,
}

impl Found {
    /// Its place in order of time.
    pub fn place(&self) -> Place {
        Place {
            value: self.at_ms.to_string(),
            id: self.row.member(),
        }
    }
}

/// Reads what rows lead to, of those that were not read yet.
pub(super) async fn read_facts(
    store: &Store,
    view: View,
    rows: impl Iterator<Item = &mut Found>,
) -> Result<(), AdminError> {
    let mut untold: Vec<_> = rows.filter(|found| found.facts.is_none()).collect();
    if untold.is_empty() {
        return Ok(());
    }
    let places: Vec<(&Row, Day)> = untold
        .iter()
        .map(|found| (&found.row, Day::of_ms(found.at_ms)))
        .collect();
    let facts = store.facts_of(view, &places).await?;
    for (found, facts) in untold.iter_mut().zip(facts) {
        found.facts = Some(facts.unwrap_or_default());
    }
    Ok(())
}

/// What a walk is to bring.
#[derive(Debug)]
pub(super) struct Route<'a> {
    /// Events or audit entries.
    pub view: View,
    /// The one tenant whose logs tell all that is asked for.
    pub tenant: Option<TenantId>,
    /// A scope or the beginning of one that the caller's key must be allowed to see.
    pub scope: Option<&'a str>,
    /// The narrowest index that holds all that is asked for.
    pub index: ViewIndex,
    /// When it happened.
    pub window: Window,
    /// Latest first.
    pub descending: bool,
    /// Where the last page ended, if pages are in order of time.
    pub after: Option<&'a Place>,
    /// Rows of the first step.
    pub rows_first: usize,
    /// Rows of the steps behind it.
    pub rows: usize,
}

impl Route<'_> {
    /// Whether the view over all tenants is asked: always but for the logs of one tenant.
    pub fn asks_view(&self) -> bool {
        self.tenant.is_none() || matches!(self.index, ViewIndex::Id(_))
    }

    fn after(&self) -> Option<(i64, String)> {
        let after = self.after?;
        Some((after.value.parse().ok()?, after.id.clone()))
    }
}

/// A walk that remembers where it is.
pub(super) struct Walk {
    parts: VecDeque<Part>,
    begun: bool,
    of_view: bool,
    /// The restriction of the caller's key, as the logs told it.
    pub scope_filter: ScopeFilter,
}

enum Part {
    Logs(Logs),
    View(Rows),
}

impl Walk {
    /// `watermark_ms`: how far the view is, where it is asked. `retention_days`: how long logs are kept.
    pub async fn new(
        store: &Store,
        retention_days: i64,
        route: Route<'_>,
        watermark_ms: Option<i64>,
    ) -> Result<Self, AdminError> {
        let oldest = store.today().plus(-retention_days - 1);
        let low_ms = route.window.from_ms.unwrap_or(0).max(oldest.start_ms());
        // The estimate of the store's clock may lag: look a day further.
        let newest_ms = store.today().plus(2).start_ms() - 1;
        let high_ms = route.window.to_ms.unwrap_or(newest_ms).min(newest_ms);
        let mut parts = VecDeque::new();
        if let Some(watermark_ms) = watermark_ms {
            let bounds = (low_ms, high_ms.min(watermark_ms - 1));
            parts.push_back(Part::View(Rows::new(store, &route, bounds).await?));
        }
        let of_view = route.tenant.is_none();
        if let Some(tenant) = &route.tenant {
            // What was not in the view when its watermark was read.
            let low_ms = watermark_ms.map_or(low_ms, |watermark| low_ms.max(watermark));
            let logs = Part::Logs(Logs::new(tenant.clone(), &route, (low_ms, high_ms)));
            match route.descending {
                true => parts.push_front(logs),
                false => parts.push_back(logs),
            }
        }
        Ok(Self {
            parts,
            begun: false,
            of_view,
            scope_filter: ScopeFilter::default(),
        })
    }

    /// Whether the list shows nothing but what is in the view.
    pub fn is_of_view(&self) -> bool {
        self.of_view
    }

    /// The next rows; `None` at the end. `caller`: the holder of a tenant's key, who is judged with the first of them.
    pub async fn step(
        &mut self,
        store: &Store,
        caller: Option<&RuntimeCaller>,
    ) -> Result<Option<Vec<Found>>, AdminError> {
        while let Some(part) = self.parts.front_mut() {
            if std::mem::replace(&mut self.begun, true) {
                store.metrics().extra_trip(ExtraTrip::Paging);
            }
            let step = match part {
                Part::Logs(logs) => logs.step(store, caller, &mut self.scope_filter).await?,
                Part::View(rows) => rows.step(store).await?,
            };
            match step {
                Some(step) => return Ok(Some(step)),
                None => self.parts.pop_front(),
            };
        }
        Ok(None)
    }
}

//! The events that a replay is to deliver again: those of a window that the subscription would get now.
//!
//! They are in the view of the requested types, and after its watermark in the outboxes; whatever else is stored costs nothing. A
//! tenant's are read from its own logs instead, unless these hold more than the view has of those types.

use std::collections::{BTreeMap, BTreeSet};

use crate::admin::log_walk::{LogDays, LogEntry, LogWalk, ROWS, Route, kept_times, read_facts};
use crate::admin::refuse;
use crate::domain::event::types::{EventTypeName, category_of};
use crate::domain::event::{StoredEvent, tenant_digest};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::log_entry::EntryId;
use crate::domain::moment::Window;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::WebhookRefusal;
use crate::domain::webhook::{
    CrossedThreshold, DeliveryId, EventSummary, Owner, ReplayId, Subscription, WebhookReplay,
    reported_on, trace_of,
};
use crate::listing::{StepRange, readable};
use crate::store::admin::webhook_replays::kept_delivery;
use crate::store::dispatcher::deliveries::EventPlace;
use crate::store::dispatcher::view_rows::LogIndex;
use crate::store::dispatcher::views::{Row, View};
use crate::store::{Day, StoreError};

use super::Webhooks;

/// Most events of the requested types, of the window and the owner, that are examined.
const EXAMINED_MAX: usize = 20_000;

/// Entries of a tenant's logs that are examined whatever the view has.
const LOGGED_MAX: usize = 20_000;

/// The order of a replay: time, partition, digest of the tenant, entry.
type Order = (i64, Partition, String, EntryId);

/// The events found so far.
struct Selection<'a> {
    subscription: &'a Subscription,
    replay: &'a WebhookReplay,
    id: &'a ReplayId,
    window: Window,
    /// Each examined event, once, with its delivery as it is kept if it is to be delivered.
    examined: BTreeMap<Order, Option<String>>,
    selected: usize,
}

impl Webhooks {
    /// The deliveries of a replay as they are kept, in their order.
    ///
    /// # Errors
    /// Refusals: too many to look at, or to deliver.
    pub(super) async fn select_events(
        &self,
        subscription: &Subscription,
        replay: &WebhookReplay,
        id: &ReplayId,
    ) -> Result<Vec<String>, StoreError> {
        let window = replay.window();
        let mut selection = Selection {
            subscription,
            replay,
            id,
            window,
            examined: BTreeMap::new(),
            selected: 0,
        };
        match (window.is_empty(), &subscription.owner) {
            (true, _) => {}
            (false, Owner::Tenant(tenant)) => self.examine_of(tenant, &mut selection).await?,
            (false, Owner::System) => {
                if self.count_viewed(&selection, EXAMINED_MAX).await? > EXAMINED_MAX {
                    return refuse(WebhookRefusal::TooManyInWindow(EXAMINED_MAX));
                }
                let partitions = Partition::all().collect();
                self.examine_view(partitions, &mut selection).await?;
            }
        }
        Ok(selection.examined.into_values().flatten().collect())
    }

    /// Looks at the events of one tenant, where that costs least.
    async fn examine_of(
        &self,
        tenant: &TenantId,
        selection: &mut Selection<'_>,
    ) -> Result<(), StoreError> {
        let (low_ms, high_ms) = kept_times(&self.store, selection.window, self.retention_days);
        let days = Day::between(low_ms, high_ms);
        let logged = self.store.count_logged(tenant, days).await?;
        if logged > LOGGED_MAX && self.count_viewed(selection, logged).await? < logged {
            return self.examine_view(vec![tenant.partition()], selection).await;
        }
        let tenant = Some(tenant.as_str());
        let route = Route::new(View::Events, tenant, selection.window, LogIndex::Kind(None));
        let mut walk = LogWalk::new(&self.store, self.retention_days, route);
        let mut range = StepRange::FIRST;
        loop {
            let (entries, complete) = walk.read(range).await?;
            selection.examine(entries)?;
            if complete {
                return Ok(());
            }
            range.is_first = false;
        }
    }

    /// Looks at the events of partitions, by the view and what it has not followed.
    async fn examine_view(
        &self,
        partitions: Vec<Partition>,
        selection: &mut Selection<'_>,
    ) -> Result<(), StoreError> {
        // First what the view does not have: it may come into the view meanwhile, and counts once.
        self.examine_outboxes(partitions, selection).await?;
        for mut days in self.indexes(selection) {
            while !days.is_complete() {
                let mut entries = days.step(&self.store, ROWS).await?;
                entries.retain(|entry| selection.is_new(entry));
                read_facts(&self.store, View::Events, entries.iter_mut()).await?;
                selection.examine(entries)?;
            }
        }
        Ok(())
    }

    /// The indexes of the view that have the requested events.
    fn indexes(&self, selection: &Selection<'_>) -> Vec<LogDays> {
        let times = kept_times(&self.store, selection.window, self.retention_days);
        let kinds = selection.kinds().into_iter();
        let index = |kind| LogIndex::Kind(Some(kind));
        let days = |kind| LogDays::new(View::Events, index(kind), times, StepRange::FIRST);
        kinds.map(days).collect()
    }

    /// How many rows these have. Counts no further once they are more than `most`.
    async fn count_viewed(
        &self,
        selection: &Selection<'_>,
        most: usize,
    ) -> Result<usize, StoreError> {
        let mut count = 0;
        for mut days in self.indexes(selection) {
            if count <= most {
                count += days.count_beyond(&self.store, most - count).await?;
            }
        }
        Ok(count)
    }

    /// Looks at what the view had not followed when its cursors were read.
    async fn examine_outboxes(
        &self,
        partitions: Vec<Partition>,
        selection: &mut Selection<'_>,
    ) -> Result<(), StoreError> {
        let cursors = self.store.view_cursors(&partitions).await?;
        let mut places: Vec<_> = partitions.into_iter().zip(cursors).collect();
        while !places.is_empty() {
            let (events, further) = self.store.events_beyond(&places, selection.window).await?;
            let entry = |(row, facts): (Row, Record)| {
                Some(LogEntry {
                    at_ms: facts.integer("at_ms").ok()?,
                    row,
                    facts: Some(facts),
                })
            };
            selection.examine(events.into_iter().filter_map(entry))?;
            places = further;
        }
        Ok(())
    }
}

impl Selection<'_> {
    /// Whether an event is of the owner, and was not looked at yet.
    fn is_new(&self, entry: &LogEntry) -> bool {
        let owner = self.subscription.owner.tenant();
        owner.is_none_or(|tenant| tenant.as_str() == entry.row.tenant)
            && !self.examined.contains_key(&order_of(entry))
    }

    /// Whether the replay and the subscription select events of a type.
    fn selects(&self, event_type: &str) -> bool {
        let names =
            |types: &Vec<EventTypeName>| types.iter().any(|name| name.as_str() == event_type);
        self.replay.event_types.as_ref().is_none_or(names)
            && (names(&self.subscription.event_types) || self.selects_category_of(event_type))
    }

    fn selects_category_of(&self, event_type: &str) -> bool {
        let category = category_of(event_type);
        let mut selected = self.subscription.event_categories.iter();
        selected.any(|selected| selected.as_str() == category)
    }

    /// The names of the indexes of the view that have the requested events.
    fn kinds(&self) -> BTreeSet<String> {
        let (subscription, requested) = (self.subscription, self.replay.event_types.as_ref());
        let categories = subscription.event_categories.iter();
        let categories = categories.map(|category| category.as_str());
        let types = requested.unwrap_or(&subscription.event_types).iter();
        let types = types.map(EventTypeName::as_str);
        let kinds: Vec<&str> = match requested {
            Some(_) => types.filter(|name| self.selects(name)).collect(),
            // The index of a category has its types.
            None => types
                .filter(|name| !self.selects_category_of(name))
                .chain(categories)
                .collect(),
        };
        kinds.into_iter().map(str::to_owned).collect()
    }

    /// Looks at some events.
    fn examine(&mut self, entries: impl IntoIterator<Item = LogEntry>) -> Result<(), StoreError> {
        for entry in entries {
            let kind = entry.row.kind.as_deref().unwrap_or_default();
            let is_wanted = self.window.contains(entry.at_ms) && self.selects(kind);
            if !is_wanted || !self.is_new(&entry) {
                continue;
            }
            // Retention has been faster than the view.
            let facts = entry.facts.as_ref().filter(|facts| !facts.is_empty());
            let Some(facts) = facts else { continue };
            let id = format!("{} of {}", entry.row.entry, entry.row.tenant);
            let selected = readable("event", &id, self.selected(&entry, facts)).flatten();
            self.selected += usize::from(selected.is_some());
            self.examined.insert(order_of(&entry), selected);
            let most = usize::try_from(self.replay.max_events).unwrap_or(1);
            if self.selected > most {
                return refuse(WebhookRefusal::TooManyMatch(most));
            }
            if self.examined.len() > EXAMINED_MAX {
                return refuse(WebhookRefusal::TooManyInWindow(EXAMINED_MAX));
            }
        }
        Ok(())
    }

    /// The delivery of an event, if the subscription gets it.
    fn selected(&self, entry: &LogEntry, facts: &Record) -> Result<Option<String>, RecordError> {
        let (row, event_type) = (&entry.row, facts.text("type")?);
        let reported_on = reported_on(event_type, facts);
        let summary = EventSummary {
            event_type,
            tenant: &row.tenant,
            scope: facts.get("scope"),
            crossed: CrossedThreshold::of(event_type, facts)?,
            reported_on: reported_on.as_deref(),
        };
        if !self.subscription.selects(&summary) {
            return Ok(None);
        }
        let event = StoredEvent {
            partition: row.partition,
            tenant: &row.tenant,
            entry: &row.entry.to_string(),
            facts,
        };
        let place = EventPlace {
            partition: row.partition,
            tenant: row.tenant.clone(),
            day: Day::of_ms(entry.at_ms),
            entry: row.entry,
        };
        let (subscription, trace) = (self.subscription, trace_of(facts)?);
        let (owner, id) = (&subscription.owner, &subscription.subscription_id);
        let delivery = DeliveryId::of(owner.partition(), &event.event_id(), id, Some(self.id));
        Ok(Some(kept_delivery(&delivery, event_type, &place, &trace)))
    }
}

fn order_of(entry: &LogEntry) -> Order {
    let (at_ms, row) = (entry.at_ms, &entry.row);
    (at_ms, row.partition, tenant_digest(&row.tenant), row.entry)
}

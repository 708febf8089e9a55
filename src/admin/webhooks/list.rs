//! Lists of subscriptions: a tenant's in the order of their ids, and the operator's of all; lists of deliveries.

use super::{WebhookTarget, Webhooks};
use crate::admin::records;
use crate::domain::caller::Caller;
use crate::domain::moment::Window;
use crate::domain::scope::ScopeFilter;
use crate::domain::search::Search;
use crate::domain::webhook::{
    Delivery, DeliveryStatus, Owner, Subscription, SubscriptionId, WebhookStatus,
};
use crate::listing::{
    Bounds, ListQuery, OneOrder, Page, Position, Step, StepRange, Walk, orders, page_along,
    readable,
};
use crate::store::admin::webhook_deliveries::{ListDeliveries, ListDeliveriesReply};
use crate::store::target::Target as _;
use crate::store::{Day, Store, StoreError};

/// Days after which no delivery is kept.
const KEPT_DAYS: i64 = 16;

orders! {
    /// Sorts of the list of subscriptions.
    WebhookSort of subscription: Subscription {
        rows: "webhooks", advice: "narrow the list by tenant_id, status, event_type or search",
        id: subscription.subscription_id, default: ConsecutiveFailures, indexed: []
    }
    /// The address.
    Url = "url": subscription.url.as_str(),
    /// The owner.
    TenantId = "tenant_id": subscription.owner.as_str(),
    /// The status.
    Status = "status": subscription.status.as_str(),
    /// Deliveries in a row that have failed.
    ConsecutiveFailures = "consecutive_failures": subscription.consecutive_failures,
}

/// Owners whose subscriptions are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerFilter {
    /// Everybody's.
    All,
    /// Those of one owner.
    Of(Owner),
    /// Those of a tenant that cannot exist.
    Nobody,
}

impl OwnerFilter {
    /// The owner that a request names, or all.
    pub fn named(tenant: Option<&str>) -> Self {
        match tenant.map(Owner::parse) {
            None => Self::All,
            Some(Some(owner)) => Self::Of(owner),
            Some(None) => Self::Nobody,
        }
    }

    /// The one owner.
    pub fn owner(&self) -> Option<&Owner> {
        match self {
            Self::Of(owner) => Some(owner),
            Self::All | Self::Nobody => None,
        }
    }
}

/// Conditions that a listed subscription meets, all of them.
#[derive(Debug, Clone)]
pub struct WebhookFilter {
    /// Of this owner.
    pub owner: OwnerFilter,
    /// Of this status.
    pub status: Option<WebhookStatus>,
    /// The event type that they name.
    pub event_type: Option<String>,
    /// A part of the id or URL.
    pub search: Option<Search>,
}

impl WebhookFilter {
    fn matches(&self, subscription: &Subscription) -> bool {
        let texts = [subscription.subscription_id.as_str(), &subscription.url];
        let found = |search: &Search| search.finds_any(texts);
        let names = |requested: &String| {
            let mut types = subscription.event_types.iter();
            types.any(|name| name.as_str() == requested)
        };
        let status = subscription.status;
        self.status.is_none_or(|requested| requested == status)
            && self.event_type.as_ref().is_none_or(names)
            && self.search.as_ref().is_none_or(found)
    }
}

/// A request for a page of all subscriptions.
pub type WebhookQuery = ListQuery<WebhookFilter, WebhookSort>;
/// A request for a page of a tenant's subscriptions.
pub type TenantWebhookQuery = ListQuery<WebhookFilter, OneOrder>;

/// Conditions that a listed delivery meets, all of them.
#[derive(Debug, Clone)]
pub struct DeliveryFilter {
    /// Of this status.
    pub status: Option<DeliveryStatus>,
    /// Queued when.
    pub window: Window,
}

/// A request for a page of a subscription's deliveries, newest first: a position is when one was queued, in
/// milliseconds, and its entry in the index of the day, which is empty where that day was passed.
pub type DeliveryQuery = ListQuery<DeliveryFilter, OneOrder>;

impl Webhooks {
    /// A page of all subscriptions.
    ///
    /// # Errors
    /// [`crate::domain::refusal::TooManyToSort`].
    pub async fn list(
        &self,
        query: &WebhookQuery,
    ) -> Result<Page<Subscription, WebhookSort>, StoreError> {
        let mut walk = WebhookWalk::new(&self.store, &query.filter);
        records::page(&self.store, &mut walk, query, Bounds::default()).await
    }

    /// A page of one tenant's subscriptions that the key may see, in the order of their ids. With a sparse filter it may be short.
    ///
    /// # Errors
    /// Refusals of the key.
    pub async fn list_of_tenant(
        &self,
        caller: &Caller,
        query: &TenantWebhookQuery,
    ) -> Result<Page<Subscription, OneOrder>, StoreError> {
        let scopes = self.store.admin_access(caller, "webhooks:read", "").await?;
        let mut walk = WebhookWalk {
            fence: scopes,
            ..WebhookWalk::new(&self.store, &query.filter)
        };
        let mut page = page_along(&mut walk, query, OneOrder::Only, Bounds::default()).await?;
        self.mask_queries(caller, &mut page.rows).await?;
        Ok(page)
    }

    /// A page of the deliveries to a subscription. With a sparse filter it may be short.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription.
    pub async fn deliveries(
        &self,
        caller: &Caller,
        id: &str,
        query: &DeliveryQuery,
    ) -> Result<Page<Delivery, OneOrder>, StoreError> {
        let id = self.parse_id(caller, id, "webhooks:read").await?;
        let (window, after) = (query.filter.window, query.after.as_ref());
        let after = after.and_then(|after| Some((after.number()?, after.id.clone())));
        let today = self.store.today();
        let day_of = |ms: Option<i64>| ms.map(Day::of_ms);
        let last = day_of(after.as_ref().map(|(ms, _)| *ms).or(window.to_ms));
        // Clocks of replicas may be behind that of the store.
        let mut day = last.map_or(today.plus(1), |last| last.min(today.plus(1)));
        let oldest = today.plus(-KEPT_DAYS);
        let oldest = day_of(window.from_ms).map_or(oldest, |first| first.max(oldest));
        let target = WebhookTarget { id, tenant: None };
        let bound = |ms: Option<i64>, open: &str| ms.map_or(open.to_owned(), |ms| ms.to_string());
        let entry = after.as_ref().map(|(_, entry)| entry.as_str());
        let mut rows = Vec::new();
        let next = loop {
            let call = ListDeliveries {
                partition: match caller {
                    Caller::Tenant(caller) => caller.partition,
                    Caller::Admin(_) => target.id.partition(),
                },
                caller: caller.into(),
                subscription_id: &target.id,
                queued_on: day,
                from_ms: bound(window.from_ms, "-inf"),
                to_ms: bound(window.to_ms, "+inf"),
                after: entry.filter(|entry| !entry.is_empty()),
                rows: query.limit - rows.len(),
                status: query.filter.status.map(DeliveryStatus::as_str),
            };
            let ListDeliveriesReply::Listed {
                last_ms,
                last,
                id_record,
            } = target.run(&self.store, &call).await?;
            rows.extend(id_record.into_iter().filter_map(|(id, record)| {
                readable("delivery", &id, Delivery::from_stored(&id, &record))
            }));
            // The day has more.
            if let Some(ms) = last_ms {
                break Some(Position::new(ms, last));
            }
            if day <= oldest {
                break None;
            }
            if rows.len() == query.limit {
                break Some(Position::new(day.start_ms() - 1, String::new()));
            }
            day = day.plus(-1);
        };
        Ok(Page::new(rows, query.sort, next))
    }
}

/// A walk along the subscriptions of one owner, or of all, in the order of their ids.
pub(in crate::admin) struct WebhookWalk<'a> {
    store: &'a Store,
    filter: &'a WebhookFilter,
    /// The scopes of the caller's key.
    fence: ScopeFilter,
}

impl<'a> WebhookWalk<'a> {
    /// For the admin key.
    pub fn new(store: &'a Store, filter: &'a WebhookFilter) -> Self {
        Self {
            store,
            filter,
            fence: ScopeFilter::default(),
        }
    }
}

impl Walk for WebhookWalk<'_> {
    type Row = Subscription;
    type Error = StoreError;
    /// Their records are large.
    const ROWS: usize = 100;

    fn is_filtered(&self) -> bool {
        let WebhookFilter {
            owner: _,
            status,
            event_type,
            search,
        } = self.filter;
        let is_plain = status.is_none() && event_type.is_none() && search.is_none();
        !is_plain || !self.fence.is_unrestricted()
    }

    async fn step(&mut self, range: StepRange<'_>) -> Result<Step<Subscription>, StoreError> {
        let (store, filter, fence) = (self.store, self.filter, &self.fence);
        let ids = match &filter.owner {
            OwnerFilter::Nobody => Vec::new(),
            owner => {
                let ids = store.webhook_entries(owner.owner(), range.after_id(), range.rows);
                ids.await?
            }
        };
        let complete = ids.len() < range.rows;
        let entries = ids.into_iter().map(Position::of_id).collect();
        let key = |entry: &Position| {
            let id = SubscriptionId::parse(&entry.id)?;
            Some(store.keys().webhook(id.partition(), id.as_str()))
        };
        let read = |_: &Position, record: &_| Subscription::from_record(record);
        let fields = Subscription::field_names();
        let step = records::step(store, "webhook", (entries, complete), (key, &fields), read);
        let is_listed = |found: &Subscription| {
            fence.admits_all_of(found.scope_filter.as_deref()) && filter.matches(found)
        };
        Ok(step.await?.filter(is_listed))
    }
}

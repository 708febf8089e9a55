//! Lists of subscriptions: a tenant's in the order of their ids, and the operator's of all.

use super::Webhooks;
use crate::admin::records;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::domain::search::Search;
use crate::domain::webhook::{Owner, Subscription, SubscriptionId, WebhookStatus};
use crate::listing::{
    Bounds, Entry, ListQuery, OneOrder, Page, Position, STEP_ROWS, Step, Walk, gather, orders,
    readable,
};
use crate::store::admin::webhook_lists::{ListWebhooks, ListWebhooksReply};
use crate::store::target::Target as _;
use crate::store::{Store, StoreError};

orders! {
    /// What a list of subscriptions can be sorted by.
    WebhookSort of subscription: Subscription {
        rows: "webhooks", advice: "narrow the list by tenant_id, status, event_type or search",
        id: subscription.subscription_id, default: ConsecutiveFailures
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

/// Whose subscriptions are asked for.
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
    /// Whom a request names, if anybody.
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

/// Which subscriptions are asked for; all of it must hold.
#[derive(Debug, Clone)]
pub struct WebhookFilter {
    /// Of this owner.
    pub owner: OwnerFilter,
    /// Of this status.
    pub status: Option<WebhookStatus>,
    /// Which name this type.
    pub event_type: Option<String>,
    /// Whose id or address contains this.
    pub search: Option<Search>,
}

impl WebhookFilter {
    fn matches(&self, subscription: &Subscription) -> bool {
        let texts = [subscription.subscription_id.as_str(), &subscription.url];
        let found = |search: &Search| search.finds_any(texts);
        let names = |wanted: &String| {
            let mut types = subscription.event_types.iter();
            types.any(|name| name.as_str() == wanted)
        };
        let status = subscription.status;
        self.status.is_none_or(|wanted| wanted == status)
            && self.event_type.as_ref().is_none_or(names)
            && self.search.as_ref().is_none_or(found)
    }
}

/// Which subscriptions of one tenant are asked for.
#[derive(Debug, Clone)]
pub struct TenantWebhookFilter {
    /// The owner, as it was sent.
    pub tenant: Option<String>,
    /// Of this status.
    pub status: Option<WebhookStatus>,
}

/// What is asked of the list of all subscriptions.
pub type WebhookQuery = ListQuery<WebhookFilter, WebhookSort>;
/// What is asked of the list of a tenant's subscriptions.
pub type TenantWebhookQuery = ListQuery<TenantWebhookFilter, OneOrder>;

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
        let page = gather(&mut walk, query, Bounds::default());
        self.store.serve_gathering(page).await
    }

    /// A page of one tenant's subscriptions, in the order of their ids. With a sparse filter it may be short.
    ///
    /// # Errors
    /// Refusals of the key.
    pub async fn list_of_tenant(
        &self,
        caller: &Caller,
        tenant: &TenantId,
        query: &TenantWebhookQuery,
    ) -> Result<Page<Subscription, OneOrder>, StoreError> {
        let call = ListWebhooks {
            caller: caller.into(),
            tenant,
            after: query.after.as_ref().map(|after| after.id.as_str()),
            rows: query.limit,
            status: query.filter.status.map(WebhookStatus::as_str),
        };
        let ListWebhooksReply::Listed { last, records } = tenant.run(&self.store, &call).await?;
        let next = (!last.is_empty()).then(|| Position::of_id(last));
        let page = Page::new(records, query.sort, next);
        Ok(page.filter_map(|record| {
            let id = record.get("subscription_id").unwrap_or_default();
            readable("webhook", id, Subscription::from_record(&record))
        }))
    }
}

/// A walk along the subscriptions of one owner, or of all, in the order of their ids.
pub(in crate::admin) struct WebhookWalk<'a> {
    store: &'a Store,
    filter: &'a WebhookFilter,
    after: Option<String>,
}

impl<'a> WebhookWalk<'a> {
    /// From the first id on.
    pub fn new(store: &'a Store, filter: &'a WebhookFilter) -> Self {
        Self {
            store,
            filter,
            after: None,
        }
    }
}

impl Walk for WebhookWalk<'_> {
    type Row = Subscription;
    type Error = StoreError;

    async fn step(&mut self) -> Result<Step<Subscription>, StoreError> {
        let (owner, after) = (self.filter.owner.owner(), self.after.as_deref());
        let entries = match self.filter.owner {
            OwnerFilter::Nobody => Vec::new(),
            _ => self.store.webhook_entries(owner, after, STEP_ROWS).await?,
        };
        let complete = entries.len() < STEP_ROWS;
        let ids = records::ids(&entries, SubscriptionId::parse);
        let found = self.store.webhook_records(&ids).await?;
        let read = |_: &SubscriptionId, record: &Record| Subscription::from_record(record);
        let rows = records::rows("webhook", &entries, &ids, found, read);
        self.after = entries.last().cloned();
        let entries = entries.into_iter().zip(rows).map(|(entry, row)| Entry {
            position: Position::of_id(entry),
            row: row.filter(|row| self.filter.matches(row)),
        });
        Ok(Step::new(entries.collect(), complete))
    }
}

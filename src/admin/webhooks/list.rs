//! Lists of subscriptions: a tenant's in the order of their ids, and the operator's view of all.

use std::cmp::Ordering;

use super::{WebhookError, Webhooks};
use crate::admin::{AdminError, refuse};
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::webhook::{Owner, Subscription, SubscriptionId, WebhookStatus};
use crate::domain::words::words;
use crate::store::{Store, StoreError};
use tracing::error;

/// Entries of the directory that are read at once.
const STEP_ROWS: usize = 500;
/// Matches that a sort gathers, and entries that it looks at for them.
const MATCHES_MAX: usize = 10_000;
const ROWS_MAX: usize = 50_000;

words! {
    /// What a list of subscriptions can be sorted by.
    WebhookSort {
        /// The address.
        Url = "url",
        /// The owner.
        TenantId = "tenant_id",
        /// The status.
        Status = "status",
        /// Deliveries in a row that have failed.
        ConsecutiveFailures = "consecutive_failures",
    }
}

impl WebhookSort {
    /// The text by which rows are compared; numbers with all their digits.
    fn value(self, subscription: &Subscription) -> String {
        match self {
            Self::Url => subscription.url.clone(),
            Self::TenantId => subscription.owner.to_string(),
            Self::Status => subscription.status.as_str().to_owned(),
            Self::ConsecutiveFailures => {
                format!("{:019}", subscription.consecutive_failures.max(0))
            }
        }
    }
}

/// A row's place in the order of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookPlace {
    /// Its value of what the list is sorted by.
    pub value: String,
    /// Its id.
    pub id: String,
}

/// Subscriptions that are asked for.
#[derive(Debug, Clone)]
pub struct WebhookQuery {
    /// Of this owner.
    pub owner: Option<Owner>,
    /// Of this status.
    pub status: Option<WebhookStatus>,
    /// Which name this type.
    pub event_type: Option<String>,
    /// Whose id or address contains this, whatever the case.
    pub search: Option<String>,
    /// The order.
    pub sort: WebhookSort,
    /// Largest first.
    pub descending: bool,
    /// Where the last page ended.
    pub after: Option<WebhookPlace>,
    /// Rows at most, at least 1.
    pub limit: usize,
}

/// A page of subscriptions.
#[derive(Debug)]
pub struct WebhookPage {
    /// In order.
    pub subscriptions: Vec<Subscription>,
    /// Behind which place the next page starts, when there may be one.
    pub next: Option<WebhookPlace>,
}

impl Webhooks {
    /// A page of all subscriptions.
    ///
    /// # Errors
    /// [`AdminRefusal::TooManyToSort`].
    pub async fn list(&self, query: &WebhookQuery) -> Result<WebhookPage, AdminError> {
        let (mut rows, mut examined, mut after) = (Vec::new(), 0, None::<String>);
        loop {
            let (found, last) = step(&self.store, query, after.as_deref()).await?;
            rows.extend(found);
            examined += STEP_ROWS;
            if rows.len() > MATCHES_MAX || (examined > ROWS_MAX && last.is_some()) {
                let bound = MATCHES_MAX;
                return refuse(AdminRefusal::TooManyWebhooks { bound });
            }
            if last.is_none() {
                return Ok(page(rows, query));
            }
            after = last;
        }
    }

    /// A page of one tenant's subscriptions, in the order of their ids.
    ///
    /// # Errors
    /// Refusals of the key.
    pub async fn list_of_tenant(
        &self,
        caller: &Caller,
        tenant: &TenantId,
        status: Option<WebhookStatus>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<WebhookPage, WebhookError> {
        let status = status.map(WebhookStatus::as_str);
        let found = self
            .store
            .list_webhooks(caller, tenant, after, limit, status)
            .await?;
        let subscriptions = found.records.iter().filter_map(|record| {
            let id = record.get("subscription_id").unwrap_or_default();
            readable(id, Subscription::from_record(record))
        });
        Ok(WebhookPage {
            subscriptions: subscriptions.collect(),
            next: found.last.map(|id| WebhookPlace {
                value: id.clone(),
                id,
            }),
        })
    }
}

/// The matches among the next entries of the index, and the last of these entries unless the index ends there.
pub(in crate::admin) async fn step(
    store: &Store,
    query: &WebhookQuery,
    after: Option<&str>,
) -> Result<(Vec<Subscription>, Option<String>), StoreError> {
    let owner = query.owner.as_ref();
    let mut entries = store.webhook_entries(owner, after, STEP_ROWS).await?;
    let ids: Vec<SubscriptionId> = entries
        .iter()
        .filter_map(|entry| SubscriptionId::parse(entry))
        .collect();
    let mut found = Vec::new();
    for (id, record) in ids.iter().zip(store.webhook_records(&ids).await?) {
        let subscription = record.map_err(AdminError::from).and_then(|record| {
            // The directory has learnt of it, and the record is not yet written or already gone.
            let written = (!record.is_empty()).then_some(record);
            Ok(written
                .as_ref()
                .map(Subscription::from_record)
                .transpose()?)
        });
        let subscription = readable(id.as_str(), subscription).flatten();
        found.extend(subscription.filter(|found| query.matches(found)));
    }
    let last = entries.pop().filter(|_| entries.len() + 1 == STEP_ROWS);
    Ok((found, last))
}

/// What was read of a record. One that is damaged must not take the whole list away.
fn readable<T>(id: &str, read: Result<T, impl std::fmt::Display>) -> Option<T> {
    read.inspect_err(|damage| {
        error!(
            webhook.id = id, error = %damage,
            "the webhook `{id}` is left out of lists: {damage}"
        );
    })
    .ok()
}

impl WebhookQuery {
    fn matches(&self, subscription: &Subscription) -> bool {
        let search = self.search.as_ref().map(|search| search.to_lowercase());
        let found = |text: &str, search: &str| text.to_lowercase().contains(search);
        self.status
            .is_none_or(|status| subscription.status == status)
            && self.event_type.as_ref().is_none_or(|wanted| {
                let types = &subscription.event_types;
                types.iter().any(|name| name.as_str() == wanted)
            })
            && search.is_none_or(|search| {
                found(subscription.subscription_id.as_str(), &search)
                    || found(&subscription.url, &search)
            })
    }
}

/// The page behind the query's place. Equal values stand by id, in the same direction.
fn page(rows: Vec<Subscription>, query: &WebhookQuery) -> WebhookPage {
    let order = |a: (&str, &str), b: (&str, &str)| match query.descending {
        true => b.cmp(&a),
        false => a.cmp(&b),
    };
    let mut rows: Vec<(String, Subscription)> = rows
        .into_iter()
        .map(|subscription| (query.sort.value(&subscription), subscription))
        .collect();
    if let Some(after) = &query.after {
        let place = (after.value.as_str(), after.id.as_str());
        rows.retain(|(value, row)| {
            order((value, row.subscription_id.as_str()), place) == Ordering::Greater
        });
    }
    rows.sort_by(|(a_value, a), (b_value, b)| {
        order(
            (a_value, a.subscription_id.as_str()),
            (b_value, b.subscription_id.as_str()),
        )
    });
    let more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let next = rows
        .last()
        .filter(|_| more)
        .map(|(value, row)| WebhookPlace {
            value: value.clone(),
            id: row.subscription_id.to_string(),
        });
    WebhookPage {
        subscriptions: rows.into_iter().map(|(_, row)| row).collect(),
        next,
    }
}

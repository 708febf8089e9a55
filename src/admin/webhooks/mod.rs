//! Webhook subscriptions of tenants and of the operator: create, read, list, change, delete and test them; replays.

mod create;
pub(in crate::admin) mod list;
mod replay;
mod secrets;
mod security;
pub(crate) mod sending;
mod test;
mod update;

use tracing::warn;

pub use create::WebhookCreateResponse;
pub use list::{
    DeliveryFilter, DeliveryQuery, OwnerFilter, TenantWebhookQuery, WebhookFilter, WebhookQuery,
    WebhookSort,
};
pub use replay::ReplayResponse;
pub use security::WebhookSecurityConfig;
pub use test::WebhookTestResponse;

use super::{Change, Request, refuse};
use crate::domain::caller::Caller;
use crate::domain::dialect::Words;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::record::Record;
use crate::domain::refusal::{AccessRefusal, CountLimits, Refusal, WebhookRefusal};
use crate::domain::seal::SealingKeys;
use crate::domain::tenant::SYSTEM;
use crate::domain::webhook::{Owner, Subscription, SubscriptionId};
use crate::egress::{AdmissionError, Egress, SecurityPolicy};
use crate::store::admin::thresholds::WatchedThresholds;
use crate::store::admin::webhooks::{
    DeleteWebhook, DeleteWebhookReply, OwnerState, READ_WEBHOOK, ReadWebhook, ReadWebhookReply,
    idempotency_scope,
};
use crate::store::signature::{FlatRecord, Refused};
use crate::store::target::Target;
use crate::store::{Store, StoreError};
use secrets::Secrets;

/// The operations on subscriptions. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks {
    store: Store,
    keys: SealingKeys,
    egress: Egress,
    words: &'static Words,
    retention_days: i64,
    limits: CountLimits,
}

/// A subscription as it was read for a change or a use.
struct LoadedSubscription {
    now_ms: i64,
    owner: OwnerState,
    record: Record,
    subscription: Subscription,
}

/// A subscription that was read, or the outcome of an earlier request under the same idempotency key.
enum ReadResult {
    Found(Box<LoadedSubscription>),
    Replayed(Vec<String>),
}

/// A subscription as requests name it.
pub(super) struct WebhookTarget {
    pub(super) id: SubscriptionId,
    /// Its owner, where that is known and a tenant.
    pub(super) tenant: Option<TenantId>,
}

impl WebhookTarget {
    fn new(id: &SubscriptionId, owner: &Owner) -> Self {
        Self {
            id: id.clone(),
            tenant: owner.tenant().cloned(),
        }
    }
}

impl Target for WebhookTarget {
    fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    fn refusal(&self, refused: &Refused) -> Option<Refusal> {
        use WebhookRefusal as R;
        let refusal = match *refused {
            Refused::WebhookNotFound => R::NotFound(self.id.to_string()),
            Refused::Locked => R::ReplayInProgress(self.id.to_string()),
            Refused::Limited {
                retry_in_ms,
                until_ms,
                most,
            } => R::TestedTooOften {
                id: self.id.to_string(),
                most,
                retry_in_ms,
                until_ms,
            },
            Refused::OwnerLimited {
                retry_in_ms,
                until_ms,
                most,
            } => R::OwnerTestedTooOften {
                owner: self
                    .tenant
                    .as_ref()
                    .map_or(SYSTEM.to_owned(), TenantId::to_string),
                most,
                retry_in_ms,
                until_ms,
            },
            _ => return self.tenant.as_ref()?.refusal(refused),
        };
        Some(refusal.into())
    }
}

impl LoadedSubscription {
    fn target(&self) -> WebhookTarget {
        WebhookTarget::new(&self.subscription.subscription_id, &self.subscription.owner)
    }

    /// Whether the owner can change it.
    fn check_owner(&self) -> Result<(), StoreError> {
        match self.owner.0.clone() {
            Some(refused) => Err(self.target().error(refused, &READ_WEBHOOK)),
            None => Ok(()),
        }
    }
}

impl Webhooks {
    /// Over a store. `retention_days`: how long events are kept.
    pub fn new(
        store: Store,
        keys: SealingKeys,
        egress: Egress,
        words: &'static Words,
        retention_days: i64,
    ) -> Self {
        Self {
            store,
            keys,
            egress,
            words,
            retention_days,
            limits: CountLimits::DEFAULT,
        }
    }

    /// With other limits than the defaults.
    pub fn limits(self, limits: CountLimits) -> Self {
        Self { limits, ..self }
    }

    /// The store that they are in.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Whether secrets are stored sealed.
    pub fn seals(&self) -> bool {
        self.keys.is_present()
    }

    /// One subscription, without its secrets.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription.
    pub async fn get(&self, caller: &Caller, id: &str) -> Result<Subscription, StoreError> {
        let loaded = self.open(caller, id, "webhooks:read").await?;
        let mut found = [loaded.subscription];
        self.mask_queries(caller, &mut found).await?;
        let [subscription] = found;
        Ok(subscription)
    }

    /// Hides the query of each address from a key that cannot change it: receivers' secrets are often there.
    async fn mask_queries(
        &self,
        caller: &Caller,
        found: &mut [Subscription],
    ) -> Result<(), StoreError> {
        if !found.iter().any(|one| one.url.contains('?')) {
            return Ok(());
        }
        let granted = self.store.admin_access(caller, "webhooks:write", "").await;
        match granted.as_ref().map_err(StoreError::refusal) {
            Err(Some(Refusal::Access(AccessRefusal::NotPermitted(_)))) => {
                found.iter_mut().for_each(Subscription::mask_query);
                Ok(())
            }
            _ => granted.map(drop),
        }
    }

    /// Removes a subscription with its secrets.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription; the owner closed or suspended.
    pub async fn delete(
        &self,
        caller: &Caller,
        id: &str,
        operation: &'static str,
        request: &Request<'_>,
    ) -> Result<(), StoreError> {
        let id = self.parse_id(caller, id, "webhooks:write").await?;
        let change = Change::new(request, operation, ("webhook", id.as_str()), Some(204));
        let owner = match caller {
            Caller::Tenant(caller) => Owner::Tenant(caller.tenant.clone()),
            Caller::Admin(_) => {
                let read = self.read(caller, &id, "webhooks:write", None, Some(&change));
                match read.await? {
                    ReadResult::Found(loaded) => loaded.subscription.owner,
                    ReadResult::Replayed(_) => return Ok(()),
                }
            }
        };
        let call = DeleteWebhook {
            caller: caller.into(),
            idempotency_scope: idempotency_scope(caller, &id),
            change: &change,
            owner: &owner,
            subscription_id: &id,
        };
        let target = WebhookTarget::new(&id, &owner);
        let DeleteWebhookReply::Deleted { watched } = target.run(&self.store, &call).await?;
        let left = self.store.leave_webhook_directory(&[id.as_str()]).await;
        target.about(left)?;
        self.copy_thresholds(watched).await;
        Ok(())
    }

    /// Parses an id. A malformed one is refused as not found, after the key is checked.
    async fn parse_id(
        &self,
        caller: &Caller,
        id: &str,
        permission: &str,
    ) -> Result<SubscriptionId, StoreError> {
        if let Some(id) = SubscriptionId::parse(id) {
            return Ok(id);
        }
        self.store.admin_access(caller, permission, "").await?;
        refuse(WebhookRefusal::NotFound(id.to_owned()))
    }

    /// Reads a subscription to use it.
    async fn open(
        &self,
        caller: &Caller,
        id: &str,
        permission: &str,
    ) -> Result<LoadedSubscription, StoreError> {
        let id = self.parse_id(caller, id, permission).await?;
        match self.read(caller, &id, permission, None, None).await? {
            ReadResult::Found(loaded) => Ok(*loaded),
            ReadResult::Replayed(_) => refuse(WebhookRefusal::NotFound(id.to_string())),
        }
    }

    /// `subscribes`: the scope filter that it is to have, after `=`, where that is to change.
    async fn read(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        permission: &str,
        subscribes: Option<&str>,
        change: Option<&Change<'_>>,
    ) -> Result<ReadResult, StoreError> {
        let change = change.filter(|change| change.digest.is_some());
        let call = ReadWebhook {
            partition: match caller {
                Caller::Tenant(caller) => caller.partition,
                Caller::Admin(_) => id.partition(),
            },
            caller: caller.into(),
            subscription_id: id,
            idempotency_scope: idempotency_scope(caller, id),
            digest: change.and_then(|change| change.digest.as_deref()),
            permission,
            subscribes,
            payload_hash: change.map(|change| change.payload_hash),
        };
        let target = WebhookTarget {
            id: id.clone(),
            tenant: None,
        };
        match target.run(&self.store, &call).await? {
            ReadWebhookReply::Replayed { outcome } => Ok(ReadResult::Replayed(outcome)),
            ReadWebhookReply::Found {
                now_ms,
                owner_state: owner,
                record: FlatRecord(record),
            } => Ok(ReadResult::Found(Box::new(LoadedSubscription {
                now_ms,
                owner,
                subscription: Subscription::from_record(&record)?,
                record,
            }))),
        }
    }

    /// Whether the service may send there, for a request that names the address.
    async fn check_url(
        &self,
        url: &str,
        owner: &Owner,
        policy: &SecurityPolicy,
    ) -> Result<(), StoreError> {
        match self.egress.admit(url, policy, owner.as_str()).await {
            Ok(_) => Ok(()),
            Err(AdmissionError::Violation(why)) => refuse(WebhookRefusal::UrlNotAdmitted(why)),
            // For development, where names come and go.
            Err(AdmissionError::Unresolvable) if policy.blocked.is_empty() => Ok(()),
            Err(AdmissionError::Busy) => refuse(WebhookRefusal::LookUpsBusy),
            Err(host) => refuse(WebhookRefusal::UrlNotAdmitted(host.to_string())),
        }
    }

    /// Copies the operator's thresholds to every partition. A dispatcher copies those that cannot be reached now.
    async fn copy_thresholds(&self, watched: Option<WatchedThresholds>) {
        let Some(watched) = watched else { return };
        let partitions: Vec<_> = Partition::all().collect();
        let missed = match self.store.copy_thresholds(&partitions, &watched).await {
            Ok(missed) => missed.len(),
            Err(_) => partitions.len(),
        };
        if missed > 0 {
            warn!(
                partitions = missed,
                "the thresholds of the operator's webhooks did not reach {missed} partitions yet; a dispatcher copies them"
            );
        }
    }
}

/// Words with a blank between them.
fn joined<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().collect::<Vec<_>>().join(" ")
}

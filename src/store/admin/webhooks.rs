//! `create_webhook.lua`, `read_webhook.lua`, `update_webhook.lua` and `delete_webhook.lua`.

use crate::domain::caller::Caller;
use crate::domain::ids::Partition;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::webhook::{Owner, SubscriptionId};
use crate::driver::error::StoreError;
use crate::driver::reply::{FromReply, Reply};
use crate::driver::script::Counted;
use crate::store::admin::thresholds::Watched;
use crate::store::admin::{AdminError, Change, Pairs, caller_words};
use crate::store::signature::{FlatRecord, Refused, signature};
use crate::store::{Pair, Store};

signature! {
    /// Records a subscription of a tenant or of the operator.
    ///
    /// mode: tenant, system, or check, which decides everything that could refuse it, for a request that is refused otherwise.
    /// watched: a version and a union of thresholds, empty unless every partition must learn of them.
    CREATE_WEBHOOK: CreateWebhook -> CreateWebhookReply = "admin/webhooks/create_webhook";
    names { partition: Partition, key_id: &'a str, digest: Option<&'a str> }
    keys of partition {
        read api_key(key_id);
        write tenant_key: tenant(owner), webhook(subscription_id), webhooks(owner), watch(owner), thresholds(),
            event_log: events(owner, day), outbox(), days(), audit_log: audit(owner, day), chain(owner), unsealed(), counts(),
            idempotency(owner, digest) when digest;
    }
    args {
        day,
        /// Empty for the admin key.
        key_hash: &'a str,
        owner: &'a str,
        subscription_id: &'a str,
        mode: &'a str,
        /// What it watches, blanks between.
        millionths: &'a str,
        payload_hash: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// Names and values of the record.
        fields: Counted<&'a [Pair]>,
        /// Names and values of the audit entry.
        audit: &'a [Pair],
    }
    replies {
        unauthorized, forbidden, clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed, tenant_suspended,
        tenant_not_found, taken: Taken, checked: Checked, created: Created { watched: Option<Watched>, record: FlatRecord },
    }
    writes "On created: the counts, the subscription, the owner's list, what it watches, the event, the audit entry. Otherwise \
nothing."
}

signature! {
    /// Reads a subscription with its secrets, for what the replica must do before it can change or use it; and whether its owner
    /// can change it.
    ///
    /// owner_state: open, tenant_closed, tenant_suspended or tenant_unreadable.
    READ_WEBHOOK: ReadWebhook -> ReadWebhookReply = "admin/webhooks/read_webhook", flags "no-writes,allow-oom";
    names {
        partition: Partition, key_id: &'a str, subscription_id: &'a str, idempotency_scope: &'a str, digest: Option<&'a str>,
    }
    keys of partition {
        read api_key(key_id), webhook(subscription_id), idempotency(idempotency_scope, digest) when digest;
    }
    builds { read tenant }
    args {
        /// Empty for the admin key.
        key_hash: &'a str,
        /// Of the API key.
        tenant: &'a str,
        permission: &'a str,
        payload_hash: Option<&'a str>,
        tenant_prefix = tenant_prefix(),
    }
    replies {
        unauthorized, forbidden, idempotency_mismatch, replayed: Replayed { outcome: Vec<String> }, not_found,
        found: Found { now_ms: i64, owner_state: OwnerState, record: FlatRecord },
    }
    writes "Nothing."
}

signature! {
    /// Writes what was computed from a subscription as it was read; nothing if it is another by now.
    ///
    /// watched: a version and a union of thresholds, empty unless every partition must learn of them.
    UPDATE_WEBHOOK: UpdateWebhook -> UpdateWebhookReply = "admin/webhooks/update_webhook";
    names { partition: Partition, key_id: &'a str, idempotency_scope: &'a str, digest: Option<&'a str> }
    keys of partition {
        read api_key(key_id);
        write tenant_key: tenant(owner), webhook(subscription_id), watch(owner), thresholds(), event_log: events(owner, day),
            outbox(), days(), audit_log: audit(owner, day), chain(owner), unsealed(), counts(), failing(),
            idempotency(idempotency_scope, digest) when digest;
    }
    args {
        day,
        /// Empty for the admin key.
        key_hash: &'a str,
        owner: &'a str,
        subscription_id: &'a str,
        /// As it was read.
        version: i64,
        /// As it was read.
        status: &'a str,
        /// What it watches, blanks between.
        millionths: &'a str,
        payload_hash: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// '' for no event.
        event_type: Option<&'a str>,
        /// Blanks between.
        changed_fields: &'a str,
        /// Fields to be removed, blanks between.
        dropped: &'a str,
        /// Names and values to be written.
        fields: Counted<&'a [Pair]>,
        /// Names and values of the audit entry.
        audit: &'a [Pair],
    }
    replies {
        unauthorized, forbidden, clock, idempotency_mismatch, replayed, not_found, tenant_unreadable, tenant_closed,
        tenant_suspended, stale: Stale, updated: Updated { watched: Option<Watched>, record: FlatRecord },
    }
    writes "On updated: the counts, the subscription, its place among the failing, what it watches, the event if it has one, the \
audit entry. Otherwise nothing."
}

signature! {
    /// Removes a subscription with its secrets. What is queued for it fails when it is picked up.
    ///
    /// watched: a version and a union of thresholds, empty unless every partition must learn of them.
    DELETE_WEBHOOK: DeleteWebhook -> DeleteWebhookReply = "admin/webhooks/delete_webhook", flags "allow-oom";
    names { partition: Partition, key_id: &'a str, idempotency_scope: &'a str, digest: Option<&'a str> }
    keys of partition {
        read api_key(key_id);
        write tenant_key: tenant(owner), webhook(subscription_id), webhooks(owner), watch(owner), thresholds(),
            event_log: events(owner, day), outbox(), days(), audit_log: audit(owner, day), chain(owner), unsealed(), counts(),
            failing(), idempotency(idempotency_scope, digest) when digest;
    }
    args {
        day,
        /// Empty for the admin key.
        key_hash: &'a str,
        owner: &'a str,
        subscription_id: &'a str,
        payload_hash: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// Names and values of the audit entry, except the address.
        audit: &'a [Pair],
    }
    replies {
        unauthorized, forbidden, clock, idempotency_mismatch, replayed, not_found, tenant_unreadable, tenant_closed,
        tenant_suspended, deleted: Deleted { watched: Option<Watched> },
    }
    writes "On deleted: the counts; the subscription and its entries go; the event, the audit entry. Otherwise nothing."
}

/// A subscription to be recorded.
#[derive(Debug)]
pub struct WebhookRecord<'a> {
    /// Names it; of the owner's partition.
    pub subscription_id: &'a SubscriptionId,
    /// Whose.
    pub owner: &'a Owner,
    /// The thresholds that it watches, in millionths, blanks between.
    pub millionths: &'a str,
    /// What only the record keeps; secrets sealed.
    pub fields: &'a Pairs,
}

/// How the owner of a subscription stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerState {
    /// Nothing stands against a change.
    Open,
    /// A change is refused for this.
    Refused(AdminRefusal),
}

/// A change of a subscription, computed from its record.
#[derive(Debug)]
pub struct WebhookUpdate<'a> {
    /// Which.
    pub subscription_id: &'a SubscriptionId,
    /// Whose.
    pub owner: &'a Owner,
    /// The version that it was computed from.
    pub version: i64,
    /// The status that it was computed from.
    pub status: &'a str,
    /// The thresholds that it watches afterwards, in millionths, blanks between.
    pub millionths: &'a str,
    /// The event to be told, if any.
    pub event_type: Option<&'a str>,
    /// What has changed besides the status.
    pub changed_fields: &'a str,
    /// Fields that go.
    pub dropped: &'a str,
    /// Fields to be written.
    pub fields: &'a Pairs,
}

/// `open`, or the refusal of a change.
impl FromReply for OwnerState {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let word = reply.next_str()?;
        Ok(Self::Refused(match word.as_str() {
            "open" => return Ok(Self::Open),
            "tenant_closed" => AdminRefusal::TenantClosed,
            "tenant_suspended" => AdminRefusal::TenantSuspended,
            "tenant_unreadable" => AdminRefusal::TenantUnreadable,
            _ => return Err(reply.unknown(&word)),
        }))
    }
}

impl Store {
    /// Records a subscription; where `check`, only finds out what would be refused. The directory learns of it first.
    ///
    /// # Errors
    /// Refusals: of the key; the owner closed, suspended or unknown.
    pub(crate) async fn create_webhook(
        &self,
        caller: &Caller,
        webhook: &WebhookRecord<'_>,
        change: &Change<'_>,
        check: bool,
    ) -> Result<CreateWebhookReply, AdminError> {
        let id = webhook.subscription_id.as_str();
        if !check {
            let directory = self.keys().webhook_directory();
            let mut enter = redis::cmd("ZADD");
            enter.arg(&directory).arg(0).arg(id);
            self.query(&directory, &enter).await?;
        }
        let (key_hash, key_id) = caller_words(caller);
        let call = CreateWebhook {
            partition: webhook.owner.partition(),
            key_id,
            digest: change.idempotency,
            key_hash,
            owner: webhook.owner.as_str(),
            subscription_id: id,
            mode: match (check, webhook.owner.tenant()) {
                (true, _) => "check",
                (false, Some(_)) => "tenant",
                (false, None) => "system",
            },
            millionths: webhook.millionths,
            payload_hash: change.payload_hash,
            context: change.cause,
            fields: Counted(webhook.fields),
            audit: change.audit,
        };
        match self.run(&call).await? {
            Ok(reply) => Ok(reply),
            Err(Refused::TenantNotFound) => Err(AdminRefusal::TenantNotFound.into()),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Reads a subscription with its sealed secrets. Another tenant's is as if it were not there. Of a request with a key
    /// the first answer is found, whatever has become of the subscription.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription.
    pub(crate) async fn read_webhook(
        &self,
        caller: &Caller,
        subscription_id: &SubscriptionId,
        permission: &str,
        idempotency: Option<(&str, &str)>,
    ) -> Result<ReadWebhookReply, AdminError> {
        let (partition, tenant) = match caller {
            Caller::Tenant(caller) => (caller.partition, caller.tenant.as_str()),
            Caller::Admin(_) => (subscription_id.partition(), ""),
        };
        let (key_hash, key_id) = caller_words(caller);
        let call = ReadWebhook {
            partition,
            key_id,
            subscription_id: subscription_id.as_str(),
            idempotency_scope: idempotency_scope(caller, subscription_id),
            digest: idempotency.map(|(digest, _)| digest),
            key_hash,
            tenant,
            permission,
            payload_hash: idempotency.map(|(_, payload_hash)| payload_hash),
        };
        match self.run(&call).await? {
            Ok(reply) => Ok(reply),
            Err(Refused::NotFound) => Err(AdminRefusal::WebhookNotFound.into()),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Writes a change that was computed from a subscription as it was read.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription; the owner closed or suspended.
    pub(crate) async fn update_webhook(
        &self,
        caller: &Caller,
        update: &WebhookUpdate<'_>,
        change: &Change<'_>,
    ) -> Result<UpdateWebhookReply, AdminError> {
        let (key_hash, key_id) = caller_words(caller);
        let call = UpdateWebhook {
            partition: update.owner.partition(),
            key_id,
            idempotency_scope: idempotency_scope(caller, update.subscription_id),
            digest: change.idempotency,
            key_hash,
            owner: update.owner.as_str(),
            subscription_id: update.subscription_id.as_str(),
            version: update.version,
            status: update.status,
            millionths: update.millionths,
            payload_hash: change.payload_hash,
            context: change.cause,
            event_type: update.event_type,
            changed_fields: update.changed_fields,
            dropped: update.dropped,
            fields: Counted(update.fields),
            audit: change.audit,
        };
        match self.run(&call).await? {
            Ok(reply) => Ok(reply),
            Err(Refused::NotFound) => Err(AdminRefusal::WebhookNotFound.into()),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Removes a subscription of this owner, then its entry in the directory.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription; the owner closed or suspended.
    pub(crate) async fn delete_webhook(
        &self,
        caller: &Caller,
        subscription_id: &SubscriptionId,
        owner: &Owner,
        change: &Change<'_>,
    ) -> Result<Option<Watched>, AdminError> {
        let id = subscription_id.as_str();
        let (key_hash, key_id) = caller_words(caller);
        let call = DeleteWebhook {
            partition: owner.partition(),
            key_id,
            idempotency_scope: idempotency_scope(caller, subscription_id),
            digest: change.idempotency,
            key_hash,
            owner: owner.as_str(),
            subscription_id: id,
            payload_hash: change.payload_hash,
            context: change.cause,
            audit: change.audit,
        };
        match self.run(&call).await? {
            Ok(DeleteWebhookReply::Deleted { watched }) => {
                self.leave_webhook_directory(&[id]).await?;
                Ok(watched)
            }
            Err(Refused::NotFound) => Err(AdminRefusal::WebhookNotFound.into()),
            Err(refused) => Err(refused.into()),
        }
    }
}

/// Under whose name the outcome of a request about one subscription is kept. The admin key's cannot be under the owner's:
/// of a subscription that is gone nobody knows the owner.
fn idempotency_scope<'a>(caller: &'a Caller, subscription_id: &'a SubscriptionId) -> &'a str {
    match caller {
        Caller::Tenant(caller) => caller.tenant.as_str(),
        Caller::Admin(_) => subscription_id.as_str(),
    }
}

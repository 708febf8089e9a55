//! `create_webhook.lua`, `read_webhook.lua`, `update_webhook.lua`, `delete_webhook.lua` and `webhook_test.lua`.

use crate::domain::caller::Caller;
use crate::domain::ids::Partition;
use crate::domain::record::Record;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::webhook::{Owner, SubscriptionId};
use crate::driver::clock::Day;
use crate::driver::reply::Reply;
use crate::store::admin::thresholds::Watched;
use crate::store::admin::{
    AdminError, Change, Pairs, caller_words, outcome, push_counted, push_day, push_pairs, refused,
};
use crate::store::scripts::{
    CREATE_WEBHOOK, DELETE_WEBHOOK, READ_WEBHOOK, UPDATE_WEBHOOK, WEBHOOK_TEST,
};
use crate::store::{Arg, Store};

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

/// What `create_webhook.lua` did.
pub enum WebhookCreation {
    /// It is there; the record, perhaps of the first request, with its sealed secrets.
    Created(Record, Option<Watched>),
    /// The random id has been used before; try another.
    Taken,
    /// It could be created, but was not meant to be.
    Checked,
}

/// How the owner of a subscription stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerState {
    /// Nothing stands against a change.
    Open,
    /// A change is refused for this.
    Refused(AdminRefusal),
}

/// A subscription as it was read.
pub enum WebhookRead {
    /// The record with its sealed secrets; the clock in milliseconds; the owner.
    Found {
        /// The script's clock, in milliseconds.
        now_ms: i64,
        /// How its owner stands.
        owner: OwnerState,
        /// The stored fields.
        record: Record,
    },
    /// What the first request under the key was answered.
    Replayed(Vec<String>),
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

/// What `update_webhook.lua` did.
pub enum WebhookChange {
    /// It is as asked; the record without its secrets.
    Updated(Record, Option<Watched>),
    /// It was changed in between.
    Stale,
}

impl Store {
    /// Records a subscription; where `check`, only finds out what would be refused. The directory learns of it first.
    ///
    /// # Errors
    /// Refusals: of the key; the owner closed, suspended or unknown.
    pub async fn create_webhook(
        &self,
        caller: &Caller,
        webhook: &WebhookRecord<'_>,
        change: &Change<'_>,
        check: bool,
    ) -> Result<WebhookCreation, AdminError> {
        let keys = self.keys();
        let (id, owner) = (webhook.subscription_id.as_str(), webhook.owner.as_str());
        let partition = webhook.owner.partition();
        if !check {
            let directory = keys.webhook_directory();
            let mut enter = redis::cmd("ZADD");
            enter.arg(&directory).arg(0).arg(id);
            self.query(&directory, &enter).await?;
        }
        let (key_hash, key_id) = caller_words(caller);
        let build = |day: Day| {
            let mut key_names = self.webhook_keys(partition, owner, id, key_id, day, true);
            key_names.extend(
                change
                    .idempotency
                    .map(|key| keys.idempotency(partition, owner, key)),
            );
            let mut args = vec![key_hash.to_owned(), owner.to_owned()];
            push_day(&mut args, day);
            let mode = match (check, webhook.owner.tenant()) {
                (true, _) => "check",
                (false, Some(_)) => "tenant",
                (false, None) => "system",
            };
            args.extend([id, mode, webhook.millionths].map(str::to_owned));
            args.extend([change.payload_hash, change.cause].map(str::to_owned));
            push_counted(&mut args, webhook.fields);
            push_pairs(&mut args, change.audit);
            (key_names, args)
        };
        let (word, mut reply) = self.admin_call(&CREATE_WEBHOOK, build).await?;
        match outcome(word, &mut reply)?.as_str() {
            "created" => {
                let watched = Watched::read(&mut reply)?;
                let record = Record::from_pairs(reply.rest()?);
                Ok(WebhookCreation::Created(record, watched))
            }
            "taken" => Ok(WebhookCreation::Taken),
            "checked" => Ok(WebhookCreation::Checked),
            "tenant_not_found" => Err(AdminRefusal::TenantNotFound.into()),
            other => Err(refused(other, reply)),
        }
    }

    /// Reads a subscription with its sealed secrets. Another tenant's is as if it were not there. Of a request with a key
    /// the first answer is found, whatever has become of the subscription.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription.
    pub async fn read_webhook(
        &self,
        caller: &Caller,
        subscription_id: &SubscriptionId,
        permission: &str,
        idempotency: Option<(&str, &str)>,
    ) -> Result<WebhookRead, AdminError> {
        let keys = self.keys();
        let (partition, tenant) = match caller {
            Caller::Tenant(caller) => (caller.partition, caller.tenant.as_str()),
            Caller::Admin(_) => (subscription_id.partition(), ""),
        };
        let (key_hash, key_id) = caller_words(caller);
        let mut key_names = vec![
            keys.api_key(partition, key_id),
            keys.webhook(partition, subscription_id.as_str()),
        ];
        key_names.extend(idempotency.map(|(key, _)| {
            keys.idempotency(partition, idempotency_scope(caller, subscription_id), key)
        }));
        let prefix = keys.tenant(partition, "");
        let args = [
            Arg::from(key_hash),
            Arg::from(tenant),
            Arg::from(permission),
            Arg::from(idempotency.map(|(_, payload_hash)| payload_hash)),
            Arg::from(&prefix),
        ];
        let reply = self.call(&READ_WEBHOOK, &key_names, &args).await?;
        let mut reply = Reply::new(&READ_WEBHOOK, reply)?;
        match reply.next_str()?.as_str() {
            "found" => {
                let now_ms = reply.next_i64()?;
                let owner = match reply.next_str()?.as_str() {
                    "open" => OwnerState::Open,
                    "tenant_closed" => OwnerState::Refused(AdminRefusal::TenantClosed),
                    "tenant_suspended" => OwnerState::Refused(AdminRefusal::TenantSuspended),
                    "tenant_unreadable" => OwnerState::Refused(AdminRefusal::TenantUnreadable),
                    other => return Err(reply.unknown(other).into()),
                };
                let record = Record::from_pairs(reply.rest()?);
                Ok(WebhookRead::Found {
                    now_ms,
                    owner,
                    record,
                })
            }
            "replayed" => Ok(WebhookRead::Replayed(reply.rest()?)),
            "not_found" => Err(AdminRefusal::WebhookNotFound.into()),
            other => Err(refused(other, reply)),
        }
    }

    /// Writes a change that was computed from a subscription as it was read.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription; the owner closed or suspended.
    pub async fn update_webhook(
        &self,
        caller: &Caller,
        update: &WebhookUpdate<'_>,
        change: &Change<'_>,
    ) -> Result<WebhookChange, AdminError> {
        let (id, owner) = (update.subscription_id.as_str(), update.owner.as_str());
        let partition = update.owner.partition();
        let (key_hash, key_id) = caller_words(caller);
        let scope = idempotency_scope(caller, update.subscription_id);
        let build = |day: Day| {
            let mut key_names = self.webhook_keys(partition, owner, id, key_id, day, false);
            key_names.push(self.keys().failing(partition));
            key_names.extend(
                change
                    .idempotency
                    .map(|key| self.keys().idempotency(partition, scope, key)),
            );
            let mut args = vec![key_hash.to_owned(), owner.to_owned()];
            push_day(&mut args, day);
            args.extend([id, &update.version.to_string(), update.status].map(str::to_owned));
            args.extend([update.millionths, change.payload_hash].map(str::to_owned));
            let event_type = update.event_type.unwrap_or_default();
            args.extend([change.cause, event_type].map(str::to_owned));
            args.extend([update.changed_fields, update.dropped].map(str::to_owned));
            push_counted(&mut args, update.fields);
            push_pairs(&mut args, change.audit);
            (key_names, args)
        };
        let (word, mut reply) = self.admin_call(&UPDATE_WEBHOOK, build).await?;
        match outcome(word, &mut reply)?.as_str() {
            "updated" => {
                let watched = Watched::read(&mut reply)?;
                let record = Record::from_pairs(reply.rest()?);
                Ok(WebhookChange::Updated(record, watched))
            }
            "stale" => Ok(WebhookChange::Stale),
            "not_found" => Err(AdminRefusal::WebhookNotFound.into()),
            other => Err(refused(other, reply)),
        }
    }

    /// Removes a subscription of this owner, then its entry in the directory.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription; the owner closed or suspended.
    pub async fn delete_webhook(
        &self,
        caller: &Caller,
        subscription_id: &SubscriptionId,
        owner: &Owner,
        change: &Change<'_>,
    ) -> Result<Option<Watched>, AdminError> {
        let (id, partition) = (subscription_id.as_str(), owner.partition());
        let (key_hash, key_id) = caller_words(caller);
        let scope = idempotency_scope(caller, subscription_id);
        let build = |day: Day| {
            let name = owner.as_str();
            let mut key_names = self.webhook_keys(partition, name, id, key_id, day, true);
            key_names.push(self.keys().failing(partition));
            key_names.extend(
                change
                    .idempotency
                    .map(|key| self.keys().idempotency(partition, scope, key)),
            );
            let mut args = vec![key_hash.to_owned(), name.to_owned()];
            push_day(&mut args, day);
            args.extend([id, change.payload_hash, change.cause].map(str::to_owned));
            push_pairs(&mut args, change.audit);
            (key_names, args)
        };
        let (word, mut reply) = self.admin_call(&DELETE_WEBHOOK, build).await?;
        match outcome(word, &mut reply)?.as_str() {
            "deleted" => {
                self.leave_webhook_directory(&[id]).await?;
                Ok(Watched::read(&mut reply)?)
            }
            "not_found" => Err(AdminRefusal::WebhookNotFound.into()),
            other => Err(refused(other, reply)),
        }
    }

    /// Counts a test of a subscription.
    ///
    /// # Errors
    /// [`AdminRefusal::TestedTooOften`] beyond `most` in a minute.
    pub async fn count_webhook_test(
        &self,
        subscription_id: &SubscriptionId,
        most: u32,
    ) -> Result<(), AdminError> {
        let key = self
            .keys()
            .webhook_tests(subscription_id.partition(), subscription_id.as_str());
        let reply = self.call(&WEBHOOK_TEST, &[key], &[Arg::from(most)]).await?;
        let mut reply = Reply::new(&WEBHOOK_TEST, reply)?;
        match reply.next_str()?.as_str() {
            "counted" => Ok(()),
            "limited" => Err(AdminRefusal::TestedTooOften {
                retry_in_ms: reply.next_i64()?,
                until_ms: reply.next_i64()?,
            }
            .into()),
            other => Err(reply.unknown(other).into()),
        }
    }

    /// The keys that the scripts of one subscription have in common; its owner's list only for those that change it.
    fn webhook_keys(
        &self,
        partition: Partition,
        owner: &str,
        id: &str,
        key_id: &str,
        day: Day,
        with_list: bool,
    ) -> Vec<String> {
        let keys = self.keys();
        let mut names = vec![
            keys.api_key(partition, key_id),
            keys.tenant(partition, owner),
            keys.webhook(partition, id),
        ];
        names.extend(with_list.then(|| keys.webhooks(partition, owner)));
        names.extend([
            keys.watch(partition, owner),
            keys.thresholds(partition),
            keys.events(partition, owner, day),
            keys.outbox(partition),
            keys.days(partition),
            keys.audit(partition, owner, day),
            keys.chain(partition, owner),
            keys.unsealed(partition),
            keys.counts(partition),
        ]);
        names
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

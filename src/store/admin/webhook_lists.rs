//! The indexes of subscriptions, and their records without secrets.

use crate::domain::record::Record;
use crate::domain::webhook::{Owner, Subscription, SubscriptionId};
use crate::store::records::command;
use crate::store::{Store, StoreError};

impl Store {
    /// Up to `rows` entries of the index of all subscriptions, or of one owner's, beyond `after`. An entry may be no id.
    pub async fn webhook_entries(
        &self,
        owner: Option<&Owner>,
        after: Option<&str>,
        rows: usize,
    ) -> Result<Vec<String>, StoreError> {
        let key = match owner {
            Some(owner) => self.keys().webhooks(owner.partition(), owner.as_str()),
            None => self.keys().webhook_directory(),
        };
        self.members(key, after, false, rows).await
    }

    /// Enters a subscription into the directory.
    pub(crate) async fn enter_webhook_directory(
        &self,
        id: &SubscriptionId,
    ) -> Result<(), StoreError> {
        let directory = self.keys().webhook_directory();
        let entry = (0, id.as_str());
        self.write(command("ZADD", directory, entry)).await
    }

    /// Enters those of these subscriptions that the directory lacks: a replica ended between the two writes that create one.
    pub(crate) async fn complete_webhook_directory(
        &self,
        subscriptions: &[&str],
    ) -> Result<(), StoreError> {
        if subscriptions.is_empty() {
            return Ok(());
        }
        let directory = self.keys().webhook_directory();
        let scores = command("ZMSCORE", directory.clone(), subscriptions);
        let scores: Vec<Option<f64>> = self.read(scores).await?;
        let pairs = subscriptions.iter().zip(scores);
        let missing = pairs.filter(|(_, score)| score.is_none());
        let missing: Vec<_> = missing.map(|(id, _)| (0, *id)).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => self.write(command("ZADD", directory, missing)).await,
        }
    }

    /// Takes subscriptions that are gone out of the directory.
    pub async fn leave_webhook_directory(&self, ids: &[&str]) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let directory = self.keys().webhook_directory();
        self.write(command("ZREM", directory, ids)).await
    }

    /// The present secret of a subscription, as it is stored; `None` where there is no subscription.
    pub async fn webhook_secret(&self, id: &SubscriptionId) -> Result<Option<String>, StoreError> {
        let key = self.keys().webhook(id.partition(), id.as_str());
        self.read(command("HGET", key, "signing_secret")).await
    }

    /// The records of these subscriptions without their secrets, in their order: an empty one where there is none, and an
    /// error where the key holds something else.
    pub async fn webhook_records(
        &self,
        subscriptions: &[SubscriptionId],
    ) -> Result<Vec<Result<Record, StoreError>>, StoreError> {
        let key = |id: &SubscriptionId| self.keys().webhook(id.partition(), id.as_str());
        let keys = subscriptions.iter().map(key);
        self.records(keys, &Subscription::field_names()).await
    }
}

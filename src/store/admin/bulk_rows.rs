//! `bulk_fund.lua`, `bulk_tenant.lua`, `bulk_webhooks.lua` and `bulk_settle.lua`: some rows of a bulk action at a time.
//!
//! Each of them may be called again for the same rows: what has an outcome is left alone, and answered.

use std::time::Duration;

use super::bulk::BulkClaim;
use crate::domain::bulk::{BulkFunding, Outcome, Row, TenantAction, WebhookAction};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::webhook::{Owner, SubscriptionId};
use crate::driver::clock::Day;
use crate::driver::reply::Reply;
use crate::driver::script::Script;
use crate::store::admin::push_day;
use crate::store::scripts::{BULK_FUND, BULK_SETTLE, BULK_TENANT, BULK_WEBHOOKS};
use crate::store::{Arg, Lane, Store, StoreError};

/// Ledgers or subscriptions that one script takes at most: about half a millisecond.
pub const BATCH_ROWS: usize = 10;

/// A subscription to be changed, and how its selectors were judged.
#[derive(Debug, Clone)]
pub struct JudgedWebhook {
    /// Which.
    pub id: SubscriptionId,
    /// At which version; `None` where that does not matter.
    pub judged: Option<Judged>,
}

/// How the selectors of a subscription were judged.
#[derive(Debug, Clone, Copy)]
pub struct Judged {
    /// The version of the record.
    pub version: i64,
    /// Whether its owner may have them.
    pub allowed: bool,
}

impl Store {
    /// Funds ledgers.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was done then, unless the reply was lost.
    pub async fn fund_rows(
        &self,
        claim: &BulkClaim,
        funding: &BulkFunding,
        rows: &[Row],
    ) -> Result<Vec<Outcome>, StoreError> {
        let (keys, partition) = (self.keys(), funding.tenant.partition());
        let tenant = funding.tenant.as_str();
        let build = |day: Day| {
            let mut key_names = vec![
                keys.tenant(partition, tenant),
                keys.events(partition, tenant, day),
                keys.outbox(partition),
                keys.days(partition),
                keys.over_limit_or_in_debt(partition),
                keys.bulk_rows(partition, &claim.id),
            ];
            let mut args = vec![tenant.to_owned()];
            push_day(&mut args, day);
            args.extend([
                funding.amount.unit().to_string(),
                funding.operation.to_string(),
                funding.amount.value().to_string(),
                funding
                    .spent
                    .map(|spent| spent.to_string())
                    .unwrap_or_default(),
                funding.reason.clone().unwrap_or_default(),
                context(claim),
            ]);
            for row in rows {
                let (unit, scope) = row.place.split_once(' ').unwrap_or_default();
                key_names.push(keys.budget(partition, tenant, unit, scope));
                args.extend([row.id.as_str(), unit, scope].map(str::to_owned));
            }
            (key_names, args)
        };
        let mut reply = self.row_call(&BULK_FUND, build).await?;
        outcomes(&mut reply)
    }

    /// Changes the status of a tenant. `request_part`: for how long the action itself goes on with a close.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was done then, unless the reply was lost.
    pub async fn tenant_row(
        &self,
        claim: &BulkClaim,
        action: TenantAction,
        tenant: &TenantId,
        request_part: Duration,
    ) -> Result<Vec<Outcome>, StoreError> {
        let (keys, partition, id) = (self.keys(), tenant.partition(), tenant.as_str());
        let build = |day: Day| {
            let key_names = vec![
                keys.tenant(partition, id),
                keys.events(partition, id, day),
                keys.outbox(partition),
                keys.days(partition),
                keys.closing(partition, id),
                keys.closings(partition),
                keys.counts(partition),
                keys.bulk_rows(partition, &claim.id),
            ];
            let mut args = vec![id.to_owned()];
            push_day(&mut args, day);
            args.extend([
                action.status().to_string(),
                claim.bulk.cause.clone(),
                claim.bulk.correlation_id(),
                claim.bulk.close_correlation_id(tenant),
                request_part.as_millis().to_string(),
            ]);
            (key_names, args)
        };
        let mut reply = self.row_call(&BULK_TENANT, build).await?;
        outcomes(&mut reply)
    }

    /// Changes or removes subscriptions of one owner. An outcome is `None` where one must be judged again, because it was
    /// changed. What the operator's watch is not brought to the partitions.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was done then, unless the reply was lost.
    pub async fn webhook_rows(
        &self,
        claim: &BulkClaim,
        action: WebhookAction,
        owner: &Owner,
        webhooks: &[JudgedWebhook],
    ) -> Result<Vec<Option<Outcome>>, StoreError> {
        let (keys, partition, name) = (self.keys(), owner.partition(), owner.as_str());
        let build = |day: Day| {
            let mut key_names = vec![
                keys.tenant(partition, name),
                keys.webhooks(partition, name),
                keys.watch(partition, name),
                keys.thresholds(partition),
                keys.events(partition, name, day),
                keys.outbox(partition),
                keys.days(partition),
                keys.counts(partition),
                keys.failing(partition),
                keys.bulk_rows(partition, &claim.id),
            ];
            let mut args = vec![name.to_owned()];
            push_day(&mut args, day);
            args.extend([
                action.to_string(),
                context(claim),
                claim.bulk.gone_row.clone(),
            ]);
            for webhook in webhooks {
                key_names.push(keys.webhook(partition, webhook.id.as_str()));
                let judged = webhook.judged;
                let version = judged.map(|judged| judged.version.to_string());
                let allowed = judged.is_some_and(|judged| judged.allowed);
                args.extend([
                    webhook.id.to_string(),
                    version.unwrap_or_default(),
                    i32::from(allowed).to_string(),
                ]);
            }
            (key_names, args)
        };
        let mut reply = self.row_call(&BULK_WEBHOOKS, build).await?;
        let mut outcomes = Vec::with_capacity(webhooks.len());
        while !reply.is_empty() {
            let text = reply.next_str()?;
            outcomes.push(match text.is_empty() {
                true => None,
                false => Some(outcome(&reply, &text)?),
            });
        }
        Ok(outcomes)
    }

    /// Keeps what became of rows of a partition, where that is not settled yet; answers what is kept.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn settle_rows(
        &self,
        claim: &BulkClaim,
        partition: Partition,
        rows: &[(&str, Outcome)],
    ) -> Result<Vec<Outcome>, StoreError> {
        let key = [self.keys().bulk_rows(partition, &claim.id)];
        let words: Vec<String> = rows
            .iter()
            .flat_map(|(id, outcome)| [(*id).to_owned(), outcome.stored()])
            .collect();
        let args: Vec<Arg<'_>> = words.iter().map(Arg::from).collect();
        let reply = self.call_on(Lane::Background, &BULK_SETTLE, &key, &args);
        let mut reply = Reply::new(&BULK_SETTLE, reply.await?)?;
        match reply.next_str()?.as_str() {
            "settled" => outcomes(&mut reply),
            other => Err(reply.unknown(other)),
        }
    }

    async fn row_call(
        &self,
        script: &Script,
        build: impl Fn(Day) -> (Vec<String>, Vec<String>),
    ) -> Result<Reply, StoreError> {
        let (word, reply) = self.admin_call_on(Lane::Background, script, build).await?;
        match word.as_str() {
            "settled" => Ok(reply),
            other => Err(reply.unknown(other)),
        }
    }
}

/// What every event of the action tells.
fn context(claim: &BulkClaim) -> String {
    let bulk = &claim.bulk;
    format!("{}\ncorrelation_id {}", bulk.cause, bulk.correlation_id())
}

fn outcomes(reply: &mut Reply) -> Result<Vec<Outcome>, StoreError> {
    let mut outcomes = Vec::new();
    while !reply.is_empty() {
        let text = reply.next_str()?;
        outcomes.push(outcome(reply, &text)?);
    }
    Ok(outcomes)
}

fn outcome(reply: &Reply, text: &str) -> Result<Outcome, StoreError> {
    Outcome::from_stored(text).ok_or_else(|| reply.unknown(text))
}

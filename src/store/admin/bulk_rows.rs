//! `bulk_fund.lua`, `bulk_tenant.lua`, `bulk_webhooks.lua` and `bulk_keep.lua`: some rows of a bulk action at a time.
//!
//! Each of them may be called again for the same rows: what has an outcome is left alone, and answered.

use std::time::Duration;

use super::bulk::BulkClaim;
use crate::domain::amount::Amount;
use crate::domain::bulk::{BulkFunding, Outcome, Row, TenantAction, WebhookAction};
use crate::domain::cause::Cause;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::webhook::{Owner, SubscriptionId};
use crate::store::signature::{Refused, signature};
use crate::store::{Lane, ScriptError, Store, StoreError, outcome};

signature! {
    /// Funds some ledgers of one tenant for a bulk action, each as fund does, and keeps the outcome of each. A row that has an
    /// outcome is left alone.
    BULK_FUND: BulkFund -> BulkFundReply = "admin/bulk_actions/bulk_fund";
    names { claim_id: &'a str }
    keys of partition of tenant {
        write tenant_key: tenant(tenant), event_log: events(tenant, day), outbox(), days(), over_limit_or_in_debt(),
            bulk_rows(claim_id), idempotency_due();
    }
    each { write budgets: budget }
    args {
        day,
        tenant: &'a TenantId,
        /// Of the amount, if there is one.
        unit: Option<&'a str>,
        operation: &'a str,
        amount: i64,
        /// The value that RESET_SPENT sets.
        spent: Option<i64>,
        reason: Option<&'a str>,
        context: String,
        until_ms: Option<i64>,
        /// Of each ledger its id, unit and scope.
        ledgers: Vec<(&'a str, &'a str, &'a str)>,
    }
    replies { clock, turn_first, done: Done { outcomes: Vec<Outcome> } }
    writes "On done: each ledger that is funded, its base and its place in the index of those over their limit or in debt, \
events, the outcomes."
}

signature! {
    /// Changes the status of one tenant for a bulk action, as update_tenant does, and keeps the outcome. Of a close it keeps that
    /// it has started: its outcome is known later. A row that has an outcome is left alone.
    BULK_TENANT: BulkTenant -> BulkTenantReply = "admin/bulk_actions/bulk_tenant", flags "allow-oom";
    names { claim_id: &'a str }
    keys of partition of tenant {
        write tenant_key: tenant(tenant), event_log: events(tenant, day), outbox(), days(), closing(tenant), closings(),
            counts(), bulk_rows(claim_id), idempotency_due();
    }
    args {
        day,
        tenant: &'a TenantId,
        /// A status.
        wanted: &'a str,
        context: &'a str,
        /// Of the action.
        correlation_id: String,
        close_correlation_id: String,
        /// For so long the action itself works on a close, then others may.
        request_part_ms: Duration,
    }
    replies { clock, done: Done { outcomes: Vec<Outcome> } }
    writes "On done: if the status changes the counts, the tenant, and the event or the intent; the intent of a close that is \
begun again; the outcome."
}

signature! {
    /// Pauses, resumes or deletes some subscriptions of one owner for a bulk action, and keeps the outcome of each. A row that
    /// has an outcome is left alone.
    ///
    /// The outcome is '' for a subscription that must be judged again.
    BULK_WEBHOOKS: BulkWebhooks -> BulkWebhooksReply = "admin/bulk_actions/bulk_webhooks", flags "allow-oom";
    names { claim_id: &'a str }
    keys of partition of owner {
        write tenant_key: tenant(owner), webhooks(owner), webhooks_mark(owner), watch(owner), thresholds(), event_log: events(owner, day), outbox(),
            days(), counts(), failing(), lanes(), bulk_rows(claim_id), idempotency_due();
    }
    each { write changed: webhook }
    args {
        day,
        owner: &'a Owner,
        /// PAUSE, RESUME or DELETE.
        action: String,
        context: String,
        /// Why a subscription that is gone is skipped.
        gone: &'a str,
        /// Different thresholds that the owner's subscriptions may watch.
        thresholds_max: i64,
        /// Of each its id, the version at which its selectors were judged, and 1 if its owner may have them; only what is to be
        /// resumed was judged.
        rows: Vec<(&'a str, Option<i64>, bool)>,
    }
    replies { clock, done: Done { outcomes: Vec<Option<Outcome>> } }
    writes "On done: the counts, each subscription that is changed, what it watches, events, the outcomes."
}

signature! {
    /// Keeps the outcomes of rows of a bulk action that have none: of closes that went as far as they could, and of rows that
    /// could not be done. Returns the outcome of each, which may be an earlier one.
    BULK_KEEP: BulkKeep -> BulkKeepReply = "admin/bulk_actions/bulk_keep", flags "allow-oom";
    names { partition: Partition, claim_id: &'a str }
    keys of partition { write bulk_rows(claim_id), idempotency_due(); }
    args {
        /// Ids and outcomes.
        rows: Vec<(&'a str, String)>,
    }
    replies { done: Done { outcomes: Vec<Outcome> } }
    writes "On done: the outcomes."
}

/// Ledgers or subscriptions that one script takes at most: about half a millisecond.
pub const BATCH_ROWS: usize = 10;

/// A subscription to be changed, and how its selectors were judged.
#[derive(Debug, Clone)]
pub struct JudgedWebhook {
    /// The subscription.
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
        let (tenant, keys) = (&funding.tenant, self.keys().of(funding.tenant.partition()));
        let mut ledgers = Vec::with_capacity(rows.len());
        for row in rows {
            let (unit, scope) = row.place.split_once(' ').unwrap_or_default();
            ledgers.push((row.id.as_str(), unit, scope));
        }
        let key = |(_, unit, scope): &(&str, &str, &str)| keys.budget(tenant.as_str(), unit, scope);
        let budgets: Vec<String> = ledgers.iter().map(key).collect();
        let mut until_ms = None;
        loop {
            let call = BulkFund {
                claim_id: &claim.id,
                budgets: budgets.clone(),
                tenant,
                unit: funding.amount.map(|amount| amount.unit().as_str()),
                operation: funding.operation.as_str(),
                amount: funding.amount.map_or(0, Amount::value),
                spent: funding.spent,
                reason: funding.reason.as_deref(),
                context: context(claim),
                until_ms,
                ledgers: ledgers.clone(),
            };
            match self.run(Lane::Background, &call).await {
                Err(ScriptError::Refused(Refused::TurnFirst { now_ms, ledgers }, _)) => {
                    let trusted = || self.clock().trusted_ms(now_ms);
                    let until_ms = *until_ms.get_or_insert_with(trusted);
                    self.turn_first(tenant, &ledgers, until_ms, &Cause::turn())
                        .await?;
                }
                reply => {
                    let BulkFundReply::Done { outcomes } = outcome(reply)?;
                    return Ok(outcomes);
                }
            }
        }
    }

    /// Changes the status of a tenant. `request_part`: for how long the action itself resumes a close.
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
        let call = BulkTenant {
            claim_id: &claim.id,
            tenant,
            wanted: action.status().as_str(),
            context: &claim.bulk.cause,
            correlation_id: claim.bulk.correlation_id(),
            close_correlation_id: claim.bulk.close_correlation_id(tenant),
            request_part_ms: request_part,
        };
        let BulkTenantReply::Done { outcomes } = outcome(self.run(Lane::Background, &call).await)?;
        Ok(outcomes)
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
        let keys = self.keys().of(owner.partition());
        let key = |webhook: &JudgedWebhook| keys.webhook(webhook.id.as_str());
        let mut rows = Vec::with_capacity(webhooks.len());
        for JudgedWebhook { id, judged } in webhooks {
            let allowed = judged.is_some_and(|judged| judged.allowed);
            rows.push((id.as_str(), judged.map(|judged| judged.version), allowed));
        }
        let call = BulkWebhooks {
            claim_id: &claim.id,
            changed: webhooks.iter().map(key).collect(),
            owner,
            action: action.to_string(),
            context: context(claim),
            gone: &claim.bulk.gone_row,
            thresholds_max: claim.bulk.thresholds_max,
            rows,
        };
        let BulkWebhooksReply::Done { outcomes } =
            outcome(self.run(Lane::Background, &call).await)?;
        Ok(outcomes)
    }

    /// Keeps outcomes of rows of a partition that have none, and returns the outcome of each.
    pub async fn keep_outcomes(
        &self,
        claim: &BulkClaim,
        partition: Partition,
        rows: &[(&str, Outcome)],
    ) -> Result<Vec<Outcome>, StoreError> {
        let rows = rows.iter().map(|(id, outcome)| (*id, outcome.stored()));
        let call = BulkKeep {
            partition,
            claim_id: &claim.id,
            rows: rows.collect(),
        };
        let BulkKeepReply::Done { outcomes } = outcome(self.run(Lane::Background, &call).await)?;
        Ok(outcomes)
    }
}

/// The request cause of every event of the action.
fn context(claim: &BulkClaim) -> String {
    let bulk = &claim.bulk;
    format!("{}\ncorrelation_id {}", bulk.cause, bulk.correlation_id())
}

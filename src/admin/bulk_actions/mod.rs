//! Bulk actions: which rows are meant, and whether they may be done; then they are claimed and done.

pub(crate) mod rows;
pub mod run;

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::budgets::list::walk::BudgetWalk;
use super::tenants::list::TenantWalk;
use super::webhooks::WebhookFilter;
use super::webhooks::list::WebhookWalk;
use super::{Admin, AdminError, BudgetFilter, Request, TenantFilter, refuse};
use crate::admin::bulk_actions::run::{LEASE, REQUEST_PART, Runner, Turn};
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::bulk::{
    Bulk, BulkAction, BulkFunding, ROWS_MAX, Row, TenantAction, WebhookAction,
};
use crate::domain::caller::Reader;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::tenant::NO_TENANT;
use crate::domain::tenant::record::Tenant;
use crate::domain::webhook::{Owner, Subscription};
use crate::listing::each;
use crate::store::admin::bulk::{BulkAnswer, BulkClaim, BulkPlace, BulkState};

/// For how long a request waits for another under the same key.
const WAIT: Duration = Duration::from_secs(5);

/// How often it looks meanwhile.
const LOOK: Duration = Duration::from_millis(25);

/// What every bulk action carries besides its own values.
#[derive(Debug)]
pub struct BulkRequest<'a> {
    /// As with any change; it always has a key.
    pub request: Request<'a>,
    /// How many rows are expected to match.
    pub expected_count: Option<i64>,
    /// The filter as JSON, for the audit entry.
    pub filter: String,
    /// The word for a row that is gone.
    pub gone_row: &'static str,
}

/// The rows that match: the first of them, and how many there are.
#[derive(Debug, Default)]
struct Matches {
    rows: Vec<Row>,
    total: usize,
}

impl Matches {
    fn push(&mut self, row: impl FnOnce() -> Row) {
        self.total += 1;
        if self.total <= ROWS_MAX {
            self.rows.push(row());
        }
    }
}

/// What is to be done, by whom it is claimed and booked.
struct Plan {
    action: BulkAction,
    partition: Partition,
    scope: String,
    audit_tenant: String,
}

impl Admin {
    /// Suspends, reactivates or closes tenants.
    ///
    /// # Errors
    /// Refusals, in this order: another request under the same idempotency key; more than 500 matches; another number than
    /// was expected; the action is still on its way.
    pub async fn bulk_tenants(
        &self,
        filter: &TenantFilter,
        action: TenantAction,
        asked: &BulkRequest<'_>,
    ) -> Result<BulkAnswer, AdminError> {
        let plan = Plan {
            action: BulkAction::Tenants(action),
            partition: Partition::FIRST,
            scope: NO_TENANT.to_owned(),
            audit_tenant: NO_TENANT.to_owned(),
        };
        self.bulk(plan, asked, self.matched_tenants(filter)).await
    }

    /// Pauses, resumes or deletes webhook subscriptions.
    ///
    /// # Errors
    /// As for [`Admin::bulk_tenants`].
    pub async fn bulk_webhooks(
        &self,
        filter: &WebhookFilter,
        action: WebhookAction,
        asked: &BulkRequest<'_>,
    ) -> Result<BulkAnswer, AdminError> {
        let owner = filter.owner.owner();
        let partition = owner.map_or(Partition::FIRST, Owner::partition);
        let is_known = match owner.and_then(Owner::tenant) {
            Some(tenant) => self.store.get_tenant(tenant).await?.is_some(),
            None => owner.is_some(),
        };
        let named = owner.map_or(NO_TENANT, Owner::as_str);
        let plan = Plan {
            action: BulkAction::Webhooks(action),
            partition,
            scope: named.to_owned(),
            audit_tenant: if is_known { named } else { NO_TENANT }.to_owned(),
        };
        self.bulk(plan, asked, self.matched_webhooks(filter)).await
    }

    /// Funds ledgers of one tenant.
    ///
    /// # Errors
    /// As for [`Admin::bulk_tenants`]; after the idempotency key, that there is no such tenant.
    pub async fn bulk_budgets(
        &self,
        filter: &BudgetFilter,
        funding: &BulkFunding,
        asked: &BulkRequest<'_>,
    ) -> Result<BulkAnswer, AdminError> {
        let tenant = &funding.tenant;
        let plan = Plan {
            action: BulkAction::Budgets(funding.clone()),
            partition: tenant.partition(),
            scope: tenant.to_string(),
            audit_tenant: tenant.to_string(),
        };
        self.bulk(plan, asked, self.matched_budgets(tenant, filter))
            .await
    }

    /// The gates in their order, then the action.
    async fn bulk(
        &self,
        plan: Plan,
        asked: &BulkRequest<'_>,
        matches: impl Future<Output = Result<Matches, AdminError>>,
    ) -> Result<BulkAnswer, AdminError> {
        let request = &asked.request;
        let digest = request.idempotency(plan.action.operation());
        let place = BulkPlace {
            partition: plan.partition,
            tenant: plan.scope,
            digest: digest.unwrap_or_default(),
        };
        let payload_hash = request.payload_hash.as_str();
        let until = Instant::now() + WAIT;
        if let Some(answer) = self.look(&place, payload_hash, until).await? {
            return Ok(answer);
        }
        let Matches { rows, total } = matches.await?;
        if total > ROWS_MAX {
            return refuse(AdminRefusal::TooManyMatched { total });
        }
        if asked
            .expected_count
            .is_some_and(|count| count != total as i64)
        {
            return refuse(AdminRefusal::CountMismatch { total });
        }
        let key = request.idempotency_key.map(ToString::to_string);
        let bulk = Bulk {
            action: plan.action,
            cause: request.cause.lines(),
            filter: asked.filter.clone(),
            idempotency_key: key.unwrap_or_default(),
            audit_tenant: plan.audit_tenant,
            gone_row: asked.gone_row.to_owned(),
            rows,
        };
        let begun = self.store.begin_bulk(&place, payload_hash, &bulk, LEASE);
        if let Some(answer) = self.after(begun.await?).await? {
            return Ok(answer);
        }
        // Another request under the same key was faster.
        match self.look(&place, payload_hash, until).await? {
            Some(answer) => Ok(answer),
            None => refuse(AdminRefusal::BulkInProgress),
        }
    }

    /// The answer of an action that was begun before, waited for or gone on with; `None` where there is none.
    async fn look(
        &self,
        place: &BulkPlace,
        payload_hash: &str,
        until: Instant,
    ) -> Result<Option<BulkAnswer>, AdminError> {
        loop {
            let found = self.store.look_for_bulk(place, payload_hash, LEASE).await?;
            match found {
                BulkState::None => return Ok(None),
                BulkState::Busy if Instant::now() < until => sleep(LOOK).await,
                BulkState::Busy => return refuse(AdminRefusal::BulkInProgress),
                found => return self.after(found).await,
            }
        }
    }

    async fn after(&self, state: BulkState) -> Result<Option<BulkAnswer>, AdminError> {
        match state {
            BulkState::Mismatch => refuse(AdminRefusal::IdempotencyMismatch),
            BulkState::Done(answer) => Ok(Some(answer)),
            BulkState::Mine(claim) => self.go_on_with(*claim).await.map(Some),
            BulkState::Unreadable(error) => Err(error.into()),
            BulkState::None | BulkState::Busy => Ok(None),
        }
    }

    async fn go_on_with(&self, claim: BulkClaim) -> Result<BulkAnswer, AdminError> {
        match Runner::new(self.store.clone(), claim)
            .run(REQUEST_PART)
            .await?
        {
            Turn::Finished(answer) => Ok(answer),
            Turn::Paused | Turn::Forgotten => refuse(AdminRefusal::BulkInProgress),
        }
    }

    async fn matched_tenants(&self, filter: &TenantFilter) -> Result<Matches, AdminError> {
        let (mut walk, mut matches) = (TenantWalk::new(&self.store, filter), Matches::default());
        let push = |tenant: Tenant| matches.push(|| Row::tenant(&tenant.tenant_id));
        each(&mut walk, push).await?;
        Ok(matches)
    }

    async fn matched_webhooks(&self, filter: &WebhookFilter) -> Result<Matches, AdminError> {
        let (mut walk, mut matches) = (WebhookWalk::new(&self.store, filter), Matches::default());
        let row = |found: Subscription| Row {
            id: found.subscription_id.to_string(),
            place: found.owner.to_string(),
        };
        each(&mut walk, |found| matches.push(|| row(found))).await?;
        Ok(matches)
    }

    async fn matched_budgets(
        &self,
        tenant: &TenantId,
        filter: &BudgetFilter,
    ) -> Result<Matches, AdminError> {
        if self.store.get_tenant(tenant).await?.is_none() {
            return refuse(AdminRefusal::TenantNotFound);
        }
        let mut walk = BudgetWalk::new(&self.store, Reader::Trusted, filter, Some(tenant.clone()));
        let mut matches = Matches::default();
        let row = |ledger: BudgetLedger| Row {
            place: format!("{} {}", ledger.unit, ledger.scope),
            id: ledger.ledger_id,
        };
        each(&mut walk, |ledger| matches.push(|| row(ledger))).await?;
        Ok(matches)
    }
}

//! Tenants whose events are delivered.

use serde_json::json;
use tokio::time::{Duration, Instant, interval, sleep};

use super::Bench;
use super::receivers::Kind;
use crate::api::operations::OperationId;
use crate::tools::bench::BenchError;
use crate::tools::bench::service::Tenant;
use crate::tools::call::{Call, CallError};
use crate::tools::client::Client;
use crate::tools::setup::UNIT;

/// Tenants, each with the same number of subscriptions to its events.
pub(super) struct Senders {
    admin: Client,
    tenants: Vec<Tenant>,
    subscriptions: Vec<String>,
}

impl Senders {
    /// Makes the tenants and subscriptions. The receivers of the subscriptions are numbered from 0.
    pub async fn make(
        bench: &Bench<'_>,
        (tenants, each): (usize, usize),
        kind: Kind,
    ) -> Result<Self, BenchError> {
        let admin = bench.stack.service.admin()?;
        let (mut subscriptions, mut made) = (Vec::new(), Vec::new());
        for _ in 0..tenants {
            let tenant = bench.stack.service.provision(1).await?;
            for _ in 0..each {
                let url = bench.receivers.url(kind, subscriptions.len());
                let body = json!({"url": url, "event_types": ["budget.funded"]});
                let call = Call::of(OperationId::CreateWebhookSubscription)
                    .with("tenant_id", Some(&tenant.id))
                    .body(&body);
                let created = admin.send(&call).await?;
                let id = created["subscription"]["subscription_id"].as_str();
                subscriptions.push(id.ok_or_else(|| admin.unreadable())?.to_owned());
            }
            made.push(tenant);
        }
        Ok(Self {
            admin,
            tenants: made,
            subscriptions,
        })
    }

    /// Subscriptions in all.
    pub fn lanes(&self) -> usize {
        self.subscriptions.len()
    }

    /// Causes this many events of each tenant, as fast as one client can.
    pub async fn cause(&self, events: usize) -> Result<(), BenchError> {
        for _ in 0..events {
            for tenant in &self.tenants {
                fund(&self.admin, tenant).await?;
            }
        }
        Ok(())
    }

    /// Causes events one after the other, at a rate per second, for a while. Returns their number.
    pub async fn cause_for(&self, per_second: f64, time: Duration) -> Result<usize, BenchError> {
        let (until, mut count) = (Instant::now() + time, 0);
        let mut pace = interval(Duration::from_secs_f64(1.0 / per_second));
        while Instant::now() < until {
            pace.tick().await;
            fund(&self.admin, &self.tenants[count % self.tenants.len()]).await?;
            count += 1;
        }
        Ok(count)
    }

    /// Deletes the subscriptions, which ends what waits for them.
    pub async fn unsubscribe(&self) -> Result<(), BenchError> {
        for id in &self.subscriptions {
            let call = Call::to(OperationId::DeleteWebhookSubscription, id);
            self.admin.send(&call).await?;
        }
        Ok(())
    }
}

/// One event: `budget.funded`.
async fn fund(admin: &Client, tenant: &Tenant) -> Result<(), BenchError> {
    let body = json!({"operation": "CREDIT", "amount": {"unit": UNIT, "amount": 1}});
    let call = Call::of(OperationId::FundBudget)
        .with("tenant_id", Some(&tenant.id))
        .with("scope", Some(&tenant.scopes[0]))
        .with("unit", Some(UNIT))
        .body(&body);
    loop {
        match admin.send(&call).await {
            Ok(_) => return Ok(()),
            // The admin plane's rate per tenant.
            Err(CallError::Refused(refusal)) if refusal.status == 429 => {
                sleep(Duration::from_millis(50)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

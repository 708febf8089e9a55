//! Tenants whose events are delivered.

use serde_json::json;
use tokio::time::{Duration, Instant, sleep_until};

use super::Bench;
use super::receivers::Kind;
use crate::api::operations::OperationId;
use crate::tools::bench::BenchError;
use crate::tools::bench::service::Tenant;
use crate::tools::call::Call;
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
        bench: &Bench,
        (tenants, each): (usize, usize),
        kind: Kind,
    ) -> Result<Self, BenchError> {
        let mut senders = Self {
            admin: bench.stack.service.admin.clone(),
            tenants: Vec::new(),
            subscriptions: Vec::new(),
        };
        for _ in 0..tenants {
            let tenant = bench.stack.service.provision(1).await?;
            for _ in 0..each {
                let url = bench.receivers.url(kind, senders.subscriptions.len());
                let body = json!({"url": url, "event_types": ["budget.funded"]});
                let call = Call::of(OperationId::CreateWebhookSubscription)
                    .with("tenant_id", Some(&tenant.id))
                    .body(&body);
                let created = senders.admin.send(&call).await?;
                let id = created["subscription"]["subscription_id"].as_str();
                let id = id.ok_or_else(|| senders.admin.unreadable())?;
                senders.subscriptions.push(id.to_owned());
            }
            senders.tenants.push(tenant);
        }
        Ok(senders)
    }

    /// Causes events, of each tenant in turn, at a rate per second that may be infinite.
    pub async fn cause(&self, events: usize, per_second: f64) -> Result<(), BenchError> {
        let begun = Instant::now();
        let body = json!({"operation": "CREDIT", "amount": {"unit": UNIT, "amount": 1}});
        for (count, tenant) in (0..events).zip(self.tenants.iter().cycle()) {
            sleep_until(begun + Duration::from_secs_f64(count as f64 / per_second)).await;
            let call = Call::of(OperationId::FundBudget)
                .with("tenant_id", Some(&tenant.id))
                .with("scope", Some(&tenant.scopes[0]))
                .with("unit", Some(UNIT))
                .body(&body);
            self.admin.send(&call).await?;
        }
        Ok(())
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

//! A tenant that has as much of everything as the default limits allow.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::HOSTILE_CLIENTS;
use crate::api::operations::OperationId;
use crate::domain::api_key::permission::Permission;
use crate::domain::refusal::CountLimits;
use crate::tools::bench::error::BenchError;
use crate::tools::bench::requests::TTL_MS;
use crate::tools::bench::script::Script;
use crate::tools::bench::service::{ALLOCATED, Tenant};
use crate::tools::bench::stack::Stack;
use crate::tools::call::Call;
use crate::tools::client::Client;
use crate::tools::client_error::CallError;
use crate::tools::setup::{UNIT, create_budget, create_key_with};

/// Requests that fill the store at the same time.
const FILLERS: usize = 20;

/// Rows that a list gathers and sorts at most.
const LISTED: usize = 10_000;

/// The default limits. One more of each must be refused, or nothing is measured.
pub(super) const METADATA_BYTES: usize = 16_384;
const CAPS_BYTES: usize = 4_096;
const EXTENSIONS: usize = 1_000;
const COUNTS: CountLimits = CountLimits::DEFAULT;

/// Thresholds of one subscription.
const THRESHOLDS: u32 = 20;

/// The allocation of each budget whose thresholds are crossed.
pub(super) const CROSSED: i64 = 1_000;

/// The tenant, with clients under its keys.
pub(super) struct Hostile {
    pub tenant: String,
    pub client: Client,
    /// Under a key that may only read balances.
    pub fenced: Client,
    /// Ids of all policies.
    pub policies: Vec<String>,
    /// A reservation with all its extensions: the request that made it, its id, and the last extension.
    pub extended: (Value, String, Value),
}

impl Hostile {
    /// Makes the tenant in `stack`.
    pub async fn prepare(stack: &Stack) -> Result<Self, BenchError> {
        let service = &stack.service;
        let (owner, admin) = (service.provision(1).await?, service.admin()?);
        let tenant = owner.id.clone();
        let under = async |permissions: &[Permission]| {
            let key = create_key_with(&admin, &tenant, "hostile", permissions).await?;
            service.runtime(&Tenant {
                key,
                ..owner.clone()
            })
        };
        let mut hostile = Self {
            client: under(Permission::ALL).await?,
            fenced: under(&[Permission::BalancesRead]).await?,
            policies: Vec::new(),
            extended: Default::default(),
            tenant: tenant.clone(),
        };
        // First, because these calls name no policy.
        let reservations = Script::Reserve {
            count: LISTED - 1,
            limit: Duration::MAX,
            attested: false,
        };
        stack.run_script(&owner, 1, reservations).await?;
        eprintln!("a tenant at every limit: webhooks and policies");
        hostile.add_webhooks(&admin).await?;
        hostile.add_policies().await?;
        eprintln!("a tenant at every limit: extensions and budgets");
        hostile.add_extensions(&admin).await?;
        hostile.add_budgets(&admin).await?;
        Ok(hostile)
    }

    /// As many subscriptions as may be, each with as many thresholds as may be.
    async fn add_webhooks(&self, admin: &Client) -> Result<(), BenchError> {
        // No address outside this machine is ever named.
        let security = json!({"blocked_cidr_ranges": ["10.0.0.0/8"], "allow_http": true});
        let security = Call::of(OperationId::UpdateWebhookSecurityConfig).body(&security);
        admin.send(&security).await?;
        let webhook = |number: u32| {
            let first = number * THRESHOLDS;
            let shares = (first..first + THRESHOLDS).map(share).collect::<Vec<_>>();
            let body = json!({
                "url": "http://127.0.0.1:9/", "event_types": ["budget.threshold_crossed"],
                "thresholds": {"budget_utilization": shares},
            });
            Call::of(OperationId::CreateTenantWebhook).body(&body)
        };
        let all = (0..COUNTS.webhooks).map(webhook).collect();
        send_all(&self.client, all).await?;
        Ok(refused(&self.client, &webhook(0)).await?)
    }

    async fn add_policies(&mut self) -> Result<(), BenchError> {
        let pattern = format!("tenant:{}/*", self.tenant);
        let policy = |number: u32| {
            let tool = "t".repeat(CAPS_BYTES / 16 - 6);
            let caps = json!({"tool_allowlist": vec![tool; 16]});
            let name = format!("policy {number}");
            let body =
                json!({"name": name, "priority": number, "scope_pattern": pattern, "caps": caps});
            Call::of(OperationId::CreatePolicy).body(&body)
        };
        let all = (0..COUNTS.policies).map(policy).collect();
        let made = send_all(&self.client, all).await?;
        let ids = made.iter().filter_map(|made| made["policy_id"].as_str());
        self.policies = ids.map(str::to_owned).collect();
        Ok(refused(&self.client, &policy(0)).await?)
    }

    async fn add_extensions(&mut self, admin: &Client) -> Result<(), BenchError> {
        let update = json!({"max_reservation_extensions": EXTENSIONS + 1});
        let update = Call::to(OperationId::UpdateTenant, &self.tenant).body(&update);
        admin.send(&update).await?;
        let reserve = json!({
            "idempotency_key": "extended", "subject": {"tenant": self.tenant},
            "action": {"kind": "llm.completion", "name": "bench:model"},
            "estimate": {"unit": UNIT, "amount": 1}, "ttl_ms": TTL_MS,
        });
        let made = Call::of(OperationId::CreateReservation).body(&reserve);
        let made = self.client.send(&made).await?;
        let id = made["reservation_id"].as_str().unwrap_or_default();
        let extension = |number: usize| json!({"idempotency_key": format!("extension {number}"), "extend_by_ms": 1});
        let extend = |number| Call::to(OperationId::ExtendReservation, id).body(&extension(number));
        send_all(&self.client, (1..=EXTENSIONS).map(extend).collect()).await?;
        refused(&self.client, &extend(0)).await?;
        self.extended = (reserve, id.to_owned(), extension(EXTENSIONS));
        Ok(())
    }

    async fn add_budgets(&self, admin: &Client) -> Result<(), BenchError> {
        let scope = |app: &str| format!("tenant:{}/app:{app}", self.tenant);
        for number in 0..HOSTILE_CLIENTS {
            create_budget(admin, &self.tenant, &scope(&crossed(number)), CROSSED).await?;
        }
        let budget = |number: usize| {
            let body = json!({
                "tenant_id": self.tenant, "scope": scope(&format!("a{number}")), "unit": UNIT,
                "allocated": {"unit": UNIT, "amount": ALLOCATED},
            });
            Call::of(OperationId::CreateBudget).body(&body)
        };
        send_all(
            admin,
            (HOSTILE_CLIENTS as usize + 1..LISTED).map(budget).collect(),
        )
        .await?;
        Ok(())
    }
}

/// The app whose budget a strike crosses.
pub(super) fn crossed(number: u64) -> String {
    format!("crossed{}", number % HOSTILE_CLIENTS)
}

/// One of the thresholds that a tenant may watch in all.
fn share(step: u32) -> f64 {
    f64::from(step % COUNTS.thresholds + 1) / f64::from(COUNTS.thresholds)
}

/// Sends all requests, in any order.
async fn send_all(client: &Client, calls: Vec<Call>) -> Result<Vec<Value>, CallError> {
    let mut fillers: JoinSet<Result<Vec<Value>, CallError>> = JoinSet::new();
    for share in calls.chunks(calls.len().div_ceil(FILLERS)) {
        let (client, share) = (client.clone(), share.to_vec());
        fillers.spawn(async move {
            let mut responses = Vec::new();
            for call in share {
                responses.push(sent(&client, &call).await?);
            }
            Ok(responses)
        });
    }
    let mut responses = Vec::new();
    while let Some(filled) = fillers.join_next().await {
        responses.extend(filled.expect("sending does not panic")?);
    }
    Ok(responses)
}

/// Sends a request, again while the tenant makes too many in a second.
async fn sent(client: &Client, call: &Call) -> Result<Value, CallError> {
    loop {
        match client.send(call).await {
            Err(CallError::Refused(refusal)) if refusal.status == 429 => {
                sleep(Duration::from_secs(1)).await;
            }
            outcome => return outcome,
        }
    }
}

/// Sends a request that goes beyond a limit.
async fn refused(client: &Client, call: &Call) -> Result<(), CallError> {
    match client.send(call).await {
        Err(CallError::Refused(_)) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => {
            let operation = call.operation.path();
            let text = format!("{operation}: the service allows more than its default limits");
            Err(CallError::Usage(text))
        }
    }
}

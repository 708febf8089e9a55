//! Whether a page of the admin plane costs more when more is stored: budgets, events and audit entries, of a tenant and of all.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::args::BenchArgs;
use super::error::BenchError;
use super::provision::{ALLOCATED, Tenant};
use super::requests::UNIT;
use super::scaling::{Cost, PAGE, Reader, Stage, write_stages};
use super::stack::Stack;

/// Clients that make budgets at the same time.
const MAKERS: u64 = 16;

/// How long the views of all tenants may take to show the last budget that was made.
const VIEWS_WITHIN: Duration = Duration::from_secs(600);

/// The same pages, with more and more stored.
#[derive(Debug, Serialize)]
pub(super) struct Listing {
    pub stages: Vec<Stage>,
}

/// Starts a Redis, a service and a dispatcher, and measures them at each of `args.compare_listed`. Each budget that is made
/// is an event and an audit entry as well.
pub(super) async fn run(args: &BenchArgs) -> Result<Listing, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let tenant = stack.service.provision(1).await?;
    let store = stack.bare(&tenant).store()?;
    let mut sizes = args.compare_listed.clone();
    sizes.sort_unstable();
    let (mut stored, mut stages) = (0, Vec::new());
    for size in sizes {
        eprintln!("{size} budgets: making {}", size.saturating_sub(stored));
        make(&stack, &tenant, stored, size).await?;
        stored = stored.max(size);
        // Only until the views are there: what it sends to Redis must not count.
        let dispatcher = stack.dispatcher()?;
        views_follow(&stack).await?;
        drop(dispatcher);
        let reader = Reader {
            stack: &stack,
            store: &store,
            caller: stack.service.admin()?,
            limit: args.load.duration,
        };
        let costs = pages(reader, &tenant).await?;
        stages.push(Stage { stored, costs });
    }
    Ok(Listing { stages })
}

async fn pages(mut reader: Reader<'_>, tenant: &Tenant) -> Result<Vec<Cost>, BenchError> {
    let of = format!("tenant_id={}&limit={PAGE}", tenant.id);
    let kinds = [
        (
            "budgets, first page",
            "budgets, page by page",
            format!("budgets?{of}&sort_by=scope&sort_dir=asc"),
        ),
        (
            "events of a tenant, first page",
            "events of a tenant, page by page",
            format!("events?{of}"),
        ),
        (
            "events of all, first page",
            "events of all, page by page",
            format!("events?limit={PAGE}"),
        ),
        (
            "audit of a tenant, first page",
            "audit of a tenant, page by page",
            format!("audit/logs?{of}"),
        ),
        (
            "audit of all, first page",
            "audit of all, page by page",
            format!("audit/logs?limit={PAGE}"),
        ),
    ];
    let mut costs = Vec::new();
    for (first, following, path) in kinds {
        let path = [format!("/v1/admin/{path}")];
        costs.push(reader.cost(first, &path, false).await?);
        costs.push(reader.cost(following, &path, true).await?);
    }
    Ok(costs)
}

/// Makes the budgets from number `from` on until there are `to`.
async fn make(stack: &Stack, tenant: &Tenant, from: u64, to: u64) -> Result<(), BenchError> {
    let mut makers: JoinSet<Result<(), BenchError>> = JoinSet::new();
    for maker in 0..MAKERS {
        let mut admin = stack.service.admin()?;
        let tenant = tenant.id.clone();
        makers.spawn(async move {
            for number in (from..to).filter(|number| number % MAKERS == maker) {
                let body = json!({
                    "tenant_id": tenant, "scope": format!("tenant:{tenant}/app:a{number:08}"), "unit": UNIT,
                    "allocated": {"unit": UNIT, "amount": ALLOCATED},
                });
                admin.post("making a budget", "/v1/admin/budgets", &body).await?;
            }
            Ok(())
        });
    }
    while let Some(made) = makers.join_next().await {
        made.expect("making budgets does not panic")?;
    }
    Ok(())
}

/// Makes one thing more and waits until the views of all tenants show it.
async fn views_follow(stack: &Stack) -> Result<(), BenchError> {
    let step = "waiting for the views of all tenants";
    let id = format!("bench-{:012x}", rand::random::<u64>() >> 16);
    let mut admin = stack.service.admin()?;
    let body = json!({"tenant_id": id, "name": "load generator"});
    admin.post(step, "/v1/admin/tenants", &body).await?;
    let until = Instant::now() + VIEWS_WITHIN;
    for (path, member) in [("events", "events"), ("audit/logs", "logs")] {
        let path = format!("/v1/admin/{path}?limit=1");
        loop {
            let page: Value = admin.get(step, &path).await?;
            if page[member][0]["tenant_id"] == id.as_str() {
                break;
            }
            if Instant::now() > until {
                return Err(BenchError::Unreadable { step });
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_stages(f, &self.stages, "one client, 50 rows")
    }
}

//! The scenarios: ever more reservations, policies or budgets.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::cost::{READS, Reader, reserves};
use super::report::{Growth, Size};
use crate::api::operations::OperationId;
use crate::tools::bench::args::BenchArgs;
use crate::tools::bench::error::BenchError;
use crate::tools::bench::ledger::Totals;
use crate::tools::bench::script::Script;
use crate::tools::bench::service::{ALLOCATED, Tenant, make_tenant};
use crate::tools::bench::session::HeldReservation;
use crate::tools::bench::stack::Stack;
use crate::tools::call::Call;
use crate::tools::client_error::CallError;
use crate::tools::setup::create_budget;

/// Rows of a page.
const PAGE: usize = 50;

/// Clients that fill the store at the same time.
const FILLERS: u16 = 50;

/// How long the views of all tenants may take to show the last budget.
const VIEW_LIMIT: Duration = Duration::from_secs(600);

/// Measures reads and reserves of a tenant with each of these numbers of reservations.
pub(in crate::tools::bench) async fn with_reservations(
    args: &BenchArgs,
) -> Result<Growth, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let tenant = stack.service.provision(args.load.scopes).await?;
    let mut growth = Growth::new(args.load.scopes);
    let (mut stored, mut totals) = (0, Totals::default());
    let mut known: Vec<HeldReservation> = Vec::new();
    for size in sorted(&args.compare_stored) {
        let missing = size.saturating_sub(stored);
        eprintln!("{size} reservations: making {missing}");
        if missing > 0 {
            let fill = Script::Reserve {
                count: usize::try_from(missing).unwrap_or(usize::MAX),
                limit: Duration::MAX,
                attested: false,
            };
            let filled = stack.run_script(&tenant, FILLERS, fill).await?;
            totals.add(&filled.totals);
            stored += filled.held.len() as u64;
            known.extend(filled.held.into_iter().take(READS));
        }
        // Reads first, because a reserve stores more.
        let mut reader = Reader {
            stack: &stack,
            client: stack.service.runtime(&tenant)?,
            limit: args.load.duration,
            costs: Vec::new(),
        };
        let get = |(id, _): &HeldReservation| Call::to(OperationId::GetReservation, id.as_str());
        let gets: Vec<_> = known.iter().rev().take(READS).map(get).collect();
        let balances = Call::of(OperationId::GetBalances).with("tenant", Some(&tenant.id));
        let balances = balances.with("limit", Some(PAGE));
        let list = Call::of(OperationId::ListReservations).with("limit", Some(PAGE));
        reader.measure("get", &gets, gets.len(), false).await?;
        reader
            .measure("balances page", &[balances], READS, false)
            .await?;
        reader.list("list", list).await?;
        let mut costs = reader.costs;
        let (cost, made) = reserves(&stack, &tenant, &args.load, args.progress).await?;
        costs.push(cost);
        growth.stages.push(Size { stored, costs });
        for reserves in &made {
            growth.count(reserves);
            totals.add(&reserves.totals);
            stored += reserves.finished;
        }
    }
    growth.differences = stack.service.check(&tenant, &totals).await?;
    Ok(growth)
}

/// Measures a reserve under a tenant with each of these numbers of policies, in this order. All policies match every
/// request, so each reserve selects among all of them.
pub(in crate::tools::bench) async fn with_policies(args: &BenchArgs) -> Result<Growth, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let mut growth = Growth::new(args.load.scopes);
    for &stored in &args.compare_policies {
        let tenant = stack.service.provision(args.load.scopes).await?;
        let admin = stack.service.admin()?;
        for number in 0..stored {
            let body = json!({
                "tenant_id": tenant.id, "name": format!("policy {number}"), "priority": number,
                "scope_pattern": format!("tenant:{}/*", tenant.id), "caps": {"max_tokens": 4000},
                "commit_overage_policy": "REJECT", "reservation_ttl_override": {"max_extensions": 3},
            });
            admin
                .send(&Call::of(OperationId::CreatePolicy).body(&body))
                .await?;
        }
        let (cost, made) = reserves(&stack, &tenant, &args.load, args.progress).await?;
        let costs = vec![cost];
        growth.stages.push(Size { stored, costs });
        let mut totals = Totals::default();
        for reserves in &made {
            growth.count(reserves);
            totals.add(&reserves.totals);
        }
        let differences = stack.service.check(&tenant, &totals).await?;
        growth.differences.extend(differences);
    }
    Ok(growth)
}

/// Measures pages of the admin plane, of one tenant and of all, with each of these numbers of budgets. Each budget adds an
/// event and an audit entry.
pub(in crate::tools::bench) async fn with_budgets(args: &BenchArgs) -> Result<Growth, BenchError> {
    use OperationId::{ListAuditLogs, ListBudgets, ListEvents};
    let stack = Stack::start(args.dialect).await?;
    let tenant = stack.service.provision(1).await?;
    let mut growth = Growth::new(1);
    let mut stored = 0;
    for size in sorted(&args.compare_listed) {
        eprintln!("{size} budgets: making {}", size.saturating_sub(stored));
        make_budgets(&stack, &tenant, stored, size).await?;
        stored = stored.max(size);
        // Only until the views are complete, because its commands must not count.
        let dispatcher = stack.dispatcher()?;
        wait_for_views(&stack).await?;
        drop(dispatcher);
        let mut reader = Reader {
            stack: &stack,
            client: stack.service.admin()?,
            limit: args.load.duration,
            costs: Vec::new(),
        };
        let page = |list| Call::of(list).with("limit", Some(PAGE));
        let of_tenant = |list| page(list).with("tenant_id", Some(&tenant.id));
        let by_scope = of_tenant(ListBudgets).with("sort_by", Some("scope"));
        let by_scope = by_scope.with("sort_dir", Some("asc"));
        reader.list("budgets", by_scope).await?;
        for (name, list) in [("events", ListEvents), ("audit", ListAuditLogs)] {
            reader
                .list(&format!("{name} of a tenant"), of_tenant(list))
                .await?;
            reader.list(&format!("{name} of all"), page(list)).await?;
        }
        let costs = reader.costs;
        growth.stages.push(Size { stored, costs });
    }
    Ok(growth)
}

fn sorted(sizes: &[u64]) -> Vec<u64> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes
}

/// Makes the budgets numbered `from..to`.
async fn make_budgets(
    stack: &Stack,
    tenant: &Tenant,
    from: u64,
    to: u64,
) -> Result<(), BenchError> {
    let mut fillers: JoinSet<Result<(), CallError>> = JoinSet::new();
    for filler in 0..FILLERS {
        let admin = stack.service.admin()?;
        let tenant = tenant.id.clone();
        let own = (from..to).skip(filler.into()).step_by(FILLERS.into());
        fillers.spawn(async move {
            for number in own {
                let scope = format!("tenant:{tenant}/app:a{number:08}");
                create_budget(&admin, &tenant, &scope, ALLOCATED).await?;
            }
            Ok(())
        });
    }
    while let Some(made) = fillers.join_next().await {
        made.expect("making budgets does not panic")?;
    }
    Ok(())
}

/// Makes one more tenant and waits until the views of all tenants show it.
async fn wait_for_views(stack: &Stack) -> Result<(), BenchError> {
    let admin = stack.service.admin()?;
    let id = make_tenant(&admin).await?;
    let deadline = Instant::now() + VIEW_LIMIT;
    for (list, member) in [
        (OperationId::ListEvents, "events"),
        (OperationId::ListAuditLogs, "logs"),
    ] {
        let first = Call::of(list).with("limit", Some(1));
        while admin.read(&first).await?[member][0]["tenant_id"] != id.as_str() {
            if Instant::now() > deadline {
                return Err(BenchError::LateViews);
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

//! What policies add to a reserve: the same reserve under tenants with fewer and more of them.

use serde_json::json;

use super::args::BenchArgs;
use super::error::BenchError;
use super::scaling::Stage;
use super::stack::Stack;
use super::stored::{Books, Scaling, reserve};

/// Starts a Redis and a service, and measures a reserve with each of `args.compare_policies`, in this order, under a tenant
/// of its own. All policies match every request, so the one that counts is chosen among all of them.
pub(super) async fn run(args: &BenchArgs) -> Result<Scaling, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let mut scaling = Scaling::empty(args.load.scopes);
    let mut books = Books::default();
    for &count in &args.compare_policies {
        let tenant = stack.service.provision(args.load.scopes).await?;
        let store = stack.bare(&tenant).store()?;
        let mut admin = stack.service.admin()?;
        for number in 0..count {
            let body = json!({
                "tenant_id": tenant.id, "name": format!("policy {number}"), "priority": number,
                "scope_pattern": format!("tenant:{}/*", tenant.id), "caps": {"max_tokens": 4000},
                "commit_overage_policy": "REJECT", "reservation_ttl_override": {"max_extensions": 3},
            });
            admin
                .post("making a policy", "/v1/admin/policies", &body)
                .await?;
        }
        let mut own = Books::default();
        let (cost, _) = reserve(args, &stack, &tenant, &store, &mut own).await?;
        scaling
            .differences
            .extend(stack.service.check(&tenant, &own.sums).await?);
        books.add_failures(&own);
        scaling.stages.push(Stage {
            stored: count,
            costs: vec![cost],
        });
    }
    scaling.count(&books);
    Ok(scaling)
}

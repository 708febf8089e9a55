//! Steps of operators, on both sides.

use std::time::Duration;

use budget_authority::admin::{Admin, AdminError, BudgetUpdate, Funding};
use budget_authority::closing::{Closer, TAKE_OVER, Turn};
use budget_authority::domain::admin_refusal::AdminRefusal;
use budget_authority::domain::funding::FundingOperation;
use budget_authority::domain::scope::ScopePath;
use budget_authority::store::admin::Change;
use budget_authority::store::budget_states::LedgerName;
use budget_authority::store::tenants::Close;

use super::draw::{Step, UNITS};
use super::pure::{Model, Said};
use super::sides::subject;
use crate::harness::desk::{admin_key, ask, funding};
use crate::harness::estate::closed;
use crate::harness::world::World;

const CHANGE: Change<'_> = Change {
    cause: "source service-admin\nactor admin\nrequest_id req_model\ntrace_id 0af7651916cd43dd8448eb211c80319c",
    audit: &Vec::new(),
    payload_hash: "h",
    idempotency: None,
};

/// What the service answers, and what the model says.
pub async fn take(world: &World, model: &mut Model, step: &Step) -> (Said, Said) {
    match step.clone() {
        Step::Fund {
            tenant,
            place,
            operation,
            amount,
            spent,
        } => {
            let (_, path) = subject(world, tenant, place);
            let operation = FundingOperation::ALL[operation];
            let spent = spent.filter(|_| operation == FundingOperation::ResetSpent);
            let owner = world.callers[tenant].tenant.as_str();
            let funding = Funding {
                spent,
                ..funding(Some(owner), &path, operation, amount)
            };
            let admin = Admin::new(world.store.clone(), "sk_live_");
            let answer = admin
                .fund_budget(&admin_key(), &funding, &ask().request())
                .await;
            let name = (tenant, path, UNITS[0]);
            let expected = model.fund(&name, operation, amount.into(), spent.unwrap_or(0).into());
            (said(answer), expected)
        }
        Step::Limit {
            tenant,
            place,
            limit,
        } => {
            let update = BudgetUpdate {
                overdraft_limit: Some(limit),
                ..BudgetUpdate::default()
            };
            let (_, path) = subject(world, tenant, place);
            let scope = ScopePath::parse(&path).expect("a path");
            let ledger = name(world, tenant, &scope);
            let answer = world.store.update_budget(ledger, &update, &CHANGE).await;
            let expected = model.limit(&(tenant, path, UNITS[0]), limit.into());
            (said(answer), expected)
        }
        Step::Freeze {
            tenant,
            place,
            frozen,
        } => {
            let (_, path) = subject(world, tenant, place);
            let scope = ScopePath::parse(&path).expect("a path");
            let ledger = name(world, tenant, &scope);
            let answer = world
                .store
                .freeze_budget(ledger, frozen, None, &CHANGE)
                .await;
            let expected = model.freeze(&(tenant, path, UNITS[0]), frozen);
            (said(answer), expected)
        }
        Step::Close { tenant } => {
            let name = &world.callers[tenant].tenant;
            let close = Close {
                correlation_id: "tenant_close_cascade:model",
                parent_correlation_id: None,
                request_part: TAKE_OVER,
            };
            let flipped = world
                .store
                .update_tenant(name, &closed(), &close, &CHANGE)
                .await;
            assert!(flipped.expect("closed").closing);
            let turn = Closer::new(&world.store, name, None)
                .run(Duration::from_secs(20))
                .await;
            assert_eq!(turn.expect("Redis answers"), Turn::Closed);
            model.close(tenant);
            (Said::Extended, Said::Extended)
        }
        other => panic!("no step of operators: {other:?}"),
    }
}

fn name<'a>(world: &'a World, tenant: usize, scope: &'a ScopePath) -> LedgerName<'a> {
    LedgerName {
        tenant: &world.callers[tenant].tenant,
        scope,
        unit: UNITS[0],
    }
}

fn said<T: std::fmt::Debug>(answer: Result<T, AdminError>) -> Said {
    let refusal = match answer {
        Ok(_) => return Said::Extended,
        Err(AdminError::Refused(refusal)) => refusal,
        Err(other) => panic!("{other:?}"),
    };
    Said::Refused(match refusal {
        AdminRefusal::BudgetNotFound => "BudgetNotFound",
        AdminRefusal::BudgetExceeded { .. } => "BudgetExceeded",
        AdminRefusal::OutOfRange => "OutOfRange",
        AdminRefusal::BudgetFrozen => "BudgetFrozen",
        AdminRefusal::AlreadyFrozen => "AlreadyFrozen",
        AdminRefusal::NotFrozen => "NotFrozen",
        AdminRefusal::TenantClosed => "TenantClosed",
        other => panic!("{other:?}"),
    })
}

//! Steps of operators, on both sides.

use std::time::Duration;

use budget_authority::admin::tenants::closing::{CloseProgress, Closer, TAKE_OVER};
use budget_authority::admin::{Admin, Funding};
use budget_authority::domain::amount::Amount;
use budget_authority::domain::budget::ledger::BudgetUpdateRequest;
use budget_authority::domain::budget::ledger::FundingOperation;
use budget_authority::domain::dialect::Dialect;
use budget_authority::domain::fields::Patch;
use budget_authority::domain::refusal::{AccessRefusal, BudgetRefusal, Refusal, TenantRefusal};
use budget_authority::domain::tenant::TenantStatus;
use budget_authority::domain::tenant::TenantUpdateRequest;
use budget_authority::store::StoreError;

use super::draw::{Step, UNITS};
use super::pure::{Model, Outcome};
use super::sides::subject;
use crate::harness::admin_fixture::{admin_key, ask, asking, funding, refusal, scope};
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::tenant_fixture::closed;

/// The reply of the service, and that of the model.
pub async fn take(fixture: &LedgerFixture, model: &mut Model, step: &Step) -> (Outcome, Outcome) {
    match step.clone() {
        Step::Fund {
            tenant,
            place,
            unit,
            operation,
            amount,
            spent,
            key,
        } => {
            let (_, path) = subject(fixture, tenant, place);
            let (unit, operation) = (UNITS[unit], FundingOperation::ALL[operation]);
            let spent = spent.filter(|_| operation == FundingOperation::ResetSpent);
            let owner = fixture.callers[tenant].tenant.as_str();
            let funding = Funding {
                spent,
                unit,
                amount: (operation != FundingOperation::Renew).then_some(amount),
                ..funding(Some(owner), &path, operation, amount)
            };
            let hash = format!("\"{path} {unit} {operation:?} {amount} {spent:?}\"");
            let key = key.map(|key| format!("fund-{key}"));
            let admin = Admin::new(fixture.store.clone(), Dialect::Service);
            let result = admin
                .fund_budget(
                    &admin_key(),
                    &funding,
                    &asking(key.as_deref(), &hash).request(),
                )
                .await;
            let entry = key.map(|key| (tenant, "fund", key));
            let first = entry.as_ref().and_then(|entry| model.answered.get(entry));
            let expected = match first {
                Some((first, stored)) if *first == hash => stored.clone(),
                Some(_) => Outcome::Refused("IdempotencyMismatch"),
                None => {
                    let name = (tenant, path, unit);
                    model.fund(&name, operation, amount.into(), spent.unwrap_or(0).into())
                }
            };
            if let (Some(entry), Outcome::Extended) = (entry, &expected) {
                model.answered.insert(entry, (hash, expected.clone()));
            }
            (response(result), expected)
        }
        Step::Change {
            tenant,
            place,
            unit,
            limit,
            overage,
        } => {
            let update = BudgetUpdateRequest {
                overdraft_limit: limit
                    .map(|limit| Amount::new(UNITS[unit], limit).expect("not negative")),
                commit_overage_policy: overage.map_or(Patch::Keep, |policy| {
                    policy.map_or(Patch::Clear, Patch::Set)
                }),
                ..BudgetUpdateRequest::default()
            };
            let (_, path) = subject(fixture, tenant, place);
            let admin = Admin::new(fixture.store.clone(), Dialect::Service);
            let request = ask();
            let result = admin
                .update_budget(&scope(&path), UNITS[unit], &update, &request.request())
                .await;
            let name = (tenant, path, UNITS[unit]);
            let expected = model.change(&name, limit.map(i128::from), overage);
            (response(result), expected)
        }
        Step::Freeze {
            tenant,
            place,
            unit,
            frozen,
        } => {
            let (_, path) = subject(fixture, tenant, place);
            let admin = Admin::new(fixture.store.clone(), Dialect::Service);
            let request = ask();
            let result = admin
                .freeze_budget(&scope(&path), UNITS[unit], frozen, None, &request.request())
                .await;
            let expected = model.freeze(&(tenant, path, UNITS[unit]), frozen);
            (response(result), expected)
        }
        Step::ChangeTenant {
            tenant,
            suspended,
            overage,
            extensions,
        } => {
            // A closed tenant stays closed; tests/it/admin/tenants/update.rs has the refusal.
            if !model.closed.contains(&tenant) {
                let status = match suspended {
                    true => TenantStatus::Suspended,
                    false => TenantStatus::Active,
                };
                let update = TenantUpdateRequest {
                    status: Some(status),
                    default_commit_overage_policy: overage,
                    max_reservation_extensions: Some(extensions),
                    ..TenantUpdateRequest::default()
                };
                let name = &fixture.callers[tenant].tenant;
                let admin = Admin::new(fixture.store.clone(), Dialect::Service);
                let changed = admin
                    .change_tenant(name, &update, TAKE_OVER, &ask().request())
                    .await;
                changed.expect("a changed tenant");
                model.change_tenant(tenant, suspended, overage, extensions);
            }
            (Outcome::Extended, Outcome::Extended)
        }
        Step::Close { tenant } => {
            let name = &fixture.callers[tenant].tenant;
            let admin = Admin::new(fixture.store.clone(), Dialect::Service);
            let flipped = admin
                .change_tenant(name, &closed(), TAKE_OVER, &ask().request())
                .await;
            assert!(flipped.expect("closed").0);
            let progress = Closer::new(&fixture.store, name, None)
                .run(Duration::from_secs(20))
                .await;
            assert_eq!(progress.expect("Redis answers"), CloseProgress::Closed);
            model.close(tenant);
            (Outcome::Extended, Outcome::Extended)
        }
        other => panic!("no step of operators: {other:?}"),
    }
}

pub fn response<T: std::fmt::Debug>(result: Result<T, StoreError>) -> Outcome {
    let refusal = match result {
        Ok(_) => return Outcome::Extended,
        // The records of the fixture lack fields that a response has; the change is made.
        Err(StoreError::About(_, error)) if matches!(*error, StoreError::Record(_)) => {
            return Outcome::Extended;
        }
        refused => refusal(refused),
    };
    Outcome::Refused(match refusal {
        Refusal::Budget(BudgetRefusal::NotFound(_)) => "BudgetNotFound",
        Refusal::Budget(BudgetRefusal::Exceeded { .. }) => "BudgetExceeded",
        Refusal::Budget(BudgetRefusal::OutOfRange(_)) => "OutOfRange",
        Refusal::Budget(BudgetRefusal::IncreaseNotFound { .. }) => "IncreaseNotFound",
        Refusal::TooMany(_) => "TooMany",
        Refusal::Budget(BudgetRefusal::Frozen(_)) => "BudgetFrozen",
        Refusal::Budget(BudgetRefusal::AlreadyFrozen(_)) => "AlreadyFrozen",
        Refusal::Budget(BudgetRefusal::NotFrozen(_)) => "NotFrozen",
        Refusal::Access(AccessRefusal::IdempotencyMismatch) => "IdempotencyMismatch",
        Refusal::Tenant(TenantRefusal::Closed(_)) => "TenantClosed",
        other => panic!("{other:?}"),
    })
}

//! From records to what responses show of them.

use super::{api_keys, budgets, tenants};
use crate::admin::Funded;
use crate::api::errors::ApiError;
use crate::domain::amount::{Amount, SignedAmount, Unit};
use crate::domain::api_key::ApiKey;
use crate::domain::budget::funding::FundingOperation;
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::tenant::record::Tenant;

/// A tenant, with all that is set.
pub(super) fn tenant(tenant: Tenant) -> tenants::Tenant {
    tenants::Tenant {
        tenant_id: tenant.tenant_id,
        name: tenant.name,
        status: tenant.status,
        parent_tenant_id: tenant.parent_tenant_id,
        default_commit_overage_policy: tenant.default_commit_overage_policy,
        default_reservation_ttl_ms: tenant.default_reservation_ttl_ms,
        max_reservation_ttl_ms: tenant.max_reservation_ttl_ms,
        max_reservation_extensions: tenant.max_reservation_extensions,
        reservation_expiry_policy: tenant.reservation_expiry_policy,
        metadata: tenant.metadata,
        created_at: tenant.created_at,
        updated_at: tenant.updated_at,
        suspended_at: tenant.suspended_at,
        closed_at: tenant.closed_at,
    }
}

/// An API key without its secret, which no record has.
pub(super) fn api_key(key: ApiKey) -> api_keys::ApiKey {
    api_keys::ApiKey {
        key_id: key.key_id,
        tenant_id: key.tenant_id,
        key_prefix: key.key_prefix,
        name: key.name,
        description: key.description,
        permissions: key.permissions,
        scope_filter: key.scope_filter.entries().to_vec(),
        status: key.status,
        created_at: key.created_at,
        last_used_at: None,
        expires_at: key.expires_at,
        revoked_at: key.revoked_at,
        revoked_reason: key.revoked_reason,
        metadata: key.metadata,
    }
}

/// A ledger with all its figures.
pub(super) fn ledger(ledger: BudgetLedger) -> Result<budgets::BudgetLedger, ApiError> {
    let unit = ledger.unit;
    Ok(budgets::BudgetLedger {
        ledger_id: ledger.ledger_id,
        tenant_id: ledger.tenant_id,
        scope: ledger.scope,
        scope_path: None,
        unit,
        allocated: amount(unit, ledger.allocated)?,
        remaining: SignedAmount::new(unit, ledger.remaining),
        reserved: amount(unit, ledger.reserved)?,
        spent: amount(unit, ledger.spent)?,
        debt: amount(unit, ledger.debt)?,
        overdraft_limit: amount(unit, ledger.overdraft_limit)?,
        is_over_limit: ledger.is_over_limit,
        commit_overage_policy: ledger.commit_overage_policy,
        status: ledger.status,
        rollover_policy: ledger.rollover_policy,
        period_start: ledger.period_start,
        period_end: ledger.period_end,
        created_at: ledger.created_at,
        updated_at: ledger.updated_at,
    })
}

/// The figures before and after.
pub(super) fn funded(
    operation: FundingOperation,
    unit: Unit,
    funded: &Funded,
) -> Result<budgets::BudgetFundingResponse, ApiError> {
    Ok(budgets::BudgetFundingResponse {
        operation,
        previous_allocated: amount(unit, funded.allocated.previous)?,
        new_allocated: amount(unit, funded.allocated.new)?,
        previous_remaining: SignedAmount::new(unit, funded.remaining.previous),
        new_remaining: SignedAmount::new(unit, funded.remaining.new),
        previous_debt: amount(unit, funded.debt.previous)?,
        new_debt: amount(unit, funded.debt.new)?,
        previous_spent: amount(unit, funded.spent.previous)?,
        new_spent: amount(unit, funded.spent.new)?,
        timestamp: funded.at,
    })
}

fn amount(unit: Unit, value: i64) -> Result<Amount, ApiError> {
    Amount::new(unit, value).ok_or_else(|| ApiError::internal("a figure of the record is negative"))
}

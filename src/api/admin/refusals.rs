//! From what the admin plane refuses to what the wire says.

use axum::http::StatusCode;
use serde_json::json;

use crate::admin::AdminError;
use crate::api::errors::{ApiError, Code};
use crate::api::refusals::store_error;
use crate::domain::admin_refusal::AdminRefusal;
use crate::domain::amount::{Amount, Unit};
use crate::domain::printable::printable;
use crate::domain::refusal::BadCredential;

/// What a message may name of the request that was refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// The tenant that was named.
    pub tenant: &'a str,
    /// The scope that was named.
    pub scope: &'a str,
    /// The ledger's unit.
    pub unit: Option<Unit>,
    /// The API key that was named.
    pub key: &'a str,
    /// The policy that was named.
    pub policy: &'a str,
    /// The name that something was to have.
    pub name: &'a str,
    /// What was to be moved.
    pub amount: Option<Amount>,
}

/// The error that a client gets.
pub fn error_of(error: AdminError, asked: &Asked<'_>) -> ApiError {
    match error {
        AdminError::Refused(refusal) => refused(refusal, asked),
        AdminError::Store(error) => store_error(error),
        AdminError::Record(error) => ApiError::internal(error),
    }
}

fn refused(refusal: AdminRefusal, asked: &Asked<'_>) -> ApiError {
    use AdminRefusal as R;
    let tenant = printable(asked.tenant);
    let budget = || format!("{} in {}", asked.scope, asked.unit.map_or("", Unit::as_str));
    match refusal {
        R::Unauthorized(why) => ApiError::unauthorized(BadCredential::Key(why)),
        R::Forbidden(permission) => ApiError::new(
            StatusCode::FORBIDDEN,
            Code::InsufficientPermissions,
            format!("The API key lacks the permission {permission}"),
        ),
        R::ScopeForbidden => ApiError::forbidden("The API key is restricted to other scopes"),
        R::IdempotencyMismatch => ApiError::conflict(
            Code::IdempotencyMismatch,
            "The idempotency key was first used with another request; use a new key",
        ),
        R::TenantUnreadable => {
            ApiError::internal("the record of the tenant has no readable status")
        }
        R::TenantClosed => ApiError::conflict(
            Code::TenantClosed,
            format!("The tenant {tenant} is closed; what it owns is read-only"),
        ),
        R::TenantSuspended => ApiError::forbidden(format!(
            "The tenant {tenant} is suspended; its keys change nothing"
        )),
        R::TenantNotActive => ApiError::invalid(format!(
            "The tenant {tenant} is suspended; nothing can be created for it"
        )),
        R::TenantIdMissing => {
            ApiError::invalid("Validation failed: tenant_id: is required with the admin key")
        }
        R::TenantIdPresent => ApiError::invalid(
            "Validation failed: tenant_id: must be absent with an API key, which names its tenant itself",
        ),
        R::ScopeOfOtherTenant => ApiError::invalid(format!(
            "Validation failed: scope: {} does not lie in the tenant {tenant}",
            asked.scope
        )),
        R::OwnerNotFound => ApiError::new(
            StatusCode::BAD_REQUEST,
            Code::TenantNotFound,
            no_tenant(&tenant),
        ),
        R::TenantNotFound => ApiError::new(
            StatusCode::NOT_FOUND,
            Code::TenantNotFound,
            no_tenant(&tenant),
        ),
        R::DuplicateTenant => ApiError::conflict(
            Code::DuplicateResource,
            format!("The tenant {tenant} exists under another name"),
        ),
        R::LeavingClosed => ApiError::invalid(format!(
            "Invalid status: the tenant {tenant} is closed, and a closed tenant stays closed"
        )),
        R::AlreadyFrozen => ApiError::conflict(
            Code::InvalidRequest,
            format!("The budget at {} is already frozen", budget()),
        ),
        R::NotFrozen => ApiError::conflict(
            Code::InvalidRequest,
            format!("The budget at {} is not frozen", budget()),
        ),
        R::DuplicateBudget => ApiError::conflict(
            Code::DuplicateResource,
            format!("There is a budget at {} already", budget()),
        ),
        R::BudgetNotFound => ApiError::new(
            StatusCode::NOT_FOUND,
            Code::BudgetNotFound,
            format!("There is no budget at {}", budget()),
        ),
        R::ForeignBudget => {
            ApiError::forbidden(format!("The scope {} lies in another tenant", asked.scope))
        }
        R::BudgetFrozen => ApiError::conflict(
            Code::BudgetFrozen,
            format!("The budget at {} is frozen", budget()),
        ),
        R::BudgetClosed => ApiError::conflict(
            Code::BudgetClosed,
            format!("The budget at {} is closed", budget()),
        ),
        R::BudgetExceeded { remaining } => exceeded(remaining, asked),
        R::OutOfRange => ApiError::invalid(
            "Validation failed: amount: a figure of the budget would leave the range of 64 bits",
        ),
        R::PatternOfOtherTenant => ApiError::invalid(format!(
            "Validation failed: scope_pattern: {} does not lie in the tenant {tenant}",
            asked.scope
        )),
        R::PolicyNotFound => {
            ApiError::not_found(format!("There is no policy {}", printable(asked.policy)))
        }
        R::ForeignPolicy => ApiError::forbidden(format!(
            "The policy {} belongs to another tenant",
            printable(asked.policy)
        )),
        R::DuplicatePolicy => ApiError::conflict(
            Code::DuplicateResource,
            format!(
                "The tenant {tenant} has a policy of the name {} already",
                printable(asked.name)
            ),
        ),
        R::KeyNotFound => {
            ApiError::not_found(format!("There is no API key {}", printable(asked.key)))
        }
        R::KeyRevoked => ApiError::conflict(
            Code::KeyRevoked,
            format!(
                "The API key {} has been revoked already",
                printable(asked.key)
            ),
        ),
        R::ExpiresInThePast => {
            ApiError::invalid("Validation failed: expires_at: must lie in the future")
        }
        R::TooManyToSort { bound } => ApiError::new(
            StatusCode::BAD_REQUEST,
            Code::LimitExceeded,
            format!(
                "Invalid sort_by: more than {bound} tenants match, too many to sort; \
                 narrow the filters, or sort by tenant_id"
            ),
        ),
        R::Corrupt(what) => ApiError::internal(format!("the record `{what}` is corrupt")),
    }
}

fn no_tenant(tenant: &str) -> String {
    format!("There is no tenant {tenant}")
}

fn exceeded(remaining: i64, asked: &Asked<'_>) -> ApiError {
    let amount = asked.amount.map_or(0, Amount::value);
    let unit = asked.unit.map_or("", Unit::as_str);
    let message = format!(
        "{amount} {unit} exceed the {remaining} that remain at {}",
        asked.scope
    );
    ApiError::conflict(Code::BudgetExceeded, message).with_details(json!({
        "scope": asked.scope, "unit": unit, "requested": amount, "remaining": remaining,
    }))
}

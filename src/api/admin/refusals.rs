//! The table from refusals of the admin plane to errors of the wire.

use axum::http::StatusCode;
use serde_json::json;

use crate::api::dialect::headers::RATE_LIMIT_RESET;
use crate::api::errors::{ApiError, Code};
use crate::domain::amount::{Amount, Unit};
use crate::domain::bulk::ROWS_MAX;
use crate::domain::printable::printable;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::refusal::{BadCredential, Refusal};
use crate::store::OperationError;

/// What an error message may name of the request.
#[derive(Debug, Clone, Copy, Default)]
pub struct ErrorContext<'a> {
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
    /// The requested name.
    pub name: &'a str,
    /// The webhook that was named.
    pub webhook: &'a str,
    /// The event that was named.
    pub event: &'a str,
    /// The requested amount.
    pub amount: Option<Amount>,
}

/// The error that a client gets. Its script has checked the API key.
pub fn error_of(error: OperationError, context: &ErrorContext<'_>) -> ApiError {
    match error {
        OperationError::Refused(Refusal::Admin(refusal)) => refused(refusal, context).after_check(),
        error => error.into(),
    }
}

fn refused(refusal: AdminRefusal, context: &ErrorContext<'_>) -> ApiError {
    use AdminRefusal as R;
    let tenant = printable(context.tenant);
    let budget = || {
        format!(
            "{} in {}",
            context.scope,
            context.unit.map_or("", Unit::as_str)
        )
    };
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
            context.scope
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
            ApiError::forbidden(format!("The scope {} lies in another tenant", context.scope))
        }
        R::BudgetFrozen => ApiError::conflict(
            Code::BudgetFrozen,
            format!("The budget at {} is frozen", budget()),
        ),
        R::BudgetClosed => ApiError::conflict(
            Code::BudgetClosed,
            format!("The budget at {} is closed", budget()),
        ),
        R::BudgetExceeded { remaining } => exceeded(remaining, context),
        R::OutOfRange => ApiError::invalid(
            "Validation failed: amount: a figure of the budget would leave the range of 64 bits",
        ),
        R::PatternOfOtherTenant => ApiError::invalid(format!(
            "Validation failed: scope_pattern: {} does not lie in the tenant {tenant}",
            context.scope
        )),
        R::PolicyNotFound => {
            ApiError::not_found(format!("There is no policy {}", printable(context.policy)))
        }
        R::ForeignPolicy => ApiError::forbidden(format!(
            "The policy {} belongs to another tenant",
            printable(context.policy)
        )),
        R::DuplicatePolicy => ApiError::conflict(
            Code::DuplicateResource,
            format!(
                "The tenant {tenant} has a policy of the name {} already",
                printable(context.name)
            ),
        ),
        R::KeyNotFound => {
            ApiError::not_found(format!("There is no API key {}", printable(context.key)))
        }
        R::KeyRevoked => ApiError::conflict(
            Code::KeyRevoked,
            format!(
                "The API key {} has been revoked already",
                printable(context.key)
            ),
        ),
        R::KeyEnded(status) => ApiError::conflict(
            Code::InvalidRequest,
            format!(
                "The API key {} is {status} and cannot be changed any more",
                printable(context.key)
            ),
        ),
        R::ExpiresInThePast => {
            ApiError::invalid("Validation failed: expires_at: must lie in the future")
        }
        R::EventNotFound => ApiError::new(
            StatusCode::NOT_FOUND,
            Code::EventNotFound,
            format!("There is no event {}", printable(context.event)),
        ),
        R::TooManyMatched { total } => ApiError::new(
            StatusCode::BAD_REQUEST,
            Code::LimitExceeded,
            format!(
                "Invalid filter: {total} rows match, and a bulk action has at most {ROWS_MAX}; narrow the filter"
            ),
        )
        .with_details(json!({"total_matched": total})),
        R::CountMismatch { total } => ApiError::conflict(
            Code::CountMismatch,
            format!("{total} rows match, another number than expected_count; nothing was changed"),
        )
        .with_details(json!({"total_matched": total})),
        R::BulkInProgress => ApiError::unavailable("the bulk action is still on its way", 1),
        R::WebhookNotFound => ApiError::new(
            StatusCode::NOT_FOUND,
            Code::WebhookNotFound,
            format!("There is no webhook {}", printable(context.webhook)),
        ),
        R::WebhookUrl(why) => ApiError::new(
            StatusCode::BAD_REQUEST,
            Code::WebhookUrlInvalid,
            format!("Validation failed: url: {why}"),
        )
        .with_details(json!({"field": "url"})),
        R::NothingSelected => ApiError::invalid(
            "Validation failed: event_types: the webhook must retain at least one event type or event category",
        ),
        R::HiddenSelector(hidden) => ApiError::invalid(format!(
            "Validation failed: event_types: {} is for webhooks of the operator; a tenant's may have the types and \
             categories of budget, reservation and tenant",
            printable(&hidden)
        )),
        R::MaskedHeader(name) => ApiError::invalid(format!(
            "Validation failed: headers.{}: the mask keeps a value, and there is none to be kept",
            printable(&name)
        )),
        R::PauseOfDisabled => ApiError::invalid(
            "Validation failed: status: a disabled webhook can be set ACTIVE, not PAUSED",
        ),
        R::ReplayInProgress => ApiError::conflict(
            Code::ReplayInProgress,
            format!(
                "A replay of the webhook {} is in progress",
                printable(context.webhook)
            ),
        ),
        R::TooManyToReplay { bound, asked } => ApiError::invalid(match asked {
            true => format!(
                "Validation failed: max_events: more than {bound} events match; none was queued; \
                 narrow from, to or event_types"
            ),
            false => format!(
                "Validation failed: from: the window holds more than {bound} events; none was queued; narrow from and to"
            ),
        }),
        R::TestedTooOften {
            retry_in_ms,
            until_ms,
        } => tested_too_often(retry_in_ms, until_ms),
        R::NotRepeatable => ApiError::invalid(
            "X-Idempotency-Key is not possible here: the response shows a secret, and there is no key to keep it under",
        ),
        R::Contended => ApiError::conflict(
            Code::InvalidRequest,
            format!(
                "The webhook {} was changed by others at the same time; try again",
                printable(context.webhook)
            ),
        ),
        R::Corrupt(what) => ApiError::internal(format!("the record `{what}` is corrupt")),
    }
}

/// Both headers in whole seconds; minutes end on one.
fn tested_too_often(retry_in_ms: i64, until_ms: i64) -> ApiError {
    let message = "The webhook was tested too often in this minute";
    let seconds = (retry_in_ms.max(0) as u64).div_ceil(1000);
    ApiError::limited(message, seconds).with_header(RATE_LIMIT_RESET, (until_ms / 1000).into())
}

fn no_tenant(tenant: &str) -> String {
    format!("There is no tenant {tenant}")
}

fn exceeded(remaining: i64, context: &ErrorContext<'_>) -> ApiError {
    let amount = context.amount.map_or(0, Amount::value);
    let unit = context.unit.map_or("", Unit::as_str);
    let message = format!(
        "{amount} {unit} exceed the {remaining} that remain at {}",
        context.scope
    );
    ApiError::conflict(Code::BudgetExceeded, message).with_details(json!({
        "scope": context.scope, "unit": unit, "requested": amount, "remaining": remaining,
    }))
}

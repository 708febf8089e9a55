//! The errors that clients get for errors of the layers below. One table gives every refusal its status and code; its message
//! is with the refusal itself.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use serde_json::json;

use super::dialect::headers::RATE_LIMIT_RESET;
use super::errors::{ApiError, Code};
use crate::domain::amount::Amount;
use crate::domain::api_key::permission::ApiKeyStatus;
use crate::domain::ids::TenantId;
use crate::domain::refusal::{
    AccessRefusal as Access, ApiKeyRefusal as ApiKey, BadCredential, BudgetRefusal as Budget,
    BulkRefusal as Bulk, EvaluatedRefusal, EventRefusal as Event, PolicyRefusal as Policy, Refusal,
    ReservationRefusal as Reservation, StockTooLarge, TenantRefusal as Tenant, TooManyScanned,
    TooManySorts, UsageRefusal, WebhookRefusal as Webhook,
};
use crate::store::StoreError;

/// When a tenant whose data takes too much memory may try again: retention, or an operator, has hardly freed any before.
const STOCK_PAUSE: Duration = Duration::from_secs(60);

/// An operation has called a script, which checked the API key. A failure is 503 where a retry may help, else 500.
impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let error = match error {
            StoreError::About(tenant, error) => return Self::from(*error).about(Some(tenant)),
            // Its list has not called a script.
            StoreError::Refusal(refusal @ Refusal::Scan(_)) => return refusal.into(),
            StoreError::Refusal(refusal) => refusal.into(),
            StoreError::Attested(refusal, evidence) => Self::from(refusal).with_evidence(*evidence),
            StoreError::Unavailable(_) => Self::unavailable(error, 1),
            // Memory does not come back as fast as a connection.
            StoreError::Full => Self::unavailable(error, 5),
            StoreError::Record(_)
            | StoreError::Corrupt(_)
            | StoreError::Script { .. }
            | StoreError::Reply { .. }
            | StoreError::ErrorReply { .. }
            | StoreError::Deployment(_)
            | StoreError::OtherDialect { .. } => Self::internal(error),
        };
        error.after_check()
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        use {Refusal as R, StatusCode as S};
        if let Some(evaluated) = refusal.evaluated() {
            return Self::of_evaluated(evaluated, refusal.to_string());
        }
        let (status, code) = match &refusal {
            R::Access(Access::Unauthorized(why)) => {
                return Self::unauthorized(BadCredential::Key(*why));
            }
            R::Access(Access::Forbidden(_) | Access::ScopeForbidden(_) | Access::OtherTenant) => {
                (S::FORBIDDEN, Code::Forbidden)
            }
            R::Access(Access::NotPermitted(_)) => (S::FORBIDDEN, Code::InsufficientPermissions),
            R::Access(Access::IdempotencyMismatch) => (S::CONFLICT, Code::IdempotencyMismatch),
            R::Access(Access::NotRepeatable) => (S::BAD_REQUEST, Code::InvalidRequest),

            R::Tenant(Tenant::Suspended(_) | Tenant::KeysSuspended(_)) => {
                (S::FORBIDDEN, Code::Forbidden)
            }
            R::Tenant(Tenant::NotFound(_)) => (S::NOT_FOUND, Code::TenantNotFound),
            R::Tenant(Tenant::OwnerNotFound(_)) => (S::BAD_REQUEST, Code::TenantNotFound),
            R::Tenant(Tenant::Duplicate(_)) => (S::CONFLICT, Code::DuplicateResource),
            R::Tenant(
                Tenant::NotActive(_)
                | Tenant::StaysClosed(_)
                | Tenant::Outside { .. }
                | Tenant::IdMissing
                | Tenant::IdPresent,
            ) => (S::BAD_REQUEST, Code::InvalidRequest),

            R::Reservation(Reservation::NotFound(_) | Reservation::BudgetNotFound(_)) => {
                (S::NOT_FOUND, Code::NotFound)
            }
            R::Reservation(Reservation::NotCharged(_)) => (S::CONFLICT, Code::InvalidRequest),
            R::Reservation(Reservation::RefundTooLarge { .. }) => {
                (S::BAD_REQUEST, Code::LimitExceeded)
            }
            R::Reservation(Reservation::OfOtherTenant) => (S::FORBIDDEN, Code::Forbidden),
            R::Reservation(Reservation::TooManyExtensions(_)) => {
                (S::CONFLICT, Code::MaxExtensionsExceeded)
            }
            R::Reservation(Reservation::RateLimited { .. } | Reservation::StoredTooMuch { .. }) => {
                (S::TOO_MANY_REQUESTS, Code::LimitExceeded)
            }
            // Handled above, except denials that only decisions and dry runs report: none of these gets here.
            R::Tenant(Tenant::Closed(_))
            | R::Reservation(
                Reservation::Expired(_)
                | Reservation::Finalized { .. }
                | Reservation::UnitMismatch { .. }
                | Reservation::OverageRejected { .. }
                | Reservation::Denied { .. },
            ) => return Self::internal("a denial that only decisions know"),

            R::Budget(Budget::NotFound(_)) => (S::NOT_FOUND, Code::BudgetNotFound),
            R::Budget(Budget::Duplicate(_)) => (S::CONFLICT, Code::DuplicateResource),
            R::Budget(Budget::AlreadyFrozen(_) | Budget::NotFrozen(_)) => {
                (S::CONFLICT, Code::InvalidRequest)
            }
            R::Budget(Budget::Frozen(_)) => (S::CONFLICT, Code::BudgetFrozen),
            R::Budget(Budget::Closed(_)) => (S::CONFLICT, Code::BudgetClosed),
            R::Budget(Budget::OfOtherTenant(_)) => (S::FORBIDDEN, Code::Forbidden),
            R::Budget(Budget::Exceeded { .. }) => (S::CONFLICT, Code::BudgetExceeded),
            R::Budget(
                Budget::OutOfRange(_) | Budget::CarryLimitAlone | Budget::UntilOutOfRange,
            ) => (S::BAD_REQUEST, Code::InvalidRequest),
            R::Budget(Budget::IncreaseNotFound { .. }) => (S::NOT_FOUND, Code::NotFound),

            R::Policy(Policy::NotFound(_)) => (S::NOT_FOUND, Code::NotFound),
            R::Policy(Policy::OfOtherTenant(_)) => (S::FORBIDDEN, Code::Forbidden),
            R::Policy(Policy::TemplatesBelow) => (S::BAD_REQUEST, Code::InvalidRequest),
            R::Policy(Policy::Duplicate { .. }) => (S::CONFLICT, Code::DuplicateResource),

            R::ApiKey(ApiKey::NotFound(_)) => (S::NOT_FOUND, Code::NotFound),
            R::ApiKey(ApiKey::Revoked(_)) => (S::CONFLICT, Code::KeyRevoked),
            R::ApiKey(ApiKey::Ended { .. }) => (S::CONFLICT, Code::InvalidRequest),
            R::ApiKey(ApiKey::EndedSince { status, .. }) => match status {
                ApiKeyStatus::Expired => (S::CONFLICT, Code::KeyExpired),
                ApiKeyStatus::Active | ApiKeyStatus::Revoked => (S::CONFLICT, Code::KeyRevoked),
            },
            R::ApiKey(ApiKey::ExpiresInThePast | ApiKey::ScopeOutside { .. }) => {
                (S::BAD_REQUEST, Code::InvalidRequest)
            }

            R::Webhook(Webhook::NotFound(_)) => (S::NOT_FOUND, Code::WebhookNotFound),
            R::Webhook(Webhook::UrlNotAdmitted(_)) => (S::BAD_REQUEST, Code::WebhookUrlInvalid),
            R::Webhook(Webhook::LookUpsBusy) => return Self::unavailable(refusal, 1),
            R::Webhook(Webhook::ReplayInProgress(_)) => (S::CONFLICT, Code::ReplayInProgress),
            R::Webhook(Webhook::TestedTooOften { .. } | Webhook::OwnerTestedTooOften { .. }) => {
                (S::TOO_MANY_REQUESTS, Code::LimitExceeded)
            }
            R::Webhook(Webhook::Contended(_)) => (S::CONFLICT, Code::InvalidRequest),
            R::Webhook(
                Webhook::NothingSelected
                | Webhook::HiddenSelector(_)
                | Webhook::MaskedHeader(_)
                | Webhook::PauseOfDisabled
                | Webhook::TooManyMatch(_)
                | Webhook::TooManyInWindow(_),
            ) => (S::BAD_REQUEST, Code::InvalidRequest),

            R::Bulk(Bulk::TooManyMatched(_)) => (S::BAD_REQUEST, Code::LimitExceeded),
            R::Bulk(Bulk::CountMismatch(_)) => (S::CONFLICT, Code::CountMismatch),
            R::Bulk(Bulk::InProgress) => return Self::unavailable(refusal, 1),

            R::TooMany(_) => (S::BAD_REQUEST, Code::LimitExceeded),

            R::Usage(UsageRefusal::Merging) => return Self::unavailable(refusal, 1),
            R::Usage(_) => (S::BAD_REQUEST, Code::InvalidRequest),

            R::Event(Event::NotFound(_)) => (S::NOT_FOUND, Code::EventNotFound),

            R::Stock(_) | R::Sort(_) | R::Scan(_) => (S::TOO_MANY_REQUESTS, Code::LimitExceeded),

            R::List(list) if list.is_of_runtime_plane => (S::BAD_REQUEST, Code::InvalidRequest),
            R::List(list) => {
                let message = format!("Invalid sort_by: {list}");
                return Self::new(S::BAD_REQUEST, Code::LimitExceeded, message);
            }
        };
        Self::new(status, code, refusal.to_string()).with_facts(&refusal)
    }
}

impl ApiError {
    /// A refusal after evaluation, by what evidence attests of it. `message`: before it is made printable.
    fn of_evaluated(evaluated: EvaluatedRefusal, message: String) -> Self {
        let Ok(status) = StatusCode::from_u16(evaluated.http_status) else {
            return Self::internal("a refusal without a status");
        };
        let error = Self::new(status, evaluated.code.into(), message);
        match evaluated.details {
            Some(details) => error.with_details(details),
            None => error,
        }
    }

    /// With what few refusals have besides a message: details, headers, a tenant.
    fn with_facts(self, refusal: &Refusal) -> Self {
        use Refusal as R;
        match refusal {
            R::Tenant(Tenant::Outside { tenant, .. }) => self.about(TenantId::parse(tenant)),
            R::Reservation(Reservation::RateLimited { scope, policy_id, retry_in_ms, until_ms }) => self
                .limited_until(*retry_in_ms, *until_ms)
                .with_details(json!({"scope": scope, "policy_id": policy_id})),
            R::Reservation(Reservation::StoredTooMuch { limit, present, retry_in_ms, until_ms }) => self
                .limited_until(*retry_in_ms, *until_ms)
                .beyond("BUDGET_STORED_BYTES_PER_MINUTE", *limit, *present),
            R::Reservation(Reservation::RefundTooLarge { charged, refunded, .. }) => {
                self.with_details(json!({"limit": charged, "present": refunded}))
            }
            R::Webhook(Webhook::TestedTooOften { most, retry_in_ms, until_ms, .. }) => self
                .limited_until(*retry_in_ms, *until_ms)
                .with_details(json!({"limit": most, "present": most})),
            R::Webhook(Webhook::OwnerTestedTooOften { most, retry_in_ms, until_ms, .. }) => self
                .limited_until(*retry_in_ms, *until_ms)
                .beyond("webhook_tests_per_minute", *most, *most),
            R::Budget(Budget::Exceeded { budget, requested, balance }) => {
                self.with_details(json!({
                    "scope": budget.scope, "unit": budget.unit, "requested": requested, "remaining": balance.remaining.value(),
                    "allocated": balance.allocated.value(), "spent": balance.spent.value(), "reserved": balance.reserved.value(),
                    "debt": balance.debt.map_or(0, Amount::value),
                }))
            }
            R::Webhook(Webhook::UrlNotAdmitted(_)) => self.with_details(json!({"field": "url"})),
            R::TooMany(excess) => self.beyond(excess.count.label(), excess.limit, excess.present),
            R::Stock(StockTooLarge { limit, present }) => self
                .retry_after(STOCK_PAUSE)
                .beyond("BUDGET_TENANT_MEMORY_SHARE", *limit, *present),
            R::Sort(TooManySorts { limit, .. }) => {
                let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
                self.retry_after(Duration::from_secs(1)).beyond("gathering_lists", limit, limit)
            }
            R::Scan(TooManyScanned { limit, present, .. }) => self
                .retry_after(Duration::from_secs(1))
                .beyond("scanned_rows_per_second", (*limit).into(), *present),
            R::Bulk(Bulk::TooManyMatched(total) | Bulk::CountMismatch(total)) => {
                self.with_details(json!({"total_matched": total}))
            }
            _ => self,
        }
    }

    /// Until a time on the store's clock, in milliseconds. Both headers are in whole seconds.
    fn limited_until(self, retry_in_ms: i64, until_ms: i64) -> Self {
        let seconds = (retry_in_ms.max(0) as u64).div_ceil(1000).max(1);
        self.with_header(header::RETRY_AFTER, HeaderValue::from(seconds))
            .with_header(RATE_LIMIT_RESET, HeaderValue::from(until_ms / 1000))
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;
    use crate::domain::amount::Unit;
    use crate::domain::ids::{RequestId, ReservationId, TraceId};
    use crate::domain::refusal::Denial;
    use crate::domain::reservation::Status;

    #[test]
    fn a_list_that_must_wait_says_how_long() {
        let refusal = TooManyScanned {
            tenant: TenantId::parse("acme").expect("an id"),
            limit: 20_000,
            present: 30_001,
        };
        let response = ApiError::from(StoreError::from(refusal)).into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }

    #[test]
    fn a_refusal_after_evaluation_is_reported_as_evidence_attests_it() {
        let id = || ReservationId::parse("rsv\u{1b}_1").expect("an id");
        let requested = Amount::new(Unit::Tokens, 0).expect("an amount");
        // Longer than a message may be, once it is printable.
        let scope = "\u{7}".repeat(2_000);
        let denied = |denial| Reservation::Denied {
            denial,
            scope: scope.clone(),
            requested,
            remaining: Some(-7),
            over_since: None,
            funds: None,
        };
        let finalized = Reservation::Finalized {
            reservation_id: id(),
            status: Status::Released,
        };
        let (request_id, trace_id) = (RequestId::parse("req_1"), TraceId::parse(&"a".repeat(32)));
        let (request_id, trace_id) = (request_id.expect("an id"), trace_id.expect("an id"));
        for refusal in [
            denied(Denial::DebtOutstanding),
            denied(Denial::BudgetFrozen),
            finalized,
            Reservation::Expired(id()),
        ] {
            let refusal = Refusal::from(refusal);
            let evaluated = refusal.evaluated().expect("an evaluated one");
            let error = ApiError::from(refusal);
            assert_eq!(error.status(), evaluated.http_status);
            let body: serde_json::Value =
                serde_json::from_str(&error.body(&request_id, &trace_id)).expect("JSON");
            assert_eq!(body["error"], evaluated.code.as_str());
            assert_eq!(body["message"], evaluated.message);
            assert_eq!(body.get("details"), evaluated.details.as_ref());
        }
    }
}

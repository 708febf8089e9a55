//! The HTTP operations on bulk actions.

pub mod budgets;
pub mod tenants;
pub mod webhooks;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::admin::{BudgetFilter, BulkRequest, Request};
use crate::api::admin::extract::ChangeBody;
use crate::api::admin::in_progress;
use crate::api::errors::{ApiError, Code};
use crate::api::response::CheckedJson;
use crate::api::state::AppState;
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::funding::{BudgetStatus, FundingOperation};
use crate::domain::bulk::{BulkActionRowOutcome, TenantAction, WebhookAction};
use crate::domain::event::types::EventTypeName;
use crate::domain::fields::{Blank, object};
use crate::domain::ids::IdempotencyKey;
use crate::domain::search::SEARCH_CHARS_MAX;
use crate::domain::search::Search;
use crate::domain::tenant::TenantStatus;
use crate::domain::webhook::WebhookStatus;
use crate::store::OperationError;
use crate::store::admin::bulk::BulkAnswer;

/// What is wrong with a filter that selects everything.
const EMPTY: &str = "must have at least one member that is not blank";

object! {
    /// Selects tenants; at least one member.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct TenantBulkFilter: Read + Serialize {
        /// Status.
        pub status: Option<TenantStatus>,
        /// Parent of the tenant, exactly.
        pub parent_tenant_id: Option<String> { blank: Blank::Null },
        /// Must be absent or blank: the service does not support it.
        pub observe_mode: Option<String> { blank: Blank::Null },
        /// Text that id or name must contain, in any case.
        pub search: Option<String> { chars: ..=SEARCH_CHARS_MAX, blank: Blank::Null, trimmed: true },
    }
    check |filter, object| {
        if filter.observe_mode.is_some() {
            object.refuse_member("observe_mode", "must be absent: nothing is observed here");
        }
        if *filter == TenantBulkFilter::default() {
            object.refuse(EMPTY);
        }
    }
}

object! {
    /// Selects webhook subscriptions; at least one member.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct WebhookBulkFilter: Read + Serialize {
        /// Tenant that owns the subscription; `__system__` for the operator's own.
        pub tenant_id: Option<String> { blank: Blank::Null },
        /// Status.
        pub status: Option<WebhookStatus>,
        /// Event type that the subscription names.
        pub event_type: Option<EventTypeName>,
        /// Text that id or address must contain, in any case.
        pub search: Option<String> { chars: ..=SEARCH_CHARS_MAX, blank: Blank::Null, trimmed: true },
    }
    check |filter, object| {
        if *filter == WebhookBulkFilter::default() {
            object.refuse(EMPTY);
        }
    }
}

object! {
    /// Selects budgets of one tenant.
    #[derive(Debug, Clone, PartialEq)]
    pub struct BudgetBulkFilter: Read + Serialize {
        /// Tenant that owns the budget.
        pub tenant_id: String { blank: Blank::Refused },
        /// Beginning of the scope.
        pub scope_prefix: Option<String> { blank: Blank::Null },
        /// Unit.
        pub unit: Option<Unit>,
        /// Status.
        pub status: Option<BudgetStatus>,
        /// Whether the budget is over its limit.
        pub over_limit: Option<bool>,
        /// Whether the budget is in debt.
        pub has_debt: Option<bool>,
        /// Least share of the allocation that was spent.
        pub utilization_min: Option<f64> { range: 0.0..=1.0 },
        /// Greatest share of the allocation that was spent.
        pub utilization_max: Option<f64> { range: 0.0..=1.0 },
        /// Text that tenant or scope must contain, in any case.
        pub search: Option<String> { chars: ..=SEARCH_CHARS_MAX, blank: Blank::Null, trimmed: true },
    }
    check |filter, object| {
        let bounds = filter.utilization_min.zip(filter.utilization_max);
        if bounds.is_some_and(|(least, most)| least > most) {
            object.refuse_member("utilization_min", "must not exceed utilization_max");
        }
    }
}

object! {
    /// Applies one action to many tenants.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TenantBulkActionRequest: Read {
        /// Selects the tenants.
        pub filter: TenantBulkFilter,
        /// Action.
        pub action: TenantAction,
        /// Expected number of matches; with another number nothing is done.
        pub expected_count: Option<i64> { range: 0.. },
        /// Identifies this attempt: the same key within 15 minutes changes once.
        pub idempotency_key: IdempotencyKey { chars: 1..=128 },
    }
}

object! {
    /// Applies one action to many webhook subscriptions.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WebhookBulkActionRequest: Read {
        /// Selects the subscriptions.
        pub filter: WebhookBulkFilter,
        /// Action.
        pub action: WebhookAction,
        /// Expected number of matches; with another number nothing is done.
        pub expected_count: Option<i64> { range: 0.. },
        /// Identifies this attempt: the same key within 15 minutes changes once.
        pub idempotency_key: IdempotencyKey { chars: 1..=128 },
    }
}

object! {
    /// Funds many budgets of one tenant.
    #[derive(Debug, Clone, PartialEq)]
    pub struct BudgetBulkActionRequest: Read {
        /// Selects the budgets.
        pub filter: BudgetBulkFilter,
        /// How the figures change.
        pub action: FundingOperation,
        /// By how much, or to what; required for every action. Budgets of another unit fail.
        pub amount: Amount { required: false },
        /// What counts as spent afterwards. With `RESET_SPENT` only; absent: nothing.
        pub spent: Option<Amount>,
        /// Reason, for the record.
        pub reason: Option<String> { chars: ..=512 },
        /// Expected number of matches; with another number nothing is done.
        pub expected_count: Option<i64> { range: 0.. },
        /// Identifies this attempt: the same key within 15 minutes changes once.
        pub idempotency_key: IdempotencyKey { chars: 1..=128 },
    }
    check |request, object| {
        if request.spent.is_some() && request.action != FundingOperation::ResetSpent {
            object.refuse_member("spent", "is allowed with action RESET_SPENT only");
        }
    }
}

impl BudgetBulkActionRequest {
    /// Whether both amounts count the same.
    ///
    /// # Errors
    /// 400 `UNIT_MISMATCH`.
    pub fn check_units(&self) -> Result<(), ApiError> {
        let (unit, spent) = (self.amount.unit(), self.spent.map(Amount::unit));
        let Some(other) = spent.filter(|spent| *spent != unit) else {
            return Ok(());
        };
        let message = format!("Unit mismatch: spent is in {other}, but amount is in {unit}");
        let details = json!({"requested_unit": other, "expected_units": [unit]});
        let error = ApiError::new(StatusCode::BAD_REQUEST, Code::UnitMismatch, message);
        Err(error.with_details(details))
    }
}

impl From<&BudgetBulkFilter> for BudgetFilter {
    fn from(filter: &BudgetBulkFilter) -> Self {
        Self {
            tenant_id: Some(filter.tenant_id.clone()),
            scope_prefix: filter.scope_prefix.clone(),
            unit: filter.unit,
            status: filter.status,
            over_limit: filter.over_limit,
            has_debt: filter.has_debt,
            utilization_min: filter.utilization_min,
            utilization_max: filter.utilization_max,
            search: filter.search.as_deref().map(Search::new),
        }
    }
}

macro_rules! responses {
    ($($(#[doc = $doc:expr])* $name:ident of $request:ty: $action:ty $(, after $check:ident)?;)*) => {
        $(impl ChangeBody for $request {
            const HAS_KEY: bool = true;

            fn idempotency_key(&self) -> Option<&IdempotencyKey> {
                Some(&self.idempotency_key)
            }

            $(fn check(&self) -> Result<(), ApiError> {
                self.$check()
            })?
        }

        object! {
            $(#[doc = $doc])*
            #[derive(Debug)]
            pub struct $name: Serialize {
                /// What was done.
                pub action: $action,
                /// How many rows matched.
                pub total_matched: i64 { range: 0.. },
                /// Rows that are as requested.
                pub succeeded: Vec<BulkActionRowOutcome>,
                /// Rows that failed.
                pub failed: Vec<BulkActionRowOutcome>,
                /// Rows with nothing to do.
                pub skipped: Vec<BulkActionRowOutcome>,
                /// As it was sent.
                pub idempotency_key: String,
            }
        })*
    };
}

responses! {
    /// The outcome of each tenant.
    TenantBulkActionResponse of TenantBulkActionRequest: TenantAction;
    /// The outcome of each webhook subscription.
    WebhookBulkActionResponse of WebhookBulkActionRequest: WebhookAction;
    /// The outcome of each budget.
    BudgetBulkActionResponse of BudgetBulkActionRequest: FundingOperation, after check_units;
}

fn bulk_request<'a>(
    state: &AppState,
    request: Request<'a>,
    expected_count: Option<i64>,
    filter: &impl Serialize,
) -> BulkRequest<'a> {
    BulkRequest {
        request,
        expected_count,
        filter: serde_json::to_string(filter).unwrap_or_default(),
        gone_row: state.access.dialect().words().gone_row,
    }
}

/// The stored response, byte for byte.
fn response_of(
    state: &AppState,
    done: Result<BulkAnswer, OperationError>,
) -> Result<Response, ApiError> {
    let done = done?;
    let body = RawValue::from_string(done.body).map_err(ApiError::internal)?;
    let in_progress = done.in_progress.then(|| in_progress(state));
    Ok((in_progress, CheckedJson::ok(body)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::{Problems, Read as _};
    use crate::domain::json::Json;

    fn problem<T: std::fmt::Debug>(
        read: fn(Json) -> Result<T, Problems>,
        filter: &str,
        rest: &str,
    ) -> String {
        let body = format!(r#"{{"filter":{filter},"idempotency_key":"k",{rest}}}"#);
        let json = Json::parse(body.as_bytes()).expect("JSON");
        read(json).map_or_else(|problems| problems.to_string(), |read| format!("{read:?}"))
    }

    #[test]
    fn rule_19_a_filter_without_an_effective_member_is_refused() {
        let tenants = |filter: &str| {
            problem(
                TenantBulkActionRequest::from_json,
                filter,
                r#""action":"SUSPEND""#,
            )
        };
        for empty in [
            "{}",
            r#"{"search":"  "}"#,
            r#"{"status":null,"parent_tenant_id":"","observe_mode":" "}"#,
        ] {
            let refused =
                "Validation failed: filter: must have at least one member that is not blank";
            assert_eq!(tenants(empty), refused, "{empty}");
        }
        for (filter, part) in [
            (
                r#"{"observe_mode":"OBSERVE"}"#,
                "filter.observe_mode: must be absent",
            ),
            (
                r#"{"status":"ACTIVE","observe_mode":"x"}"#,
                "filter.observe_mode: must be absent",
            ),
            (
                r#"{"status":"active"}"#,
                "filter.status: must be one of ACTIVE",
            ),
            (r#"{"tenant_id":"x"}"#, "unknown member `filter.tenant_id`"),
            (r#"{"search":" a "}"#, r#"search: Some("a")"#),
            (
                r#"{"status":"ACTIVE","observe_mode":" ","search":" "}"#,
                "search: None",
            ),
        ] {
            let read = tenants(filter);
            assert!(read.contains(part), "{filter}: {read}");
        }
        let long = format!(r#"{{"search":"{}"}}"#, "s".repeat(129));
        assert!(tenants(&long).contains("filter.search: must be at most 128"));
        let blank = format!(r#"{{"search":"{}"}}"#, " ".repeat(129));
        assert!(tenants(&blank).contains("filter: must have"));
        let hooks = |filter: &str| {
            problem(
                WebhookBulkActionRequest::from_json,
                filter,
                r#""action":"PAUSE""#,
            )
        };
        assert!(hooks(r#"{"tenant_id":" "}"#).contains("filter: must have"));
        assert!(hooks(r#"{"event_type":"nothing"}"#).contains("filter.event_type: must be"));
    }

    #[test]
    fn rule_46_what_is_wrong_with_a_funding_is_found_before_anything_is_counted() {
        let fund =
            |filter: &str, rest: &str| problem(BudgetBulkActionRequest::from_json, filter, rest);
        let acme = r#"{"tenant_id":"acme"}"#;
        let tokens = |amount: i64| format!(r#"{{"unit":"TOKENS","amount":{amount}}}"#);
        for (filter, rest, part) in [
            (
                acme,
                format!(
                    r#""action":"CREDIT","amount":{},"spent":{}"#,
                    tokens(1),
                    tokens(1)
                ),
                "spent: is allowed with action RESET_SPENT only",
            ),
            (
                acme,
                r#""action":"DEBIT""#.to_owned(),
                "amount: is required",
            ),
            (
                acme,
                format!(r#""action":"DEBIT","amount":{}"#, tokens(-1)),
                "amount.amount: must be between 0",
            ),
            (
                r#"{"unit":"TOKENS"}"#,
                format!(r#""action":"DEBIT","amount":{}"#, tokens(1)),
                "filter.tenant_id: is required",
            ),
            (
                r#"{"tenant_id":"acme","utilization_min":0.6,"utilization_max":0.5}"#,
                format!(r#""action":"DEBIT","amount":{}"#, tokens(1)),
                "filter.utilization_min: must not exceed utilization_max",
            ),
            (
                acme,
                format!(
                    r#""action":"DEBIT","amount":{},"expected_count":-1"#,
                    tokens(1)
                ),
                "expected_count: must be between 0",
            ),
        ] {
            let refused = fund(filter, &rest);
            assert!(refused.contains(part), "{rest}: {refused}");
        }
    }
}

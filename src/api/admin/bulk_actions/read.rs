//! Reading the requests.

use axum::http::StatusCode;
use serde_json::json;

use super::{
    BudgetBulkActionRequest, BudgetBulkFilter, TenantBulkActionRequest, TenantBulkFilter,
    WebhookBulkActionRequest, WebhookBulkFilter,
};
use crate::admin::BudgetFilter;
use crate::api::errors::{ApiError, Code};
use crate::api::query::SEARCH_CHARS_MAX;
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::funding::{BudgetStatus, FundingOperation};
use crate::domain::bulk::{TenantAction, WebhookAction};
use crate::domain::event::types::EventTypeName;
use crate::domain::fields::{Object, Problems, Value, read_body};
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::Json;
use crate::domain::tenant::TenantStatus;
use crate::domain::webhook::WebhookStatus;

impl TenantBulkActionRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let filter = body.required("filter", TenantBulkFilter::read);
            let action = body.required("action", TenantAction::read);
            let (expected_count, idempotency_key) = common(body);
            Some(Self {
                filter: filter?,
                action: action?,
                expected_count,
                idempotency_key: idempotency_key?,
            })
        })
    }
}

impl WebhookBulkActionRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let filter = body.required("filter", WebhookBulkFilter::read);
            let action = body.required("action", WebhookAction::read);
            let (expected_count, idempotency_key) = common(body);
            Some(Self {
                filter: filter?,
                action: action?,
                expected_count,
                idempotency_key: idempotency_key?,
            })
        })
    }
}

impl BudgetBulkActionRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let filter = body.required("filter", BudgetBulkFilter::read);
            let action = body.required("action", FundingOperation::read);
            let amount = body.required("amount", Amount::read);
            let spent = body.optional("spent", Amount::read);
            let reason = body.optional("reason", |value| value.string(0..=512));
            let (expected_count, idempotency_key) = common(body);
            let resets_spent = action.is_none_or(|action| action == FundingOperation::ResetSpent);
            if spent.is_some() && !resets_spent {
                body.refuse_member("spent", "is allowed with action RESET_SPENT only");
            }
            Some(Self {
                filter: filter?,
                action: action?,
                amount: amount?,
                spent,
                reason: reason.filter(|reason| !reason.is_empty()),
                expected_count,
                idempotency_key: idempotency_key?,
            })
        })
    }

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

fn common(body: &mut Object<'_>) -> (Option<i64>, Option<IdempotencyKey>) {
    let expected_count = body.optional("expected_count", |value| value.integer(0..=i64::MAX));
    let key = body.required("idempotency_key", |value| value.string(1..=128));
    (
        expected_count,
        key.and_then(|key| IdempotencyKey::parse(&key)),
    )
}

/// Takes out the texts without content, which are as good as absent, and sees that something is left.
fn need_one(filter: &mut Object<'_>, texts: &[&str], others: &[&str]) {
    let blank: Vec<bool> = texts.iter().map(|name| filter.blank(name)).collect();
    let texts = texts.iter().zip(blank).filter(|(_, blank)| !blank);
    let mut left = texts.map(|(name, _)| name).chain(others);
    if !left.any(|name| filter.has(name)) {
        filter.refuse("must have at least one member that is not blank");
    }
}

fn text(filter: &mut Object<'_>, name: &str) -> Option<String> {
    filter.optional(name, |value| value.string(0..=usize::MAX))
}

/// Trimmed; its length is judged as it was sent.
fn search(filter: &mut Object<'_>) -> Option<String> {
    let search = filter.optional("search", |value| value.string(0..=SEARCH_CHARS_MAX));
    search.map(|search| search.trim().to_owned())
}

impl TenantBulkFilter {
    fn read(value: Value<'_>) -> Option<Self> {
        value.object(|filter| {
            let texts = ["parent_tenant_id", "search", "observe_mode"];
            need_one(filter, &texts, &["status"]);
            let status = filter.optional("status", TenantStatus::read);
            let parent_tenant_id = text(filter, "parent_tenant_id");
            let search = search(filter);
            let observe_mode = text(filter, "observe_mode");
            if observe_mode.is_some() {
                filter.refuse_member("observe_mode", "must be absent: nothing is observed here");
            }
            Some(Self {
                status,
                parent_tenant_id,
                observe_mode,
                search,
            })
        })
    }
}

impl WebhookBulkFilter {
    fn read(value: Value<'_>) -> Option<Self> {
        value.object(|filter| {
            need_one(filter, &["tenant_id", "search"], &["status", "event_type"]);
            Some(Self {
                tenant_id: text(filter, "tenant_id"),
                status: filter.optional("status", WebhookStatus::read),
                event_type: filter.optional("event_type", EventTypeName::read),
                search: search(filter),
            })
        })
    }
}

impl BudgetBulkFilter {
    fn read(value: Value<'_>) -> Option<Self> {
        value.object(|filter| {
            need_one(filter, &["scope_prefix", "search"], &["tenant_id"]);
            let tenant_id = filter.required("tenant_id", |value| value.text(usize::MAX));
            let share = |value: Value<'_>| value.number(0.0..=1.0);
            let read = Self {
                tenant_id: tenant_id.unwrap_or_default(),
                scope_prefix: text(filter, "scope_prefix"),
                unit: filter.optional("unit", Unit::read),
                status: filter.optional("status", BudgetStatus::read),
                over_limit: filter.optional("over_limit", |value| value.boolean()),
                has_debt: filter.optional("has_debt", |value| value.boolean()),
                utilization_min: filter.optional("utilization_min", share),
                utilization_max: filter.optional("utilization_max", share),
                search: search(filter),
            };
            let bounds = read.utilization_min.zip(read.utilization_max);
            if bounds.is_some_and(|(least, most)| least > most) {
                filter.refuse_member("utilization_min", "must not exceed utilization_max");
            }
            Some(read)
        })
    }
}

impl From<&BudgetBulkFilter> for BudgetFilter {
    fn from(filter: &BudgetBulkFilter) -> Self {
        Self {
            scope_prefix: filter.scope_prefix.clone(),
            unit: filter.unit,
            status: filter.status,
            over_limit: filter.over_limit,
            has_debt: filter.has_debt,
            utilization_min: filter.utilization_min,
            utilization_max: filter.utilization_max,
            search: filter.search.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

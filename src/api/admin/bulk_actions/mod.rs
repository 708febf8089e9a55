//! The HTTP operations on bulk actions.

pub mod budgets;

pub use budgets::BudgetBulkActionRequest;

use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::admin::webhooks::{OwnerFilter, WebhookFilter};
use crate::admin::{Admin, BulkRequest, TenantFilter};
use crate::api::admin::extract::{Change, ChangeBody};
use crate::api::admin::in_progress;
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::response::CheckedJson;
use crate::domain::bulk::{TenantAction, WebhookAction};
use crate::domain::event::types::EventTypeName;
use crate::domain::fields::{Blank, Read, object};
use crate::domain::ids::IdempotencyKey;
use crate::domain::search::{SEARCH_CHARS_MAX, Search};
use crate::domain::tenant::TenantStatus;
use crate::domain::webhook::WebhookStatus;
use crate::store::admin::bulk::BulkResponse;

/// The refusal of a filter that selects everything.
const EMPTY: &str = "must have at least one member that is not blank";

/// The body of a bulk action on rows of one kind.
trait BulkBody: Read + Sync {
    /// Selects the rows.
    type Filter: Serialize;

    /// The filter, the number of matches that is expected, and the key.
    fn parts(&self) -> (&Self::Filter, Option<i64>, &IdempotencyKey);

    /// What the types of its members do not say.
    fn check(&self) -> Result<(), ApiError> {
        Ok(())
    }

    /// Does it to all rows that match.
    fn run(
        &self,
        admin: &Admin,
        bulk: &BulkRequest<'_>,
    ) -> impl Future<Output = Result<BulkResponse, ApiError>> + Send;
}

impl<B: BulkBody> ChangeBody for B {
    const HAS_KEY: bool = true;

    fn idempotency_key(&self) -> Option<&IdempotencyKey> {
        Some(self.parts().2)
    }

    fn check(&self) -> Result<(), ApiError> {
        BulkBody::check(self)
    }
}

/// Does the same to many rows. The response is the stored one, byte for byte.
async fn bulk_action<B: BulkBody>(change: Change<B>) -> Result<Response, ApiError> {
    let (state, (filter, expected_count, _)) = (&change.state, change.body.parts());
    let bulk = BulkRequest {
        request: change.request(),
        expected_count,
        filter: serde_json::to_string(filter).unwrap_or_default(),
        gone_row: state.access.dialect().words().gone_row,
    };
    let done = change.body.run(&state.admin, &bulk).await?;
    let body = RawValue::from_string(done.body).map_err(ApiError::internal)?;
    let in_progress = done.in_progress.then(|| in_progress(state));
    Ok((in_progress, CheckedJson::ok(body)).into_response())
}

/// The response to a bulk action, by the type of its actions.
macro_rules! response {
    ($(#[doc = $doc:expr])* $name:ident: $action:ty) => {
        crate::domain::fields::object! {
            $(#[doc = $doc])*
            #[derive(Debug)]
            pub struct $name: Serialize {
                /// The performed action.
                pub action: $action,
                /// How many rows matched.
                pub total_matched: i64 { range: 0.. },
                /// Rows that are as requested.
                pub succeeded: Vec<crate::domain::bulk::BulkActionRowOutcome>,
                /// Rows that failed.
                pub failed: Vec<crate::domain::bulk::BulkActionRowOutcome>,
                /// Rows with nothing to do.
                pub skipped: Vec<crate::domain::bulk::BulkActionRowOutcome>,
                /// As it was sent.
                pub idempotency_key: String,
            }
        }
    };
}
use response;

pub(in crate::api) const TENANTS: Declaration = declare!(
    bulk_action::<TenantBulkActionRequest>,
    "Suspends, reactivates or closes up to 500 tenants"
)
.takes_change::<TenantBulkActionRequest>()
.returns::<TenantBulkActionResponse>(200, "The outcome of each tenant.")
.refuses(&[409]);

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

response! {
    /// The outcome of each tenant.
    TenantBulkActionResponse: TenantAction
}

impl BulkBody for TenantBulkActionRequest {
    type Filter = TenantBulkFilter;

    fn parts(&self) -> (&Self::Filter, Option<i64>, &IdempotencyKey) {
        (&self.filter, self.expected_count, &self.idempotency_key)
    }

    async fn run(&self, admin: &Admin, bulk: &BulkRequest<'_>) -> Result<BulkResponse, ApiError> {
        let filter = TenantFilter {
            status: self.filter.status,
            parent_tenant_id: self.filter.parent_tenant_id.clone(),
            search: self.filter.search.as_deref().map(Search::new),
        };
        Ok(admin.bulk_tenants(&filter, self.action, bulk).await?)
    }
}

pub(in crate::api) const WEBHOOKS: Declaration = declare!(
    bulk_action::<WebhookBulkActionRequest>,
    "Pauses, resumes or deletes up to 500 webhook subscriptions"
)
.takes_change::<WebhookBulkActionRequest>()
.returns::<WebhookBulkActionResponse>(200, "The outcome of each subscription.")
.refuses(&[409]);

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

response! {
    /// The outcome of each webhook subscription.
    WebhookBulkActionResponse: WebhookAction
}

impl BulkBody for WebhookBulkActionRequest {
    type Filter = WebhookBulkFilter;

    fn parts(&self) -> (&Self::Filter, Option<i64>, &IdempotencyKey) {
        (&self.filter, self.expected_count, &self.idempotency_key)
    }

    async fn run(&self, admin: &Admin, bulk: &BulkRequest<'_>) -> Result<BulkResponse, ApiError> {
        let event_type = self.filter.event_type.as_ref();
        let filter = WebhookFilter {
            owner: OwnerFilter::named(self.filter.tenant_id.as_deref()),
            status: self.filter.status,
            event_type: event_type.map(|name| name.as_str().to_owned()),
            search: self.filter.search.as_deref().map(Search::new),
        };
        Ok(admin.bulk_webhooks(&filter, self.action, bulk).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Json;
    use crate::domain::rows;

    fn problem<T: Read + std::fmt::Debug>(filter: &str, rest: &str) -> String {
        let body = format!(r#"{{"filter":{filter},"idempotency_key":"k",{rest}}}"#);
        let read = T::from_json(Json::parse(body.as_bytes()).expect("JSON"));
        read.map_or_else(|problems| problems.to_string(), |read| format!("{read:?}"))
    }

    #[test]
    fn rule_19_a_filter_without_an_effective_member_is_refused() {
        let tenants =
            |filter: &str| problem::<TenantBulkActionRequest>(filter, r#""action":"SUSPEND""#);
        for empty in [
            "{}",
            r#"{"search":"  "}"#,
            r#"{"status":null,"parent_tenant_id":"","observe_mode":" "}"#,
        ] {
            let refused =
                "Validation failed: filter: must have at least one member that is not blank";
            assert_eq!(tenants(empty), refused, "{empty}");
        }
        let (long, blank) = ("s".repeat(129), " ".repeat(129));
        for (filter, part) in rows(&format!(
            r#"{{"observe_mode":"OBSERVE"}} => filter.observe_mode: must be absent
            {{"status":"ACTIVE","observe_mode":"x"}} => filter.observe_mode: must be absent
            {{"status":"active"}} => filter.status: must be one of ACTIVE
            {{"tenant_id":"x"}} => unknown member `filter.tenant_id`
            {{"search":" a "}} => search: Some("a")
            {{"status":"ACTIVE","observe_mode":" ","search":" "}} => search: None
            {{"search":"{long}"}} => filter.search: must be at most 128
            {{"search":"{blank}"}} => filter: must have"#
        )) {
            let read = tenants(filter);
            assert!(read.contains(part), "{filter}: {read}");
        }
        let hooks =
            |filter: &str| problem::<WebhookBulkActionRequest>(filter, r#""action":"PAUSE""#);
        assert!(hooks(r#"{"tenant_id":" "}"#).contains("filter: must have"));
        assert!(hooks(r#"{"event_type":"nothing"}"#).contains("filter.event_type: must be"));
    }

    #[test]
    fn rule_46_an_invalid_funding_is_refused_before_rows_are_counted() {
        let one = r#""amount":{"unit":"TOKENS","amount":1}"#;
        for (body, part) in rows(&format!(
            r#"{{"tenant_id":"acme"}} | "action":"CREDIT",{one},"spent":{{"unit":"TOKENS","amount":1}} => spent: is allowed with action RESET_SPENT only
            {{"tenant_id":"acme"}} | "action":"DEBIT" => amount: is required
            {{"tenant_id":"acme"}} | "action":"DEBIT","amount":{{"unit":"TOKENS","amount":-1}} => amount.amount: must be between 0
            {{"unit":"TOKENS"}} | "action":"DEBIT",{one} => filter.tenant_id: is required
            {{"tenant_id":"acme","utilization_min":0.6,"utilization_max":0.5}} | "action":"DEBIT",{one} => filter.utilization_min: must not exceed utilization_max
            {{"tenant_id":"acme"}} | "action":"DEBIT",{one},"expected_count":-1 => expected_count: must be between 0"#
        )) {
            let (filter, rest) = body.split_once(" | ").expect("filter and rest");
            let refused = problem::<BudgetBulkActionRequest>(filter, rest);
            assert!(refused.contains(part), "{body}: {refused}");
        }
    }
}

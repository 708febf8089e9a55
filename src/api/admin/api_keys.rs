//! The HTTP operations on API keys.

use axum::http::{HeaderName, header};
use axum::response::IntoResponse;
use serde_json::json;

use crate::admin::{ApiKeyFilter, ApiKeySort};
use crate::api::admin::extract::{Change, ChangeBody, ChangeTarget, NoBody, PathId};
use crate::api::errors::ApiError;
use crate::api::list::{List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::{Declaration, declare, parameters};
use crate::api::query::Query;
use crate::api::response::{CheckedJson, NO_STORE, Returns};
use crate::domain::api_key::{
    ApiKey, ApiKeyCreateRequest, ApiKeyCreateResponse, ApiKeyUpdateRequest,
};
use crate::domain::caller::Caller;
use crate::domain::scope::ScopeFilter;

pub(in crate::api) const CREATE: Declaration = declare!(
    create_api_key,
    "Creates an API key; only this response contains the key"
)
.takes_change::<ApiKeyCreateRequest>()
.returns::<ApiKeyCreateResponse>(
    201,
    "The new key. A header `Warning` (299) says that it may do more than a request without `permissions`, or with a segment as \
     its scope, seems to ask for.",
)
.refuses(&[409]);

impl ChangeBody for ApiKeyCreateRequest {
    const SHOWS_SECRET: bool = true;
}

async fn create_api_key(
    change: Change<ApiKeyCreateRequest>,
) -> Result<impl IntoResponse, ApiError> {
    let (admin, request) = (&change.state.admin, change.request());
    let created = admin.create_api_key(&change.body, &request).await?;
    let by_default = change.body.writes_by_default(admin.dialect());
    let warnings = warnings(by_default, change.body.scope_filter.as_ref());
    Ok((NO_STORE, warnings, CheckedJson::created(created)))
}

/// The header that says where a key may do more than the request seems to ask for.
fn warnings(by_default: bool, filter: Option<&ScopeFilter>) -> Option<[(HeaderName, String); 1]> {
    let defaults = by_default.then(|| {
        "without permissions, the key may change budgets and policies; list only those that it needs".to_owned()
    });
    let segment = filter.and_then(ScopeFilter::one_segment).map(|index| {
        format!("scope_filter[{index}] admits its segment anywhere in a path; only a path from tenant: on keeps an agent under its budget")
    });
    let texts = [defaults, segment].into_iter().flatten();
    let warnings: Vec<_> = texts.map(|text| format!("299 - \"{text}\"")).collect();
    (!warnings.is_empty()).then(|| [(header::WARNING, warnings.join(", "))])
}

list_response! {
    /// A page of API keys.
    ApiKeyListResponse: Open {
        /// The keys, without their secrets.
        keys: ApiKey,
        has_more { required: false }
    }
}

struct ApiKeys;

impl List for ApiKeys {
    const NAME: &'static str = "api-keys";
    type Filter = ApiKeyFilter;
    type Sort = ApiKeySort;
    type Response = ApiKeyListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<ApiKeyFilter, ApiError> {
        Ok(ApiKeyFilter {
            tenant_id: parameters.text(
                "tenant_id",
                "Tenant that owns the keys. Absent: keys of all tenants.",
            )?,
            status: parameters.word("status", "The status of the keys, by the present clock.")?,
            search: parameters.search("Text that id or name must contain, in any case.")?,
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        Ok(call.state.admin.list_api_keys(&call.query().await?).await?)
    }
}

pub(in crate::api) const LIST: Declaration = list::<ApiKeys>(
    "Lists API keys, of one tenant or of all",
    "A page of API keys.",
);

pub(in crate::api) const UPDATE: Declaration = declare!(
    update_api_key,
    "Changes an API key; the change applies from its next use on"
)
.takes_change::<ApiKeyUpdateRequest>()
.returns::<ApiKey>(200, "The key as it is now.")
.refuses(&[404, 409]);

impl ChangeBody for ApiKeyUpdateRequest {}

async fn update_api_key(
    change: Change<ApiKeyUpdateRequest, PathId>,
) -> Result<impl IntoResponse, ApiError> {
    let PathId(key_id) = &change.target;
    let (admin, request) = (&change.state.admin, change.request());
    let updated = admin.update_api_key(key_id, &change.body, &request).await?;
    let warnings = warnings(false, change.body.scope_filter.as_ref());
    Ok((warnings, CheckedJson::ok(updated)))
}

pub(in crate::api) const REVOKE: Declaration =
    declare!(revoke_api_key, "Revokes an API key at once")
        .query(|| {
            let reason = json!({"type": "string", "maxLength": 512});
            vec![parameters::query("reason", "Why, for the record.", reason)]
        })
        .idempotent()
        .returns::<ApiKey>(200, "The revoked key.")
        .refuses(&[404, 409]);

/// The key to revoke, and why.
#[derive(Debug)]
struct RevokedKey {
    key_id: String,
    reason: Option<String>,
}

impl ChangeTarget for RevokedKey {
    fn read(key_id: String, query: &str, _: &Caller) -> Result<Self, ApiError> {
        Ok(Self {
            key_id,
            reason: reason(query)?,
        })
    }

    fn selected(&self) -> Vec<(&'static str, &str)> {
        let reason = self.reason.as_deref().map(|reason| ("reason", reason));
        [("key_id", self.key_id.as_str())]
            .into_iter()
            .chain(reason)
            .collect()
    }
}

/// At most 512 characters; a blank reason is none.
fn reason(query: &str) -> Result<Option<String>, ApiError> {
    Query::parse_admin(query).text("reason", 512)
}

async fn revoke_api_key(change: Change<NoBody, RevokedKey>) -> Returns<ApiKey> {
    let RevokedKey { key_id, reason } = &change.target;
    let (admin, request) = (&change.state.admin, change.request());
    let revoked = admin.revoke_api_key(key_id, reason.as_deref(), &request);
    Ok(CheckedJson::ok(revoked.await?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::list::query_of;
    use crate::domain::rows;

    #[test]
    fn a_wrong_parameter_is_named_with_what_is_allowed() {
        let parse = query_of::<ApiKeys>;
        assert_eq!(parse("limit=2000").expect("clamped").limit, 100);
        for (query, message) in rows(
            "status=expired => Invalid value for parameter 'status': expired; allowed: ACTIVE, REVOKED, EXPIRED
            sort_by=last_used_at => Invalid value for parameter 'sort_by': last_used_at; allowed: key_id, name, tenant_id, status, created_at, expires_at",
        ) {
            assert_eq!(parse(query).expect_err(query).message(), message);
        }
        assert!(parse(&format!("search={}", "s".repeat(129))).is_err());
    }

    #[test]
    fn a_reason_for_revoking_is_bounded() {
        assert_eq!(reason("reason=leaked").unwrap().as_deref(), Some("leaked"));
        assert_eq!(reason("reason=%20").unwrap(), None);
        assert!(reason(&format!("reason={}", "x".repeat(513))).is_err());
    }
}

//! Changes, suspends or closes a tenant.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::on;
use serde_json::json;

use super::{METADATA_MAX, Tenant, tenant_id};
use crate::admin::tenants::closing::Turn;
use crate::admin::{AdminError, Request, TenantUpdate};
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader, PathId};
use crate::api::admin::in_progress;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::auth::audit::AlreadyAudited;
use crate::api::errors::ApiError;
use crate::api::operation::{self, Declaration, parameters, required};
use crate::api::response::CheckedJson;
use crate::api::state::AppState;
use crate::domain::cause::Cause;
use crate::domain::fields::{Blank, Patch, object};
use crate::domain::ids::TenantId;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::policy::OveragePolicy;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::reservation::RESERVATION_TTL_MS;
use crate::domain::tenant::TenantStatus;

object! {
    /// Changes a tenant. What is absent stays.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TenantUpdateRequest: Read {
        /// Name; need not be unique.
        pub name: Option<String> { chars: 1..=256, blank: Blank::Refused },
        /// Status. `CLOSED` is final, and closes everything that the tenant owns.
        pub status: Option<TenantStatus>,
        /// Labels that the operator chooses, replaced as a whole; `null` removes them.
        pub metadata: Patch<BTreeMap<String, String>> { entries: ..=METADATA_MAX },
        /// What a commit above its estimate does where neither reservation, policy nor budget says.
        pub default_commit_overage_policy: Option<OveragePolicy>,
        /// Lifetime of a reservation whose request names none, in milliseconds.
        pub default_reservation_ttl_ms: Option<i64> { range: RESERVATION_TTL_MS },
        /// Longest lifetime that a reservation gets, in milliseconds; longer requests are capped.
        pub max_reservation_ttl_ms: Option<i64> { range: RESERVATION_TTL_MS },
        /// How often a reservation may be extended.
        pub max_reservation_extensions: Option<i64> { range: 0.. },
    }
}

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Changes, suspends or closes a tenant",
    parameters: || vec![tenant_id(), parameters::idempotency_key()],
    request: required::<TenantUpdateRequest>(),
    responses: &[operation::json::<Tenant>(200, "The tenant as it is now.")],
    errors: &[404, 409],
    handler: |method| on(method, update_tenant),
};

async fn update_tenant(
    State(state): State<AppState>,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    PathId(id): PathId,
    body: AdminJson<TenantUpdateRequest>,
) -> Result<Response, ApiError> {
    let sent = body.request;
    let update = TenantUpdate {
        name: sent.name,
        status: sent.status,
        default_commit_overage_policy: sent.default_commit_overage_policy,
        default_reservation_ttl_ms: sent.default_reservation_ttl_ms,
        max_reservation_ttl_ms: sent.max_reservation_ttl_ms,
        max_reservation_extensions: sent.max_reservation_extensions,
        metadata: sent.metadata,
    };
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body_and_target(&body.sent, &[("tenant_id", &id)]),
    };
    let tenant = TenantId::parse(&id);
    let updated = match &tenant {
        Some(tenant) => state.admin.update_tenant(tenant, &update, &request).await,
        None => Err(AdminError::Refused(AdminRefusal::TenantNotFound)),
    };
    let context = ErrorContext {
        tenant: &id,
        ..ErrorContext::default()
    };
    let updated = updated.map_err(|error| error_of(error, &context).about(tenant.clone()))?;
    let response = CheckedJson(StatusCode::OK, Tenant::from(updated.tenant));
    match updated.close {
        None | Some(Turn::Closed) => Ok(response.into_response()),
        Some(Turn::Paused | Turn::Fenced) => Ok((in_progress(&state), response).into_response()),
        Some(Turn::Incomplete { failed, .. }) => {
            let error = ApiError::internal(format!(
                "the tenant is closed, but not: {}",
                failed.join(", ")
            ));
            let error = error.with_details(json!({"failed_resources": failed}));
            Ok((Extension(AlreadyAudited), error.about(tenant)).into_response())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::Read as _;
    use crate::domain::json::Json;

    fn update(body: &str) -> Result<TenantUpdateRequest, String> {
        TenantUpdateRequest::from_json(Json::parse(body.as_bytes()).expect("JSON"))
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn what_is_absent_stays_and_null_takes_labels_out() {
        let nothing = update("{}").expect("a change of nothing");
        assert_eq!((nothing.status, nothing.metadata), (None, Patch::Keep));
        let nulls = update(r#"{"name":null,"status":null,"metadata":null}"#).expect("a change");
        assert_eq!((nulls.name, nulls.metadata), (None, Patch::Clear));
    }

    #[test]
    fn what_cannot_change_is_no_member() {
        for (body, part) in [
            (
                r#"{"reservation_expiry_policy":"GRACE_ONLY"}"#,
                "unknown member `reservation_expiry_policy`",
            ),
            (
                r#"{"parent_tenant_id":"x"}"#,
                "unknown member `parent_tenant_id`",
            ),
            (r#"{"tenant_id":"acme"}"#, "unknown member `tenant_id`"),
            (r#"{"status":"closed"}"#, "status: must be one of ACTIVE"),
            (r#"{"name":" "}"#, "name: must not be blank"),
            (
                r#"{"max_reservation_ttl_ms":999}"#,
                "max_reservation_ttl_ms:",
            ),
            (r#"{"metadata":{"a":1}}"#, "metadata.a: must be a string"),
        ] {
            let message = update(body).expect_err("refused");
            assert!(message.contains(part), "{body}: {message}");
        }
    }
}

//! The operations on API keys: about what, with what. The admin key alone calls them.

use axum::extract::State;
use axum::http::StatusCode;

use super::list::{ApiKeyListResponse, ApiKeys};
use super::update::ApiKeyUpdateRequest;
use super::{ApiKey, ApiKeyCreateRequest, ApiKeyCreateResponse, ApiKeyRevokeQuery};
use crate::admin::{AdminError, NewApiKey, Request};
use crate::api::admin::extract::{AdminJson, Because, Declined, KeyHeader, Named, Outcome};
use crate::api::admin::refusals::{Asked, error_of};
use crate::api::admin::shown;
use crate::api::errors::ApiError;
use crate::api::extract::{Answer, RawQuery};
use crate::api::list::ListRequest;
use crate::api::refusals::store_error;
use crate::api::state::AppState;
use crate::domain::ids::TenantId;
use crate::domain::json::Json;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::refusal::admin::AdminRefusal;

/// `POST /v1/admin/api-keys`
pub async fn create_api_key(
    State(state): State<AppState>,
    Because(cause): Because,
    KeyHeader(key): KeyHeader,
    body: AdminJson<ApiKeyCreateRequest>,
) -> Result<Answer<ApiKeyCreateResponse>, Declined> {
    let sent = body.request;
    let tenant = TenantId::parse(&sent.tenant_id);
    let declined = |error: ApiError| Declined {
        error,
        tenant: tenant.clone(),
    };
    let new = NewApiKey {
        tenant_id: sent.tenant_id,
        name: sent.name,
        description: sent.description,
        permissions: sent.permissions,
        scope_filter: sent.scope_filter.unwrap_or_default(),
        expires_at: sent.expires_at,
        metadata: sent.metadata,
    };
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body(&body.sent),
    };
    let asked = Asked {
        tenant: &new.tenant_id,
        ..Asked::default()
    };
    let created = state.admin.create_api_key(&new, &request).await;
    let created = created.map_err(|error| declined(error_of(error, &asked)))?;
    let response = ApiKeyCreateResponse::new(
        &created.key,
        created.tenant_id,
        created.permissions,
        created.created_at,
        created.expires_at,
    );
    Ok(Answer(StatusCode::CREATED, response))
}

/// `DELETE /v1/admin/api-keys/{key_id}`
pub async fn revoke_api_key(
    State(state): State<AppState>,
    Because(cause): Because,
    KeyHeader(key): KeyHeader,
    Named(key_id): Named,
    RawQuery(query): RawQuery,
) -> Result<Outcome<ApiKey>, ApiError> {
    let reason = ApiKeyRevokeQuery::parse(&query)?.reason;
    let owner = owner_of(&state, &key_id).await?;
    let mut target = vec![("key_id", key_id.as_str())];
    target.extend(reason.as_deref().map(|reason| ("reason", reason)));
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body_and_target(&Json::Object(Vec::new()), &target),
    };
    let revoked = state
        .admin
        .revoke_api_key(&key_id, &owner, reason.as_deref(), &request)
        .await;
    Ok(answered(revoked, &key_id, owner))
}

/// `GET /v1/admin/api-keys`
pub async fn list_api_keys(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Answer<ApiKeyListResponse>, ApiError> {
    let list = ListRequest::<ApiKeys>::parse(&query)?;
    let secret = state.store.secret().await.map_err(store_error)?;
    let page = state.admin.list_api_keys(&list.query(secret)?).await;
    let page = page.map_err(|error| error_of(error, &Asked::default()))?;
    let next = list.next_cursor(&page, secret);
    let keys = page.rows.into_iter().map(shown::api_key).collect();
    Ok(Answer(StatusCode::OK, ApiKeyListResponse::new(keys, next)))
}

/// `PATCH /v1/admin/api-keys/{key_id}`
pub async fn update_api_key(
    State(state): State<AppState>,
    Because(cause): Because,
    KeyHeader(key): KeyHeader,
    Named(key_id): Named,
    body: AdminJson<ApiKeyUpdateRequest>,
) -> Result<Outcome<ApiKey>, ApiError> {
    let owner = owner_of(&state, &key_id).await?;
    let changes = body.request.into_changes();
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_patch_and_target(&body.sent, &[("key_id", &key_id)]),
    };
    let updated = state
        .admin
        .update_api_key(&key_id, &owner, &changes, &request)
        .await;
    Ok(answered(updated, &key_id, owner))
}

/// Whose key a path names.
async fn owner_of(state: &AppState, key_id: &str) -> Result<TenantId, ApiError> {
    let asked = Asked {
        key: key_id,
        ..Asked::default()
    };
    let owner = state.admin.owner_of_key(key_id).await;
    let owner = owner.map_err(|error| error_of(error, &asked))?;
    owner.ok_or_else(|| error_of(AdminRefusal::KeyNotFound.into(), &asked))
}

/// The changed key, or the refusal with the tenant whose key it is.
fn answered(
    changed: Result<crate::domain::api_key::ApiKey, AdminError>,
    key_id: &str,
    owner: TenantId,
) -> Outcome<ApiKey> {
    let asked = Asked {
        tenant: owner.as_str(),
        key: key_id,
        ..Asked::default()
    };
    match changed {
        Ok(key) => Ok(Answer(StatusCode::OK, shown::api_key(key))),
        Err(error) => Err(Declined {
            error: error_of(error, &asked),
            tenant: Some(owner),
        }),
    }
}

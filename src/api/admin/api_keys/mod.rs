//! API keys as requests and responses show them.

pub mod create;
pub mod list;
pub mod revoke;
pub mod update;

use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::AdminError;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::errors::ApiError;
use crate::api::operation::parameters::{self, Parameter, text};
use crate::api::query::Query;
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::api_key;
use crate::domain::api_key::permission::{ApiKeyStatus, Permission};
use crate::domain::api_key::secret::{ApiKeyText, KeyId};
use crate::domain::fields::{Blank, object};
use crate::domain::ids::TenantId;
use crate::domain::json::FreeObject;
use crate::domain::moment::Moment;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::scope::ScopeFilter;

object! {
    /// Creates an API key.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ApiKeyCreateRequest: Read {
        /// Tenant that owns the key; cannot change.
        pub tenant_id: String { chars: 1..=128, blank: Blank::Refused },
        /// Name.
        pub name: String { chars: 1..=256, blank: Blank::Refused },
        /// Description.
        pub description: Option<String> { chars: ..=1024 },
        /// What the key may do. Absent: the default permissions; empty: nothing.
        pub permissions: Option<Vec<Permission>>,
        /// Scopes in which the key may act: entries `level:value` or `level:*`, one of which must match. Absent or empty:
        /// everywhere in its tenant.
        pub scope_filter: Option<ScopeFilter>,
        /// When the key expires; cannot change. Absent: in 90 days.
        pub expires_at: Option<Moment>,
        /// Data that the operator chooses.
        pub metadata: Option<FreeObject>,
    }
}

/// A new API key. The only response that shows its secret.
#[derive(Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ApiKeyCreateResponse {
    /// Names the key.
    #[schema(value_type = String)]
    pub key_id: KeyId,
    /// The whole key.
    key_secret: String,
    /// The part of it that may be shown.
    key_prefix: String,
    /// Whose key it is.
    #[schema(value_type = String)]
    pub tenant_id: TenantId,
    /// What it may do.
    #[schema(required = false)]
    pub permissions: Vec<Permission>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// When it ends.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Moment,
}

impl ApiKeyCreateResponse {
    /// Reveals `key`.
    pub fn new(
        key: &ApiKeyText,
        tenant_id: TenantId,
        permissions: Vec<Permission>,
        created_at: Moment,
        expires_at: Moment,
    ) -> Self {
        Self {
            key_id: key.key_id().clone(),
            key_secret: key.expose().to_owned(),
            key_prefix: key.visible_prefix().to_owned(),
            tenant_id,
            permissions,
            created_at,
            expires_at,
        }
    }
}

impl std::fmt::Debug for ApiKeyCreateResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiKeyCreateResponse({}, redacted)", self.key_id)
    }
}

/// An API key without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// Names the key.
    #[schema(value_type = String)]
    pub key_id: KeyId,
    /// Whose key it is.
    #[schema(value_type = String)]
    pub tenant_id: TenantId,
    /// The part of the key that may be shown.
    pub key_prefix: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256, nullable = false)]
    pub name: Option<String>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024, nullable = false)]
    pub description: Option<String>,
    /// What it may do.
    #[schema(required = false)]
    pub permissions: Vec<Permission>,
    /// Where it may act. Absent: everywhere in its tenant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub scope_filter: Vec<String>,
    /// Whether it is good.
    pub status: ApiKeyStatus,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// When it was last used, roughly.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub last_used_at: Option<Moment>,
    /// When it ends.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Moment,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub revoked_at: Option<Moment>,
    /// Why it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 512, nullable = false)]
    pub revoked_reason: Option<String>,
    /// Data of the operator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub metadata: Option<FreeObject>,
}

/// What an operator says beside the id of a key to revoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRevokeQuery {
    /// Why, for the record.
    pub reason: Option<String>,
}

impl ApiKeyRevokeQuery {
    /// Reads the query string.
    ///
    /// # Errors
    /// 400 when the reason is longer than 512 characters.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        Ok(Self {
            reason: Query::parse_admin(query).text("reason", 512)?,
        })
    }
}

impl From<api_key::ApiKey> for ApiKey {
    fn from(key: api_key::ApiKey) -> Self {
        Self {
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
}

fn key_id() -> Parameter {
    parameters::path("key_id", "Names the key.", text())
}

/// The tenant of the key that a path names.
async fn owner_of(state: &AppState, key_id: &str) -> Result<TenantId, ApiError> {
    let context = ErrorContext {
        key: key_id,
        ..ErrorContext::default()
    };
    let owner = state.admin.owner_of_key(key_id).await;
    let owner = owner.map_err(|error| error_of(error, &context))?;
    owner.ok_or_else(|| error_of(AdminRefusal::KeyNotFound.into(), &context))
}

/// The response to a change of a key.
fn changed(
    changed: Result<api_key::ApiKey, AdminError>,
    key_id: &str,
    owner: TenantId,
) -> Returns<ApiKey> {
    let context = ErrorContext {
        tenant: owner.as_str(),
        key: key_id,
        ..ErrorContext::default()
    };
    let key = changed.map_err(|error| error_of(error, &context).about(Some(owner.clone())))?;
    Ok(CheckedJson(StatusCode::OK, key.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::Read as _;
    use crate::domain::ids::Partition;
    use crate::domain::json::Json;

    fn create(body: &str) -> Result<ApiKeyCreateRequest, String> {
        ApiKeyCreateRequest::from_json(Json::parse(body.as_bytes()).unwrap())
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn permissions_absent_and_empty_are_told_apart() {
        assert_eq!(
            create(r#"{"tenant_id":"acme","name":"n"}"#)
                .unwrap()
                .permissions,
            None
        );
        assert_eq!(
            create(r#"{"tenant_id":"acme","name":"n","permissions":[]}"#)
                .unwrap()
                .permissions,
            Some(vec![])
        );
        let message =
            create(r#"{"tenant_id":"acme","name":"n","permissions":["balances:read","root"]}"#)
                .unwrap_err();
        assert!(
            message.contains("permissions[1]: must be one of") && message.ends_with("not `root`"),
            "{message}"
        );
    }

    #[test]
    fn a_scope_filter_is_kept_in_lower_case() {
        let body = r#"{"tenant_id":"acme","name":"n","scope_filter":["Workspace:Prod"],"expires_at":"2099-01-01T00:00:00+01:00"}"#;
        let request = create(body).unwrap();
        assert_eq!(request.scope_filter.unwrap().entries(), ["workspace:prod"]);
        assert_eq!(
            request.expires_at.unwrap().to_string(),
            "2098-12-31T23:00:00.000Z"
        );
        assert!(create(r#"{"tenant_id":"acme","name":"n","expires_at":"tomorrow"}"#).is_err());
        assert!(create(r#"{"tenant_id":"acme","name":"n","expires_at":1790000000}"#).is_err());
    }

    #[test]
    fn the_secret_is_in_the_answer_and_not_in_debug() {
        let key = ApiKeyText::generate("sk_live_", Partition::new(1).unwrap());
        let at = Moment::from_ms(0).unwrap();
        let response =
            ApiKeyCreateResponse::new(&key, TenantId::parse("acme").unwrap(), vec![], at, at);
        assert!(
            serde_json::to_string(&response)
                .unwrap()
                .contains(key.expose())
        );
        assert!(!format!("{response:?}").contains(key.expose()));
    }

    #[test]
    fn a_reason_for_revoking_is_bounded() {
        assert_eq!(
            ApiKeyRevokeQuery::parse("reason=leaked")
                .unwrap()
                .reason
                .as_deref(),
            Some("leaked")
        );
        assert_eq!(ApiKeyRevokeQuery::parse("reason=%20").unwrap().reason, None);
        assert!(ApiKeyRevokeQuery::parse(&format!("reason={}", "x".repeat(513))).is_err());
    }
}

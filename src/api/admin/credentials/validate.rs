//! Checks whether an API key is valid: 200 for invalid keys too.

use axum::extract::State;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use crate::admin::ValidatedApiKey;
use crate::api::admin::extract::AdminJson;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::api_key::KeyProblem;
use crate::domain::api_key::permission::Permission;
use crate::domain::api_key::secret::{ApiKeyText, KeyId};
use crate::domain::cause::{Actor, Cause};
use crate::domain::fields::{Blank, object};
use crate::domain::moment::Moment;
use crate::store::dispatcher::auth_failed::Subject;

object! {
    /// Asks whether an API key is valid.
    #[derive(Debug, Clone)]
    pub struct ApiKeyValidationRequest: Read {
        /// The whole key.
        key_secret: SecretString { blank: Blank::Refused },
    }
}

object! {
    /// Whether an API key is valid, and whose it is.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ApiKeyValidationResponse: Serialize + Open {
        /// Whether it is valid.
        pub valid: bool,
        /// Tenant that owns the key. Empty where there is no such key.
        pub tenant_id: String,
        /// Id of the key.
        pub key_id: Option<KeyId>,
        /// What a valid key may do.
        pub permissions: Option<Vec<Permission>>,
        /// Scopes in which a valid key may act. Absent: everywhere in its tenant.
        pub scope_filter: Vec<String> { skip_if: Vec::is_empty },
        /// When it expires.
        pub expires_at: Option<Moment>,
        /// What is wrong with it: `KEY_NOT_FOUND`, `INVALID_KEY`, `KEY_REVOKED`, `KEY_EXPIRED`, `KEY_NOT_OWNED_BY_TENANT`,
        /// `TENANT_NOT_FOUND`, `TENANT_SUSPENDED`, `TENANT_CLOSED` or `INTERNAL_ERROR`.
        pub reason: Option<KeyProblem> { described_as: || json!({"type": "string"}) },
    }
}

impl From<ValidatedApiKey> for ApiKeyValidationResponse {
    fn from(validated: ValidatedApiKey) -> Self {
        let reason = validated.outcome.as_ref().err().copied();
        let granted = validated.outcome.ok();
        // Without the secret, the tenant of the key is not revealed.
        let named =
            ![Some(KeyProblem::KeyNotFound), Some(KeyProblem::InvalidKey)].contains(&reason);
        let owner = validated.owner.filter(|_| named);
        let scope_filter = granted.as_ref().map(|granted| &granted.scope_filter);
        Self {
            valid: reason.is_none(),
            tenant_id: owner.map(|owner| owner.to_string()).unwrap_or_default(),
            key_id: validated.key_id,
            scope_filter: scope_filter.map_or_else(Vec::new, |filter| filter.entries().to_vec()),
            permissions: granted.map(|granted| granted.permissions),
            expires_at: validated.expires_at,
            reason,
        }
    }
}

pub(in crate::api) const VALIDATE: Declaration =
    declare!(validate_api_key, "Checks whether an API key is valid")
        .takes::<ApiKeyValidationRequest>()
        .returns::<ApiKeyValidationResponse>(200, "Whether the key is valid, or why not.");

async fn validate_api_key(
    State(state): State<AppState>,
    cause: Cause,
    AdminJson(request): AdminJson<ApiKeyValidationRequest>,
) -> Returns<ApiKeyValidationResponse> {
    let prefixes = state.access.dialect().words().api_key_prefixes;
    let key = ApiKeyText::parse(request.key_secret.expose_secret().trim(), prefixes);
    let validated = match &key {
        Some(key) => state.admin.validate_api_key(key).await?,
        None => ValidatedApiKey {
            key_id: None,
            owner: None,
            expires_at: None,
            outcome: Err(KeyProblem::KeyNotFound),
        },
    };
    if let Err(problem) = &validated.outcome {
        let reason = match key {
            Some(_) => problem.failure_reason(),
            None => "invalid_format",
        };
        count(&state, &validated, reason, cause);
    }
    Ok(CheckedJson::ok(validated.into()))
}

/// Counts an invalid key as if it had been used: at most one event a minute.
fn count(state: &AppState, validated: &ValidatedApiKey, reason: &'static str, cause: Cause) {
    let known = validated.owner.clone().zip(validated.key_id.clone());
    let (subject, actor) = match known {
        Some((tenant, key_id)) => (
            Subject::Key {
                tenant,
                key_id: key_id.clone(),
            },
            Actor::ApiKey(key_id),
        ),
        None => (Subject::Unknown, Actor::UnknownKey),
    };
    let cause = || Cause { actor, ..cause };
    state.auth_failures.count(subject, reason, cause);
}

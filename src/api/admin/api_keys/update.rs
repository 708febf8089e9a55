//! Changes an API key.

use super::{ApiKey, changed, key_id, owner_of};
use crate::admin::{ApiKeyChanges, Request};
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader, PathId};
use crate::api::operation::{Declaration, json, parameters, required};
use crate::api::response::Returns;
use crate::api::state::AppState;
use crate::domain::api_key::permission::Permission;
use crate::domain::cause::Cause;
use crate::domain::fields::{Patch, object};
use crate::domain::json::FreeObject;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::scope::ScopeFilter;
use axum::extract::State;
use axum::routing::on;

object! {
    /// Changes an API key. What is absent stays; a list or an object replaces the whole of what was there; `null` removes
    /// `description` and `metadata`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ApiKeyUpdateRequest: Read {
        /// Name.
        pub name: Option<String> { chars: ..=256 },
        /// Description.
        pub description: Patch<String> { chars: ..=1024 },
        /// What the key may do from now on. Empty: nothing.
        pub permissions: Option<Vec<Permission>>,
        /// Scopes in which the key may act from now on: entries `level:value` or `level:*`, one of which must match. Empty:
        /// everywhere in its tenant.
        pub scope_filter: Option<ScopeFilter>,
        /// Data that the operator chooses.
        pub metadata: Patch<FreeObject>,
    }
}

impl ApiKeyUpdateRequest {
    /// What is to be changed.
    pub fn into_changes(self) -> ApiKeyChanges {
        ApiKeyChanges {
            name: self.name,
            description: self.description,
            permissions: self.permissions,
            scope_filter: self.scope_filter,
            metadata: self.metadata,
        }
    }
}

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Changes an API key; its next use is judged by what it is then",
    parameters: || vec![key_id(), parameters::idempotency_key()],
    request: required::<ApiKeyUpdateRequest>(),
    responses: &[json::<ApiKey>(200, "The key as it is now.")],
    errors: &[404, 409],
    handler: |method| on(method, update_api_key),
};

async fn update_api_key(
    State(state): State<AppState>,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    PathId(key_id): PathId,
    body: AdminJson<ApiKeyUpdateRequest>,
) -> Returns<ApiKey> {
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
    changed(updated, &key_id, owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::Read as _;
    use crate::domain::json::Json;

    fn update(body: &str) -> Result<ApiKeyUpdateRequest, String> {
        ApiKeyUpdateRequest::from_json(Json::parse(body.as_bytes()).expect("JSON"))
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn what_is_absent_stays_and_null_removes_what_is_for_people() {
        let nothing = update("{}").expect("a change of nothing");
        assert_eq!((nothing.permissions, nothing.metadata), (None, Patch::Keep));
        let nulls = update(
            r#"{"name":null,"permissions":null,"scope_filter":null,"description":null,"metadata":null}"#,
        );
        let nulls = nulls.expect("a change");
        assert_eq!(
            (nulls.name, nulls.permissions, nulls.scope_filter),
            (None, None, None)
        );
        assert_eq!(nulls.description, Patch::Clear);
        assert_eq!(nulls.metadata, Patch::Clear);
    }

    #[test]
    fn what_cannot_change_is_no_member() {
        for member in [
            "tenant_id",
            "expires_at",
            "status",
            "key_id",
            "key_prefix",
            "revoked_at",
        ] {
            let message = update(&format!(r#"{{"{member}":"x"}}"#)).expect_err("refused");
            assert!(
                message.contains(&format!("unknown member `{member}`")),
                "{message}"
            );
        }
        let message = update(r#"{"permissions":["balances:read","root"]}"#).expect_err("refused");
        assert!(
            message.contains("permissions[1]") && message.ends_with("not `root`"),
            "{message}"
        );
    }
}

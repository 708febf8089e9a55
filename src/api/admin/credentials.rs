//! The HTTP operations that check a key: whether it is valid, and what its holder may do.

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
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::fields::{Blank, object};
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::words::words;

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
        /// Permissions of a valid key.
        pub permissions: Option<Vec<Permission>>,
        /// Scopes in which a valid key may act. Absent: everywhere in its tenant.
        pub scope_filter: Vec<String> { skip_if: Vec::is_empty },
        /// When it expires.
        pub expires_at: Option<Moment>,
        /// Why the key is invalid: `KEY_NOT_FOUND`, `INVALID_KEY`, `KEY_REVOKED`, `KEY_EXPIRED`, `KEY_NOT_OWNED_BY_TENANT`,
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
        // As if it had been used: at most one event a minute.
        let key = validated.owner.as_ref().zip(validated.key_id.as_ref());
        state.auth_failures.count_key(key, reason, &cause);
    }
    Ok(CheckedJson::ok(validated.into()))
}

words! {
    /// Owner of a key.
    AuthType: "snake_case" {
        /// The operator.
        Admin,
        /// A tenant.
        Tenant,
    }
}

object! {
    /// The caller and its permissions.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AuthIntrospectResponse: Serialize + Open {
        /// Always true: otherwise the status is 401.
        pub authenticated: bool,
        /// Owner of the key.
        pub auth_type: AuthType,
        /// Permissions of the key; `*` is everything.
        pub permissions: Vec<String>,
        /// Capabilities that a dashboard may offer.
        pub capabilities: Capabilities,
        /// Tenant of an API key.
        pub tenant_id: Option<TenantId>,
        /// Scopes in which an API key may act. Absent: everywhere in its tenant.
        pub scope_filter: Vec<String> { skip_if: Vec::is_empty },
    }
}

object! {
    /// Capabilities that a dashboard may offer to the holder of a key.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Capabilities as "AuthCapabilities": Serialize + Open {
        /// See the overview.
        pub view_overview: bool,
        /// See budgets.
        pub view_budgets: bool,
        /// See events.
        pub view_events: bool,
        /// See webhooks.
        pub view_webhooks: bool,
        /// See the audit log.
        pub view_audit: bool,
        /// See tenants.
        pub view_tenants: bool,
        /// See API keys.
        pub view_api_keys: bool,
        /// See policies.
        pub view_policies: bool,
        /// See reservations.
        pub view_reservations: bool { required: false },
        /// Change budgets.
        pub manage_budgets: bool { required: false },
        /// Change policies.
        pub manage_policies: bool { required: false },
        /// Change webhooks.
        pub manage_webhooks: bool { required: false },
        /// Change tenants.
        pub manage_tenants: bool { required: false },
        /// Change API keys.
        pub manage_api_keys: bool { required: false },
        /// Change reservations.
        pub manage_reservations: bool { required: false },
    }
}

impl Capabilities {
    /// Of an API key with these permissions; `None` for the operator. What is the operator's alone no API key may, whatever its
    /// permissions are called.
    fn of(permissions: Option<&[Permission]>) -> Self {
        use Permission as P;
        let is_operator = permissions.is_none();
        let any = |needed: &[Permission]| {
            permissions.is_none_or(|held| needed.iter().any(|one| held.contains(one)))
        };
        let reserving = any(&[
            P::ReservationsCreate,
            P::ReservationsCommit,
            P::ReservationsRelease,
            P::ReservationsExtend,
        ]);
        Self {
            view_overview: is_operator,
            view_budgets: any(&[P::BudgetsRead, P::AdminRead, P::AdminBudgetsRead]),
            view_events: any(&[P::EventsRead, P::AdminRead, P::AdminEventsRead]),
            view_webhooks: any(&[P::WebhooksRead, P::AdminRead, P::AdminWebhooksRead]),
            view_audit: is_operator,
            view_tenants: is_operator,
            view_api_keys: is_operator,
            view_policies: any(&[P::PoliciesRead, P::AdminRead, P::AdminPoliciesRead]),
            view_reservations: reserving || any(&[P::ReservationsList, P::AdminRead]),
            manage_budgets: any(&[P::BudgetsWrite, P::AdminWrite, P::AdminBudgetsWrite]),
            manage_policies: any(&[P::PoliciesWrite, P::AdminWrite, P::AdminPoliciesWrite]),
            manage_webhooks: any(&[P::WebhooksWrite, P::AdminWrite, P::AdminWebhooksWrite]),
            manage_tenants: is_operator,
            manage_api_keys: is_operator,
            manage_reservations: reserving || any(&[P::AdminWrite]),
        }
    }
}

pub(in crate::api) const INTROSPECT: Declaration =
    declare!(introspect, "Gets the caller and its permissions")
        .returns::<AuthIntrospectResponse>(200, "The caller.");

async fn introspect(
    State(state): State<AppState>,
    caller: Caller,
) -> Returns<AuthIntrospectResponse> {
    Ok(CheckedJson::ok(match caller {
        Caller::Admin(_) => AuthIntrospectResponse {
            authenticated: true,
            auth_type: AuthType::Admin,
            permissions: vec!["*".to_owned()],
            capabilities: Capabilities::of(None),
            tenant_id: None,
            scope_filter: Vec::new(),
        },
        Caller::Tenant(caller) => {
            let granted = state.admin.introspect(&caller).await?;
            let permissions = &granted.permissions;
            AuthIntrospectResponse {
                authenticated: true,
                auth_type: AuthType::Tenant,
                permissions: permissions.iter().map(Permission::to_string).collect(),
                capabilities: Capabilities::of(Some(permissions)),
                tenant_id: Some(caller.tenant),
                scope_filter: granted.scope_filter.entries().to_vec(),
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::rows;

    fn capable(permissions: &[Permission]) -> Vec<String> {
        let capabilities = serde_json::to_value(Capabilities::of(Some(permissions))).expect("JSON");
        let members = capabilities.as_object().expect("an object").clone();
        assert_eq!(members.len(), 15, "each is sent, true or false");
        let held = members.into_iter().filter(|(_, held)| held == true);
        held.map(|(name, _)| name).collect()
    }

    #[test]
    fn no_permission_grants_the_operators_capabilities() {
        for (permission, expected) in rows(
            "budgets:read => view_budgets
            admin:budgets:read => view_budgets
            admin:policies:write => manage_policies
            admin:events:read => view_events
            reservations:list => view_reservations
            reservations:extend => manage_reservations view_reservations
            balances:read => none
            admin:tenants:write => none
            admin:apikeys:read => none
            admin:audit:read => none
            admin:read => view_budgets view_events view_policies view_reservations view_webhooks
            admin:write => manage_budgets manage_policies manage_reservations manage_webhooks",
        ) {
            let permission = Permission::parse(permission).expect(permission);
            let mut held = capable(&[permission]);
            held.sort();
            let expected = expected.replace("none", "");
            let expected: Vec<_> = expected.split_whitespace().collect();
            assert_eq!(held, expected, "{permission}");
        }
        assert!(capable(&[]).is_empty());
        let all = capable(Permission::ALL);
        for never in [
            "view_overview",
            "view_tenants",
            "view_api_keys",
            "view_audit",
        ] {
            assert!(!all.contains(&never.to_owned()));
        }
    }
}

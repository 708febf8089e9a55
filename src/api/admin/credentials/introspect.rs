//! Gets the caller, its permissions, and what a dashboard may offer.

use axum::extract::State;

use crate::admin::Granted;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::api_key::permission::Permission;
use crate::domain::caller::Caller;
use crate::domain::fields::object;
use crate::domain::ids::TenantId;
use crate::domain::words::words;

words! {
    /// Owner of a key.
    AuthType {
        /// The operator.
        Admin = "admin",
        /// A tenant.
        Tenant = "tenant",
    }
}

object! {
    /// Who calls, and what they may do.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AuthIntrospectResponse: Serialize + Open {
        /// Always true: otherwise the status is 401.
        pub authenticated: bool,
        /// Owner of the key.
        pub auth_type: AuthType,
        /// What the key may do; `*` is everything.
        pub permissions: Vec<String>,
        /// What a dashboard may offer.
        pub capabilities: Capabilities,
        /// Tenant of an API key.
        pub tenant_id: Option<TenantId>,
        /// Scopes in which an API key may act. Absent: everywhere in its tenant.
        pub scope_filter: Vec<String> { skip_if: Vec::is_empty },
    }
}

object! {
    /// What a dashboard may offer to the holder of a key.
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
    /// The operator's.
    fn operator() -> Self {
        Self::new(true, |_| true)
    }

    /// Of a tenant's key. What is the operator's alone it never may, whatever its permissions are called.
    fn of(permissions: &[Permission]) -> Self {
        Self::new(false, |wanted| {
            wanted.iter().any(|one| permissions.contains(one))
        })
    }

    /// `any`: whether the holder has one of some permissions.
    fn new(is_operator: bool, any: impl Fn(&[Permission]) -> bool) -> Self {
        use Permission as P;
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

impl AuthIntrospectResponse {
    fn operator() -> Self {
        Self {
            authenticated: true,
            auth_type: AuthType::Admin,
            permissions: vec!["*".to_owned()],
            capabilities: Capabilities::operator(),
            tenant_id: None,
            scope_filter: Vec::new(),
        }
    }

    fn tenant(tenant_id: TenantId, granted: &Granted) -> Self {
        let words = granted.permissions.iter().map(Permission::to_string);
        Self {
            authenticated: true,
            auth_type: AuthType::Tenant,
            permissions: words.collect(),
            capabilities: Capabilities::of(&granted.permissions),
            tenant_id: Some(tenant_id),
            scope_filter: granted.scope_filter.entries().to_vec(),
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
    let response = match caller {
        Caller::Admin(_) => AuthIntrospectResponse::operator(),
        Caller::Tenant(caller) => {
            let granted = state.admin.introspect(&caller).await?;
            AuthIntrospectResponse::tenant(caller.tenant, &granted)
        }
    };
    Ok(CheckedJson::ok(response))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::rows;

    fn capable(permissions: &[Permission]) -> Vec<String> {
        let capabilities = serde_json::to_value(Capabilities::of(permissions)).expect("JSON");
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

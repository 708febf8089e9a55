//! The index of operations: what this API serves, who may call it, and where each operation is declared.
//!
//! Everything else about HTTP follows from a row: its route, its authentication, its description, the 404 and 405 of its
//! path, and its place in the test matrix. Handler, parameters, bodies and errors are in the declaration that the row names.

use std::fmt;

use axum::http::Method;
use axum::routing::MethodFilter;

use crate::api::admin::budgets::increases;
use crate::api::admin::{
    self, api_keys, audit, budgets, bulk_actions, credentials, events, policies, tenants, webhooks,
};
use crate::api::evidence;
use crate::api::operation::{Callers, Operation, Plane};
use crate::api::runtime::{self, refunds, reservations, usage, usage_events};
use crate::domain::api_key::permission::Permission;

/// `Id METHOD "path" callers(Permission) module::DECLARATION;`. `callers` is `admin` (the admin key alone), `tenant` (an API
/// key alone; an admin key is ignored), `both` or `public` (anybody). Without a permission, every valid API key will do.
macro_rules! operations {
    ($($plane:ident { $($id:ident $method:ident $path:literal $callers:ident$(($permission:ident))?
        $($declaration:ident)::+;)+ })+) => {
        /// Names an operation. Its wire form, [`OperationId::as_str`], is the variant with a small first letter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum OperationId {
            $($(#[doc = concat!("`", stringify!($method), " ", $path, "`")] $id,)+)+
        }

        impl OperationId {
            /// Every operation, in the order of the index.
            pub const ALL: &'static [Self] = &[$($(Self::$id,)+)+];
        }

        static OPERATIONS: &[Operation] = &[$($(Operation {
            name: {
                const NAME: [u8; stringify!($id).len()] = with_small_first_letter(stringify!($id));
                match str::from_utf8(&NAME) {
                    Ok(name) => name,
                    Err(_) => panic!("not UTF-8"),
                }
            },
            plane: Plane::$plane,
            method: Method::$method,
            filter: MethodFilter::$method,
            path: $path,
            callers: operations!(@$callers $($permission)?),
            declaration: &$($declaration)::+,
        },)+)+];
    };
    (@admin) => { Callers::Admin };
    (@tenant $permission:ident) => { Callers::Tenant(Some(Permission::$permission)) };
    (@both $permission:ident) => { Callers::Both(Some(Permission::$permission)) };
    (@both) => { Callers::Both(None) };
    (@public) => { Callers::Public };
}

// A row names a path, then GET before the other methods: so the header `Allow` lists them.
operations! {
    Runtime {
        Decide                      POST   "/v1/decide"                                       tenant(ReservationsCreate)  runtime::DECIDE;
        ListReservations            GET    "/v1/reservations"                                 both(ReservationsList)      reservations::LIST;
        CreateReservation           POST   "/v1/reservations"                                 tenant(ReservationsCreate)  runtime::RESERVE;
        GetReservation              GET    "/v1/reservations/{reservation_id}"                both(ReservationsList)      reservations::GET;
        CommitReservation           POST   "/v1/reservations/{reservation_id}/commit"         tenant(ReservationsCommit)  runtime::COMMIT;
        ReleaseReservation          POST   "/v1/reservations/{reservation_id}/release"        both(ReservationsRelease)   runtime::RELEASE;
        RefundReservation           POST   "/v1/reservations/{reservation_id}/refund"         both(BudgetsWrite)          refunds::RESERVATION;
        ListUsageEvents             GET    "/v1/usage-events"                                 both(ReservationsList)      usage_events::LIST;
        GetUsageEvent               GET    "/v1/usage-events/{event_id}"                      both(ReservationsList)      usage_events::GET;
        RefundUsageEvent            POST   "/v1/usage-events/{event_id}/refund"               both(BudgetsWrite)          refunds::USAGE_EVENT;
        ExtendReservation           POST   "/v1/reservations/{reservation_id}/extend"         tenant(ReservationsExtend)  runtime::EXTEND;
        GetUsage                    GET    "/v1/usage"                                        tenant(BalancesRead)        usage::USAGE;
        CreateEvent                 POST   "/v1/events"                                       tenant(ReservationsCommit)  runtime::CREATE_EVENT;
        GetBalances                 GET    "/v1/balances"                                     tenant(BalancesRead)        runtime::LIST_BALANCES;
        GetEvidence                 GET    "/v1/evidence/{evidence_id}"                       public                      evidence::ENVELOPE;
        GetEvidenceJwks             GET    "/v1/.well-known/{key_set_file}"                   public                      evidence::KEY_SET;
    }
    Admin {
        ListTenants                 GET    "/v1/admin/tenants"                                admin                       tenants::LIST;
        CreateTenant                POST   "/v1/admin/tenants"                                admin                       tenants::CREATE;
        GetTenant                   GET    "/v1/admin/tenants/{tenant_id}"                    admin                       tenants::GET;
        UpdateTenant                PATCH  "/v1/admin/tenants/{tenant_id}"                    admin                       tenants::UPDATE;
        BulkActionTenants           POST   "/v1/admin/tenants/bulk-action"                    admin                       bulk_actions::TENANTS;
        ListApiKeys                 GET    "/v1/admin/api-keys"                               admin                       api_keys::LIST;
        CreateApiKey                POST   "/v1/admin/api-keys"                               admin                       api_keys::CREATE;
        UpdateApiKey                PATCH  "/v1/admin/api-keys/{key_id}"                      admin                       api_keys::UPDATE;
        RevokeApiKey                DELETE "/v1/admin/api-keys/{key_id}"                      admin                       api_keys::REVOKE;
        ValidateApiKey              POST   "/v1/auth/validate"                                admin                       credentials::VALIDATE;
        IntrospectAuth              GET    "/v1/auth/introspect"                              both                        credentials::INTROSPECT;
        ListBudgets                 GET    "/v1/admin/budgets"                                both(BudgetsRead)           budgets::LIST;
        CreateBudget                POST   "/v1/admin/budgets"                                both(BudgetsWrite)          budgets::CREATE;
        UpdateBudget                PATCH  "/v1/admin/budgets"                                admin                       budgets::UPDATE;
        LookupBudget                GET    "/v1/admin/budgets/lookup"                         both(BudgetsRead)           budgets::GET;
        FundBudget                  POST   "/v1/admin/budgets/fund"                           both(BudgetsWrite)          budgets::FUND;
        CreateBudgetIncrease        POST   "/v1/admin/budgets/increases"                      both(BudgetsWrite)          increases::CREATE;
        EndBudgetIncrease           DELETE "/v1/admin/budgets/increases/{increase_id}"        both(BudgetsWrite)          increases::END;
        FreezeBudget                POST   "/v1/admin/budgets/freeze"                         admin                       budgets::FREEZE;
        UnfreezeBudget              POST   "/v1/admin/budgets/unfreeze"                       admin                       budgets::UNFREEZE;
        BulkActionBudgets           POST   "/v1/admin/budgets/bulk-action"                    admin                       bulk_actions::budgets::BUDGETS;
        ListPolicies                GET    "/v1/admin/policies"                               both(PoliciesRead)          policies::LIST;
        CreatePolicy                POST   "/v1/admin/policies"                               both(PoliciesWrite)         policies::CREATE;
        UpdatePolicy                PATCH  "/v1/admin/policies/{policy_id}"                   both(PoliciesWrite)         policies::UPDATE;
        GetTenantUsage              GET    "/v1/admin/usage"                                  admin                       usage::TENANT_USAGE;
        GetAdminOverview            GET    "/v1/admin/overview"                               admin                       admin::GET_OVERVIEW;
        ListAuditLogs               GET    "/v1/admin/audit/logs"                             admin                       audit::LIST;
        ListEvents                  GET    "/v1/admin/events"                                 admin                       events::LIST;
        GetEvent                    GET    "/v1/admin/events/{event_id}"                      admin                       events::GET;
        ListTenantEvents            GET    "/v1/events"                                       tenant(EventsRead)          events::LIST_OWN;
        ListWebhookSubscriptions    GET    "/v1/admin/webhooks"                               admin                       webhooks::LIST;
        CreateWebhookSubscription   POST   "/v1/admin/webhooks"                               admin                       webhooks::CREATE;
        GetWebhookSubscription      GET    "/v1/admin/webhooks/{subscription_id}"             admin                       webhooks::GET;
        UpdateWebhookSubscription   PATCH  "/v1/admin/webhooks/{subscription_id}"             admin                       webhooks::UPDATE;
        DeleteWebhookSubscription   DELETE "/v1/admin/webhooks/{subscription_id}"             admin                       webhooks::DELETE;
        TestWebhookSubscription     POST   "/v1/admin/webhooks/{subscription_id}/test"        admin                       webhooks::TEST;
        ListWebhookDeliveries       GET    "/v1/admin/webhooks/{subscription_id}/deliveries"  admin                       webhooks::LIST_DELIVERIES;
        ReplayEvents                POST   "/v1/admin/webhooks/{subscription_id}/replay"      admin                       webhooks::REPLAY;
        BulkActionWebhooks          POST   "/v1/admin/webhooks/bulk-action"                   admin                       bulk_actions::WEBHOOKS;
        GetWebhookSecurityConfig    GET    "/v1/admin/config/webhook-security"                admin                       webhooks::GET_SECURITY;
        UpdateWebhookSecurityConfig PUT    "/v1/admin/config/webhook-security"                admin                       webhooks::UPDATE_SECURITY;
        ListTenantWebhooks          GET    "/v1/webhooks"                                     both(WebhooksRead)          webhooks::LIST_OWN;
        CreateTenantWebhook         POST   "/v1/webhooks"                                     tenant(WebhooksWrite)       webhooks::CREATE_OWN;
        GetTenantWebhook            GET    "/v1/webhooks/{subscription_id}"                   both(WebhooksRead)          webhooks::GET;
        UpdateTenantWebhook         PATCH  "/v1/webhooks/{subscription_id}"                   both(WebhooksWrite)         webhooks::UPDATE;
        DeleteTenantWebhook         DELETE "/v1/webhooks/{subscription_id}"                   both(WebhooksWrite)         webhooks::DELETE;
        TestTenantWebhook           POST   "/v1/webhooks/{subscription_id}/test"              both(WebhooksWrite)         webhooks::TEST;
        ListTenantWebhookDeliveries GET    "/v1/webhooks/{subscription_id}/deliveries"        both(WebhooksRead)          webhooks::LIST_DELIVERIES;
        ReplayTenantEvents          POST   "/v1/webhooks/{subscription_id}/replay"            tenant(WebhooksWrite)       webhooks::REPLAY;
    }
}

impl OperationId {
    /// The row of the index.
    pub const fn operation(self) -> &'static Operation {
        &OPERATIONS[self as usize]
    }

    /// The `operationId` of the description.
    pub const fn as_str(self) -> &'static str {
        self.operation().name
    }

    /// The path, with its parameters as `{name}`.
    pub const fn path(self) -> &'static str {
        self.operation().path
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const fn with_small_first_letter<const LENGTH: usize>(name: &str) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes.copy_from_slice(name.as_bytes());
    bytes[0] = bytes[0].to_ascii_lowercase();
    bytes
}

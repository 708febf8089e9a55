//! The table: a row for each operation. Operations for the admin key alone respond to every other key alike, so a row for one
//! of them is no more than a request that succeeds.

use budget_authority::api::operations::OperationId;
use serde_json::{Value, json};

use super::target_tenant::TargetTenant;
use crate::harness::runtime_calls::tokens;

/// A status, and the code of an error.
pub type Outcome = (u16, &'static str);

const OK: Outcome = (200, "");
const MADE: Outcome = (201, "");
const GONE: Outcome = (204, "");
const INVALID: Outcome = (400, "INVALID_REQUEST");
const FORBIDDEN: Outcome = (403, "FORBIDDEN");
const NO_WEBHOOK: Outcome = (404, "WEBHOOK_NOT_FOUND");
const CLOSED: Outcome = (409, "TENANT_CLOSED");

/// Query and body of the request.
pub type Sent = (String, Option<Value>);

/// An operation that is tried under every kind of key.
pub struct Row {
    /// The response to a permitted key.
    pub good: Outcome,
    /// The responses to other valid keys; `None` where no tenant's key is accepted.
    pub tenants: Option<Tenants>,
    /// A request about the tenant, under the admin key or another.
    pub request: fn(&TargetTenant, bool) -> Sent,
}

/// Of keys that are good and have all permissions.
#[derive(Clone, Copy)]
pub struct Tenants {
    /// Another tenant's key, about this tenant. Where it may succeed, nothing of this tenant may show.
    pub other: Outcome,
    /// The victim's own while it is suspended.
    pub suspended: Outcome,
    /// The tenant's own key while it is closed.
    pub closed: Outcome,
    /// The tenant's own key, restricted to other scopes.
    pub narrow: Outcome,
}

const fn tenants(other: Outcome, suspended: Outcome, closed: Outcome, narrow: Outcome) -> Tenants {
    Tenants {
        other,
        suspended,
        closed,
        narrow,
    }
}

fn operators(good: Outcome, request: fn(&TargetTenant, bool) -> Sent) -> Row {
    Row {
        good,
        tenants: None,
        request,
    }
}

fn both(good: Outcome, tenants: Tenants, request: fn(&TargetTenant, bool) -> Sent) -> Row {
    Row {
        good,
        tenants: Some(tenants),
        request,
    }
}

fn nothing(_: &TargetTenant, _: bool) -> Sent {
    (String::new(), None)
}

fn empty(_: &TargetTenant, _: bool) -> Sent {
    (String::new(), Some(json!({})))
}

/// A replay of a moment in which nothing happened.
fn past(_: &TargetTenant, _: bool) -> Sent {
    body(json!({"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:01Z"}))
}

fn body(body: Value) -> Sent {
    (String::new(), Some(body))
}

fn query(query: String) -> Sent {
    (query, None)
}

/// The query of a list that operators must narrow to a tenant and tenants may not.
fn of_tenant(victim: &TargetTenant, admin: bool, name: &str) -> Sent {
    query(if admin {
        format!("{name}={}", victim.name)
    } else {
        String::new()
    })
}

fn key() -> String {
    format!("k{:016x}", rand::random::<u64>())
}

/// A create, decision or event.
fn request(victim: &TargetTenant, member: &str) -> Sent {
    body(json!({
        "idempotency_key": key(), "subject": {"tenant": victim.name}, "action": {"kind": "llm", "name": "m"}, member: tokens(1),
    }))
}

fn refund() -> Sent {
    body(json!({"idempotency_key": key(), "amount": tokens(1), "reason": "wrong"}))
}

fn ledger(victim: &TargetTenant) -> String {
    format!("scope={}&unit=TOKENS", victim.scope())
}

fn hook(victim: &TargetTenant) -> Value {
    json!({
        "url": "https://hooks.example/in", "event_types": ["budget.funded"], "scope_filter": format!("{}/*", victim.scope()),
    })
}

/// With the tenant that operators must name in the body.
fn owned(mut body: Value, victim: &TargetTenant, admin: bool) -> Sent {
    if admin {
        body["tenant_id"] = json!(victim.name);
    }
    (String::new(), Some(body))
}

// Reservations.
const HOLD_CHANGE: Tenants = tenants(FORBIDDEN, OK, CLOSED, FORBIDDEN);
const READ: Tenants = tenants(FORBIDDEN, OK, OK, FORBIDDEN);
/// Lists show what matches, and no more.
const LIST: Tenants = tenants(FORBIDDEN, OK, OK, OK);

// Resources that tenants manage themselves.
const CHANGE: Tenants = tenants(FORBIDDEN, FORBIDDEN, CLOSED, FORBIDDEN);
/// The body names a scope of the tenant, which is foreign to another tenant's key.
const CREATE: Tenants = tenants(INVALID, FORBIDDEN, CLOSED, FORBIDDEN);
const OWN: Tenants = tenants(OK, OK, OK, OK);
const HOOK_CHANGE: Tenants = tenants(NO_WEBHOOK, FORBIDDEN, CLOSED, FORBIDDEN);
const HOOK_READ: Tenants = tenants(NO_WEBHOOK, OK, OK, FORBIDDEN);

/// The row of an operation; `None` where keys are ignored. One without an arm does not compile.
pub fn row(operation: OperationId) -> Option<Row> {
    use OperationId as O;
    Some(match operation {
        O::GetEvidence | O::GetEvidenceJwks => return None,
        O::Decide => both(OK, READ, |v, _| request(v, "estimate")),
        O::CreateReservation => both(
            OK,
            tenants(FORBIDDEN, FORBIDDEN, CLOSED, FORBIDDEN),
            |v, _| request(v, "estimate"),
        ),
        O::CreateEvent => both(
            MADE,
            tenants(FORBIDDEN, FORBIDDEN, CLOSED, FORBIDDEN),
            |v, _| request(v, "actual"),
        ),
        O::ListReservations => both(OK, LIST, |v, _| query(format!("tenant={}", v.name))),
        O::GetReservation => both(OK, READ, nothing),
        O::CommitReservation => both(OK, HOLD_CHANGE, |_, _| {
            body(json!({"idempotency_key": key(), "actual": tokens(1)}))
        }),
        O::ReleaseReservation => both(OK, HOLD_CHANGE, |_, _| {
            body(json!({"idempotency_key": key()}))
        }),
        O::ExtendReservation => both(OK, HOLD_CHANGE, |_, _| {
            body(json!({"idempotency_key": key(), "extend_by_ms": 1000}))
        }),
        O::GetBalances => both(OK, LIST, |v, _| query(format!("tenant={}", v.name))),
        O::GetUsage => both(OK, LIST, |v, _| query(format!("tenant={}", v.name))),
        O::GetTenantUsage => operators(OK, |v, _| query(format!("tenant_id={}", v.name))),
        O::CreateBudget => both(MADE, CREATE, |v, admin| {
            let new = json!({"scope": format!("{}/agent:new", v.scope()), "unit": "TOKENS", "allocated": tokens(1)});
            owned(new, v, admin)
        }),
        O::ListBudgets => both(OK, OWN, |v, admin| of_tenant(v, admin, "tenant_id")),
        O::LookupBudget => both(OK, tenants(FORBIDDEN, OK, OK, FORBIDDEN), |v, _| {
            query(ledger(v))
        }),
        O::FundBudget => both(OK, CHANGE, |v, admin| {
            let tenant = if admin {
                format!("&tenant_id={}", v.name)
            } else {
                String::new()
            };
            (
                ledger(v) + &tenant,
                Some(json!({"operation": "CREDIT", "amount": tokens(1)})),
            )
        }),
        O::CreateBudgetIncrease => both(MADE, CHANGE, |v, _| {
            let increase = json!({"amount": tokens(1), "for": "P1D", "reason": "a peak"});
            (ledger(v), Some(increase))
        }),
        O::EndBudgetIncrease => both(OK, CHANGE, |v, _| query(ledger(v))),
        // What is held was not charged.
        O::RefundReservation => both((409, "INVALID_REQUEST"), CHANGE, |_, _| refund()),
        O::ListUsageEvents => both(OK, LIST, |v, _| query(format!("tenant={}", v.name))),
        O::GetUsageEvent => both(OK, READ, nothing),
        O::RefundUsageEvent => both(OK, CHANGE, |_, _| refund()),
        O::CreatePolicy => both(MADE, CREATE, |v, admin| {
            owned(json!({"name": "new", "scope_pattern": v.scope()}), v, admin)
        }),
        O::ListPolicies => both(OK, OWN, |v, admin| of_tenant(v, admin, "tenant_id")),
        O::UpdatePolicy => both(OK, CHANGE, |_, _| body(json!({"priority": 7}))),
        O::CreateTenantWebhook => {
            both(MADE, tenants(MADE, FORBIDDEN, CLOSED, FORBIDDEN), |v, _| {
                body(hook(v))
            })
        }
        O::ListTenantWebhooks => both(OK, OWN, |v, admin| of_tenant(v, admin, "tenant")),
        O::GetTenantWebhook => both(OK, HOOK_READ, nothing),
        O::UpdateTenantWebhook => both(OK, HOOK_CHANGE, |_, _| body(json!({"name": "new"}))),
        O::DeleteTenantWebhook => both(GONE, HOOK_CHANGE, nothing),
        O::TestTenantWebhook => both(OK, HOOK_CHANGE, empty),
        O::ListTenantWebhookDeliveries => both(OK, HOOK_READ, nothing),
        O::ReplayTenantEvents => both((202, ""), HOOK_CHANGE, past),
        O::ListTenantEvents => both(OK, OWN, nothing),
        O::IntrospectAuth => both(OK, OWN, nothing),
        O::CreateTenant => operators(MADE, |_, _| {
            let name = key();
            body(json!({"tenant_id": name, "name": name}))
        }),
        O::ListTenants => operators(OK, nothing),
        O::GetTenant => operators(OK, nothing),
        O::UpdateTenant => operators(OK, |_, _| body(json!({"name": "new"}))),
        O::BulkActionTenants => operators(OK, |v, _| {
            body(
                json!({"filter": {"search": v.name}, "action": "SUSPEND", "idempotency_key": key()}),
            )
        }),
        O::UpdateBudget => operators(OK, |v, _| {
            (ledger(v), Some(json!({"overdraft_limit": tokens(1)})))
        }),
        O::FreezeBudget => operators(OK, |v, _| (ledger(v), Some(json!({})))),
        O::UnfreezeBudget => operators((409, "INVALID_REQUEST"), |v, _| {
            (ledger(v), Some(json!({})))
        }),
        O::BulkActionBudgets => operators(OK, |v, _| {
            body(json!({
                "filter": {"tenant_id": v.name}, "action": "CREDIT", "amount": tokens(1), "idempotency_key": key(),
            }))
        }),
        O::CreateApiKey => operators(MADE, |v, _| {
            body(json!({"tenant_id": v.name, "name": "new"}))
        }),
        O::ListApiKeys => operators(OK, |v, _| query(format!("tenant_id={}", v.name))),
        O::UpdateApiKey => operators(OK, |_, _| body(json!({"name": "new"}))),
        O::RevokeApiKey => operators(OK, nothing),
        O::ValidateApiKey => operators(OK, |v, _| body(json!({"key_secret": v.owner}))),
        O::ListAuditLogs => operators(OK, |v, _| query(format!("tenant_id={}", v.name))),
        O::GetAdminOverview => operators(OK, nothing),
        O::CreateWebhookSubscription => operators(MADE, |v, _| {
            (format!("tenant_id={}", v.name), Some(hook(v)))
        }),
        O::ListWebhookSubscriptions => operators(OK, |v, _| query(format!("tenant_id={}", v.name))),
        O::GetWebhookSubscription => operators(OK, nothing),
        O::UpdateWebhookSubscription => operators(OK, |_, _| body(json!({"name": "new"}))),
        O::DeleteWebhookSubscription => operators(GONE, nothing),
        O::TestWebhookSubscription => operators(OK, empty),
        O::ListWebhookDeliveries => operators(OK, nothing),
        O::ReplayEvents => operators((202, ""), past),
        O::BulkActionWebhooks => operators(OK, |v, _| {
            body(
                json!({"filter": {"tenant_id": v.name}, "action": "PAUSE", "idempotency_key": key()}),
            )
        }),
        O::GetWebhookSecurityConfig => operators(OK, nothing),
        O::UpdateWebhookSecurityConfig => operators(OK, empty),
        O::ListEvents => operators(OK, |v, _| query(format!("tenant_id={}", v.name))),
        O::GetEvent => operators((404, "EVENT_NOT_FOUND"), nothing),
    })
}

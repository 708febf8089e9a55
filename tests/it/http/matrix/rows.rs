//! The table: a row for each operation. Operations that only the admin key opens answer every other key alike, so a row for one
//! of them is no more than a request that succeeds.

use serde_json::{Value, json};

use super::victim::Victim;

/// A status, and the code of an error.
pub type Outcome = (u16, &'static str);

const OK: Outcome = (200, "");
const MADE: Outcome = (201, "");
const GONE: Outcome = (204, "");
const INVALID: Outcome = (400, "INVALID_REQUEST");
const FORBIDDEN: Outcome = (403, "FORBIDDEN");
const NO_WEBHOOK: Outcome = (404, "WEBHOOK_NOT_FOUND");
const CLOSED: Outcome = (409, "TENANT_CLOSED");

/// What is sent besides method and path: the query, and a body.
pub type Sent = (String, Option<Value>);

/// An operation that is tried under every kind of key.
pub struct Row {
    /// As the description of the API names it.
    pub operation: &'static str,
    /// What a tenant's key needs; empty: nothing.
    pub permission: &'static str,
    /// What a key that may gets.
    pub good: Outcome,
    /// What good keys get that stand somewhere else; `None` where tenants' keys open nothing.
    pub tenants: Option<Tenants>,
    /// A request about the victim, under the admin key or another.
    pub request: fn(&Victim, bool) -> Sent,
}

/// Of keys that are good and have all permissions.
#[derive(Clone, Copy)]
pub struct Tenants {
    /// Another tenant's, about what is the victim's. Where it may succeed, nothing of the victim may show.
    pub other: Outcome,
    /// The victim's own while it is suspended.
    pub suspended: Outcome,
    /// The victim's own while it is closed.
    pub closed: Outcome,
    /// The victim's own, restricted to scopes that the request is not about.
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

fn operators(operation: &'static str, good: Outcome, request: fn(&Victim, bool) -> Sent) -> Row {
    Row {
        operation,
        permission: "",
        good,
        tenants: None,
        request,
    }
}

fn both(
    operation: &'static str,
    permission: &'static str,
    good: Outcome,
    tenants: Tenants,
    request: fn(&Victim, bool) -> Sent,
) -> Row {
    Row {
        operation,
        permission,
        good,
        tenants: Some(tenants),
        request,
    }
}

fn nothing(_: &Victim, _: bool) -> Sent {
    (String::new(), None)
}

fn empty(_: &Victim, _: bool) -> Sent {
    (String::new(), Some(json!({})))
}

fn body(body: Value) -> Sent {
    (String::new(), Some(body))
}

fn query(query: String) -> Sent {
    (query, None)
}

/// The query of a list that operators must narrow to a tenant and tenants may not.
fn of_tenant(victim: &Victim, admin: bool, name: &str) -> Sent {
    query(if admin {
        format!("{name}={}", victim.name)
    } else {
        String::new()
    })
}

fn tokens(amount: i64) -> Value {
    json!({"unit": "TOKENS", "amount": amount})
}

fn key() -> String {
    format!("k{:016x}", rand::random::<u64>())
}

/// A create, decision or event.
fn asked(victim: &Victim, member: &str) -> Sent {
    body(json!({
        "idempotency_key": key(), "subject": {"tenant": victim.name}, "action": {"kind": "llm", "name": "m"}, member: tokens(1),
    }))
}

fn ledger(victim: &Victim) -> String {
    format!("scope={}&unit=TOKENS", victim.scope())
}

fn hook() -> Value {
    json!({"url": "https://hooks.example/in", "event_types": ["budget.funded"]})
}

/// With the tenant that operators must name in the body.
fn owned(mut body: Value, victim: &Victim, admin: bool) -> Sent {
    if admin {
        body["tenant_id"] = json!(victim.name);
    }
    (String::new(), Some(body))
}

/// Runtime plane.
fn runtime() -> Vec<Row> {
    let settle = tenants(FORBIDDEN, OK, CLOSED, FORBIDDEN);
    let read = tenants(FORBIDDEN, OK, OK, FORBIDDEN);
    // Lists show what matches, and no more.
    let list = tenants(FORBIDDEN, OK, OK, OK);
    vec![
        both("decide", "reservations:create", OK, read, |v, _| {
            asked(v, "estimate")
        }),
        both(
            "createReservation",
            "reservations:create",
            OK,
            tenants(FORBIDDEN, FORBIDDEN, CLOSED, FORBIDDEN),
            |v, _| asked(v, "estimate"),
        ),
        both(
            "createEvent",
            "reservations:commit",
            MADE,
            tenants(FORBIDDEN, FORBIDDEN, CLOSED, FORBIDDEN),
            |v, _| asked(v, "actual"),
        ),
        both("listReservations", "reservations:list", OK, list, |v, _| {
            query(format!("tenant={}", v.name))
        }),
        both("getReservation", "reservations:list", OK, read, nothing),
        both(
            "commitReservation",
            "reservations:commit",
            OK,
            settle,
            |_, _| body(json!({"idempotency_key": key(), "actual": tokens(1)})),
        ),
        both(
            "releaseReservation",
            "reservations:release",
            OK,
            settle,
            |_, _| body(json!({"idempotency_key": key()})),
        ),
        both(
            "extendReservation",
            "reservations:extend",
            OK,
            settle,
            |_, _| body(json!({"idempotency_key": key(), "extend_by_ms": 1000})),
        ),
        both("getBalances", "balances:read", OK, list, |v, _| {
            query(format!("tenant={}", v.name))
        }),
    ]
}

/// What tenants may do on the admin plane.
fn dual() -> Vec<Row> {
    let change = tenants(FORBIDDEN, FORBIDDEN, CLOSED, FORBIDDEN);
    // The body names a scope of the victim's; another tenant's key makes it one that is not its own.
    let create = tenants(INVALID, FORBIDDEN, CLOSED, FORBIDDEN);
    let own = tenants(OK, OK, OK, OK);
    // Scopes do not restrict what hangs on no scope.
    let hook_change = tenants(NO_WEBHOOK, FORBIDDEN, CLOSED, OK);
    let hook_read = tenants(NO_WEBHOOK, OK, OK, OK);
    vec![
        both("createBudget", "budgets:write", MADE, create, |v, admin| {
            let new = json!({"scope": format!("{}/agent:new", v.scope()), "unit": "TOKENS", "allocated": tokens(1)});
            owned(new, v, admin)
        }),
        both("listBudgets", "budgets:read", OK, own, |v, admin| {
            of_tenant(v, admin, "tenant_id")
        }),
        both(
            "lookupBudget",
            "budgets:read",
            OK,
            tenants(FORBIDDEN, OK, OK, FORBIDDEN),
            |v, _| query(ledger(v)),
        ),
        both("fundBudget", "budgets:write", OK, change, |v, admin| {
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
        both(
            "createPolicy",
            "policies:write",
            MADE,
            create,
            |v, admin| owned(json!({"name": "new", "scope_pattern": v.scope()}), v, admin),
        ),
        both("listPolicies", "policies:read", OK, own, |v, admin| {
            of_tenant(v, admin, "tenant_id")
        }),
        both("updatePolicy", "policies:write", OK, change, |_, _| {
            body(json!({"priority": 7}))
        }),
        both(
            "createTenantWebhook",
            "webhooks:write",
            MADE,
            tenants(MADE, FORBIDDEN, CLOSED, MADE),
            |_, _| body(hook()),
        ),
        both(
            "listTenantWebhooks",
            "webhooks:read",
            OK,
            own,
            |v, admin| of_tenant(v, admin, "tenant"),
        ),
        both("getTenantWebhook", "webhooks:read", OK, hook_read, nothing),
        both(
            "updateTenantWebhook",
            "webhooks:write",
            OK,
            hook_change,
            |_, _| body(json!({"name": "new"})),
        ),
        both(
            "deleteTenantWebhook",
            "webhooks:write",
            GONE,
            tenants(NO_WEBHOOK, FORBIDDEN, CLOSED, GONE),
            nothing,
        ),
        both(
            "testTenantWebhook",
            "webhooks:write",
            OK,
            hook_change,
            empty,
        ),
        both(
            "listTenantWebhookDeliveries",
            "webhooks:read",
            OK,
            hook_read,
            nothing,
        ),
        both("listTenantEvents", "events:read", OK, own, nothing),
        both("introspectAuth", "", OK, own, nothing),
    ]
}

/// What the admin key alone opens.
fn admin() -> Vec<Row> {
    vec![
        operators("createTenant", MADE, |_, _| {
            let name = key();
            body(json!({"tenant_id": name, "name": name}))
        }),
        operators("listTenants", OK, nothing),
        operators("getTenant", OK, nothing),
        operators("updateTenant", OK, |_, _| body(json!({"name": "new"}))),
        operators("bulkActionTenants", OK, |v, _| {
            body(
                json!({"filter": {"search": v.name}, "action": "SUSPEND", "idempotency_key": key()}),
            )
        }),
        operators("updateBudget", OK, |v, _| {
            (ledger(v), Some(json!({"overdraft_limit": tokens(1)})))
        }),
        operators("freezeBudget", OK, |v, _| (ledger(v), Some(json!({})))),
        operators("unfreezeBudget", (409, "INVALID_REQUEST"), |v, _| {
            (ledger(v), Some(json!({})))
        }),
        operators("bulkActionBudgets", OK, |v, _| {
            body(json!({
                "filter": {"tenant_id": v.name}, "action": "CREDIT", "amount": tokens(1), "idempotency_key": key(),
            }))
        }),
        operators("createApiKey", MADE, |v, _| {
            body(json!({"tenant_id": v.name, "name": "new"}))
        }),
        operators("listApiKeys", OK, |v, _| {
            query(format!("tenant_id={}", v.name))
        }),
        operators("updateApiKey", OK, |_, _| body(json!({"name": "new"}))),
        operators("revokeApiKey", OK, nothing),
        operators("validateApiKey", OK, |v, _| {
            body(json!({"key_secret": v.owner}))
        }),
        operators("listAuditLogs", OK, |v, _| {
            query(format!("tenant_id={}", v.name))
        }),
        operators("getAdminOverview", OK, nothing),
        operators("createWebhookSubscription", MADE, |v, _| {
            (format!("tenant_id={}", v.name), Some(hook()))
        }),
        operators("listWebhookSubscriptions", OK, |v, _| {
            query(format!("tenant_id={}", v.name))
        }),
        operators("getWebhookSubscription", OK, nothing),
        operators("updateWebhookSubscription", OK, |_, _| {
            body(json!({"name": "new"}))
        }),
        operators("deleteWebhookSubscription", GONE, nothing),
        operators("testWebhookSubscription", OK, empty),
        operators("listWebhookDeliveries", OK, nothing),
        operators("replayEvents", (202, ""), |_, _| {
            body(json!({"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:01Z"}))
        }),
        operators("bulkActionWebhooks", OK, |v, _| {
            body(
                json!({"filter": {"tenant_id": v.name}, "action": "PAUSE", "idempotency_key": key()}),
            )
        }),
        operators("getWebhookSecurityConfig", OK, nothing),
        operators("updateWebhookSecurityConfig", OK, empty),
        operators("listEvents", OK, |v, _| {
            query(format!("tenant_id={}", v.name))
        }),
        operators("getEvent", (404, "EVENT_NOT_FOUND"), nothing),
    ]
}

/// All rows. One whose operation the description does not have yet waits for it.
pub fn rows() -> Vec<Row> {
    [runtime(), dual(), admin()].into_iter().flatten().collect()
}

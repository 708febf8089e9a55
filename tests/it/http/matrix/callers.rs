//! The callers of each operation, written by hand from the documents of the wire and not from the index, so that a wrong caller
//! or permission in the index fails.

use budget_authority::api::operation::Callers;
use budget_authority::domain::api_key::permission::Permission;

use super::*;

/// `admin`: the admin key alone. `tenant`: an API key alone. `both`: either. `public`: anybody. Then the permission that an API key needs.
const CALLERS: &str = "
    createReservation           POST   /v1/reservations                                tenant reservations:create
    listReservations            GET    /v1/reservations                                both   reservations:list
    getReservation              GET    /v1/reservations/{reservation_id}               both   reservations:list
    commitReservation           POST   /v1/reservations/{reservation_id}/commit        tenant reservations:commit
    releaseReservation          POST   /v1/reservations/{reservation_id}/release       both   reservations:release
    extendReservation           POST   /v1/reservations/{reservation_id}/extend        tenant reservations:extend
    refundReservation           POST   /v1/reservations/{reservation_id}/refund        both   budgets:write
    listUsageEvents             GET    /v1/usage-events                                both   reservations:list
    getUsageEvent               GET    /v1/usage-events/{event_id}                     both   reservations:list
    refundUsageEvent            POST   /v1/usage-events/{event_id}/refund              both   budgets:write
    getUsage                    GET    /v1/usage                                       tenant balances:read
    getTenantUsage              GET    /v1/admin/usage                                 admin
    createEvent                 POST   /v1/events                                      tenant reservations:commit
    decide                      POST   /v1/decide                                      tenant reservations:create
    getBalances                 GET    /v1/balances                                    tenant balances:read
    getEvidence                 GET    /v1/evidence/{evidence_id}                      public
    getEvidenceJwks             GET    /v1/.well-known/service-jwks.json               public
    createTenant                POST   /v1/admin/tenants                               admin
    listTenants                 GET    /v1/admin/tenants                               admin
    getTenant                   GET    /v1/admin/tenants/{tenant_id}                   admin
    updateTenant                PATCH  /v1/admin/tenants/{tenant_id}                   admin
    bulkActionTenants           POST   /v1/admin/tenants/bulk-action                   admin
    createBudget                POST   /v1/admin/budgets                               both   budgets:write
    listBudgets                 GET    /v1/admin/budgets                               both   budgets:read
    lookupBudget                GET    /v1/admin/budgets/lookup                        both   budgets:read
    updateBudget                PATCH  /v1/admin/budgets                               admin
    freezeBudget                POST   /v1/admin/budgets/freeze                        admin
    unfreezeBudget              POST   /v1/admin/budgets/unfreeze                      admin
    fundBudget                  POST   /v1/admin/budgets/fund                          both   budgets:write
    createBudgetIncrease        POST   /v1/admin/budgets/increases                     both   budgets:write
    endBudgetIncrease           DELETE /v1/admin/budgets/increases/{increase_id}       both   budgets:write
    bulkActionBudgets           POST   /v1/admin/budgets/bulk-action                   admin
    createPolicy                POST   /v1/admin/policies                              both   policies:write
    listPolicies                GET    /v1/admin/policies                              both   policies:read
    updatePolicy                PATCH  /v1/admin/policies/{policy_id}                  both   policies:write
    createApiKey                POST   /v1/admin/api-keys                              admin
    listApiKeys                 GET    /v1/admin/api-keys                              admin
    updateApiKey                PATCH  /v1/admin/api-keys/{key_id}                     admin
    revokeApiKey                DELETE /v1/admin/api-keys/{key_id}                     admin
    validateApiKey              POST   /v1/auth/validate                               admin
    introspectAuth              GET    /v1/auth/introspect                             both
    listAuditLogs               GET    /v1/admin/audit/logs                            admin
    getAdminOverview            GET    /v1/admin/overview                              admin
    createWebhookSubscription   POST   /v1/admin/webhooks                              admin
    listWebhookSubscriptions    GET    /v1/admin/webhooks                              admin
    getWebhookSubscription      GET    /v1/admin/webhooks/{subscription_id}            admin
    updateWebhookSubscription   PATCH  /v1/admin/webhooks/{subscription_id}            admin
    deleteWebhookSubscription   DELETE /v1/admin/webhooks/{subscription_id}            admin
    testWebhookSubscription     POST   /v1/admin/webhooks/{subscription_id}/test       admin
    listWebhookDeliveries       GET    /v1/admin/webhooks/{subscription_id}/deliveries admin
    replayEvents                POST   /v1/admin/webhooks/{subscription_id}/replay     admin
    bulkActionWebhooks          POST   /v1/admin/webhooks/bulk-action                  admin
    getWebhookSecurityConfig    GET    /v1/admin/config/webhook-security               admin
    updateWebhookSecurityConfig PUT    /v1/admin/config/webhook-security               admin
    listEvents                  GET    /v1/admin/events                                admin
    getEvent                    GET    /v1/admin/events/{event_id}                     admin
    createTenantWebhook         POST   /v1/webhooks                                    tenant webhooks:write
    listTenantWebhooks          GET    /v1/webhooks                                    both   webhooks:read
    getTenantWebhook            GET    /v1/webhooks/{subscription_id}                  both   webhooks:read
    updateTenantWebhook         PATCH  /v1/webhooks/{subscription_id}                  both   webhooks:write
    deleteTenantWebhook         DELETE /v1/webhooks/{subscription_id}                  both   webhooks:write
    testTenantWebhook           POST   /v1/webhooks/{subscription_id}/test             both   webhooks:write
    listTenantWebhookDeliveries GET    /v1/webhooks/{subscription_id}/deliveries       both   webhooks:read
    replayTenantEvents          POST   /v1/webhooks/{subscription_id}/replay           tenant webhooks:write
    listTenantEvents            GET    /v1/events                                      tenant events:read
";

/// The rows of the table, each as its words.
fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    let lines = CALLERS.lines().filter(|line| !line.is_empty());
    lines.map(|line| line.split_whitespace().collect())
}

/// The permission that an API key needs for the operation of this name; empty where every key will do, or none.
fn permission_of(name: &str) -> &'static str {
    let mut of_name = rows().filter(|row| row[0] == name);
    let row = of_name.next().expect("a row of each operation");
    row.get(4).copied().unwrap_or_default()
}

#[test]
fn the_index_has_the_documented_callers_and_permissions() {
    let described = |id: &OperationId| {
        let operation = id.operation();
        let callers = match operation.callers {
            Callers::Admin => "admin",
            Callers::Tenant(_) => "tenant",
            Callers::Both(_) => "both",
            Callers::Public => "public",
        };
        let permission = operation.callers.permission();
        let path = operation.path_in(Dialect::Service);
        let words = [operation.name, operation.method.as_str(), &path, callers];
        let mut row = words.map(str::to_owned).to_vec();
        row.extend((!permission.is_empty()).then(|| permission.to_owned()));
        row
    };
    let index: BTreeSet<_> = OperationId::ALL.iter().map(described).collect();
    let owned = |row: Vec<&str>| row.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let documented: BTreeSet<_> = rows().map(owned).collect();
    assert_eq!(documented.len(), 65);
    let differ: Vec<_> = index.symmetric_difference(&documented).collect();
    assert!(differ.is_empty(), "{differ:#?}");
}

/// The permission that stands for all of one kind: `admin:read` for every `…:read`, `admin:write` for every `…:write`.
fn wildcard(permission: &str) -> Option<&'static str> {
    let of_kind = |kind: &&str| permission.ends_with(&kind["admin".len()..]);
    ["admin:read", "admin:write"].into_iter().find(of_kind)
}

/// The request of a row under an API key of the tenant.
async fn ask_by_key(
    app: &TestApp,
    operation: &Operation,
    row: &Row,
    victim: &TargetTenant,
    key: String,
) -> Response {
    let (query, body) = (row.request)(victim, false);
    let path = format!("{}?{query}", path_of(operation, victim));
    let header = Some((app.names.key, key));
    send(app, operation.method.clone(), &path, header, body).await
}

/// Scripts and handlers name permissions of their own. A key with all but the documented one finds one that is too weak, a
/// key with that one alone finds every other.
#[tokio::test]
async fn each_operation_needs_the_documented_permission_and_no_other() {
    let app = TestApp::spawn_reaching(public_names(), &[]).await;
    for (operation, row) in &described() {
        let needed = permission_of(operation.name);
        if needed.is_empty() {
            continue;
        }
        let opening: Vec<_> = [Some(needed), wildcard(needed)]
            .into_iter()
            .flatten()
            .collect();
        let others: Vec<_> = Permission::ALL
            .iter()
            .map(|permission| permission.as_str())
            .filter(|permission| !opening.contains(permission))
            .collect();
        let victim = TargetTenant::new(&app, TenantState::Active).await;
        let key = victim.key(&app, &others).await;
        let before = victim.dump(&app).await;
        let refused = ask_by_key(&app, operation, row, &victim, key).await;
        let code = match operation.plane {
            Plane::Runtime => "FORBIDDEN",
            Plane::Admin => "INSUFFICIENT_PERMISSIONS",
        };
        let name = operation.name;
        assert_eq!(refused.error(), (403, code), "{name}: {refused:?}");
        let message = refused.text("/message");
        assert!(message.contains(needed), "{name}: {message}");
        assert_eq!(victim.dump(&app).await, before, "{name}");
        for permission in opening {
            let victim = TargetTenant::new(&app, TenantState::Active).await;
            let key = victim.key(&app, &[permission]).await;
            let response = ask_by_key(&app, operation, row, &victim, key).await;
            let code = response.at("/error").as_str().unwrap_or_default();
            assert_eq!(
                (response.status, code),
                row.good,
                "{name} with {permission}: {response:?}"
            );
        }
    }
}

//! A close against every operation that changes something of the tenant, all at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use budget_authority::tools::verify::verify;
use tokio::task::JoinSet;

use super::*;
use crate::harness::admin_fixture::tenant_id;

/// Those that change nothing of the tenant, or have an outcome per row.
const APART: [OperationId; 9] = [
    OperationId::CreateTenant,
    OperationId::UpdateTenant,
    OperationId::Decide,
    OperationId::ValidateApiKey,
    OperationId::UpdateWebhookSecurityConfig,
    OperationId::BulkActionTenants,
    OperationId::BulkActionBudgets,
    OperationId::BulkActionWebhooks,
    // It would leave nothing to close.
    OperationId::RevokeApiKey,
];

/// Repeats one operation until the tenant is closed, and twice more; the statuses before and after. Counts in `granted`.
async fn repeat(
    app: &TestApp,
    victim: &TargetTenant,
    operation: &Operation,
    row: &Row,
    is_closed: &AtomicBool,
    granted: &AtomicUsize,
) -> [Vec<u16>; 2] {
    let who = if operation.callers.includes_tenants() {
        TestCaller::Owner
    } else {
        TestCaller::Admin
    };
    let mut statuses = [Vec::new(), Vec::new()];
    while statuses[1].len() < 2 {
        let after = is_closed.load(Ordering::SeqCst);
        let response = ask(app, operation, row, who, victim, victim).await;
        let status = response.status;
        assert!(status < 500, "{}: {response:?}", operation.name);
        if after {
            assert!(
                status >= 400,
                "{} after the close: {response:?}",
                operation.name
            );
        }
        granted.fetch_add(usize::from(status < 300), Ordering::SeqCst);
        statuses[usize::from(after)].push(status);
    }
    statuses
}

/// The fields of all records that a list of the tenant's names.
async fn records(
    app: &TestApp,
    list: &str,
    key: impl Fn(&str) -> String,
) -> Vec<BTreeMap<String, String>> {
    let members: Vec<String> = app.run(&["ZRANGE", list, "0", "-1"]).await;
    let mut found = Vec::new();
    for member in members {
        found.push(app.run(&["HGETALL", &key(&member)]).await);
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_against_every_operation_at_once_leaves_nothing_open() {
    let app = Arc::new(TestApp::spawn_reaching(public_names(), &[]).await);
    let described = Arc::new(described());
    for pause_ms in [0, 10, 40, 120] {
        let victim = Arc::new(TargetTenant::new(&app, TenantState::Active).await);
        let is_closed = Arc::new(AtomicBool::new(false));
        let granted_by_now = Arc::new(AtomicUsize::new(0));
        let mut at_work = JoinSet::new();
        for (index, (operation, _)) in described.iter().enumerate() {
            if operation.method == Method::GET
                || APART.iter().any(|id| id.as_str() == operation.name)
            {
                continue;
            }
            let (app, victim, is_closed) = (app.clone(), victim.clone(), is_closed.clone());
            let (described, granted) = (described.clone(), granted_by_now.clone());
            at_work.spawn(async move {
                let (operation, row) = &described[index];
                repeat(&app, &victim, operation, row, &is_closed, &granted).await
            });
        }
        // The close comes at another moment of the work in each round.
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        if pause_ms >= 100 {
            let some = async || granted_by_now.load(Ordering::SeqCst) > 0;
            crate::harness::eventually("some come before the close", some).await;
        }
        let path = format!("/v1/admin/tenants/{}", victim.name);
        let closed = app
            .as_admin(Method::PATCH, &path, &json!({"status": "CLOSED"}))
            .await
            .expect(200);
        assert_eq!(
            closed.header("x-service-cascade-status"),
            None,
            "{closed:?}"
        );
        is_closed.store(true, Ordering::SeqCst);
        let statuses = at_work.join_all().await;
        let granted = |part: usize| {
            statuses
                .iter()
                .flat_map(|statuses| &statuses[part])
                .filter(|status| **status < 300)
                .count()
        };
        assert!(
            pause_ms < 100 || granted(0) > 0,
            "some came before the close"
        );

        let (keys, tenant) = (app.store.keys(), tenant_id(&victim.name));
        let (partition, name) = (tenant.partition(), tenant.as_str());
        let budget = |member: &str| {
            let words: Vec<_> = member.split(' ').collect();
            keys.budget(partition, name, words[2], words[0])
        };
        for ledger in records(&app, &keys.budgets(partition, name), budget).await {
            assert_eq!(
                (&*ledger["status"], &*ledger["reserved"]),
                ("CLOSED", "0"),
                "{ledger:?}"
            );
        }
        for key in records(&app, &keys.api_keys(partition, name), |id| {
            keys.api_key(partition, id)
        })
        .await
        {
            let expired = key.get("expires_at_ms").is_some_and(|ms| ms == "1000");
            assert!(expired || key["status"] == "REVOKED", "{key:?}");
        }
        for hook in records(&app, &keys.webhooks(partition, name), |id| {
            keys.webhook(partition, id)
        })
        .await
        {
            assert_eq!(hook["status"], "DISABLED", "{hook:?}");
        }
        let due: Vec<String> = app
            .run(&["ZRANGE", &keys.due(partition, name), "0", "-1"])
            .await;
        assert!(due.is_empty(), "{due:?}");
        let report = verify(&app.store, Some(&tenant), |_| {})
            .await
            .expect("an answer");
        assert!(report.is_right(), "{}", report.table(true));
    }
}

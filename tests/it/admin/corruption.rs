//! Damaged counts of the admin plane: an operator's change that cannot be counted changes nothing. Keys of a wrong type are in
//! `tests/it/redis/wrong_types`.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, TENANTS};
use crate::admin::webhooks::subscriptions::{HOOKS, URL, hook, hooked, made};
use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::TestApp;
use crate::harness::bulk_calls::{self, words};
use crate::harness::response::Response;
use crate::harness::runtime_calls::tokens;

const LEDGER: &str = "scope=tenant:umbra&unit=TOKENS";

/// A change of the admin plane; `umbra` has a webhook and a ledger of 100 with a debt of 50.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    CreateTenant,
    Suspend,
    Close,
    CreateBudget,
    Freeze,
    CreateHook,
    PauseHook,
    DeleteHook,
    DeleteSystemHook,
    BulkSuspend,
    BulkClose,
    BulkPause,
    BulkDelete,
}

/// The damaged key.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Damage {
    /// A count is not a number.
    Count(&'static str),
    /// The sequence of the last audit entry is not a number.
    Sequence,
    /// The version of the operator's thresholds is not a number.
    Version,
}

struct DamagedApp {
    app: TestApp,
    hook: String,
    system_hook: String,
}

async fn damaged_app() -> DamagedApp {
    let app = hooked().await;
    let made_for_umbra = made(&app, hook(URL)).await;
    let mut watching = hook(URL);
    watching["event_types"] = json!(["budget.threshold_crossed"]);
    watching["thresholds"] = json!({"budget_utilization": [0.5]});
    let response = app
        .as_admin(Method::POST, HOOKS, &watching)
        .await
        .expect(201);
    let system_hook = response.text("/subscription/subscription_id").to_owned();
    let keys = app.store.keys();
    let ledger = keys.budget(
        tenant_id("umbra").partition(),
        "umbra",
        "TOKENS",
        "tenant:umbra",
    );
    let owes = [
        "HSET",
        &ledger,
        "debt",
        "50",
        "remaining",
        "50",
        "overdraft_limit",
        "90",
    ];
    app.run::<()>(&owes).await;
    DamagedApp {
        app,
        hook: made_for_umbra,
        system_hook,
    }
}

impl DamagedApp {
    /// Applies the damage.
    async fn damage(&self, change: Change, damage: Damage) {
        let keys = self.app.store.keys();
        let partition = match change {
            Change::CreateTenant => tenant_id("sol").partition(),
            Change::DeleteSystemHook => budget_authority::domain::ids::Partition::FIRST,
            _ => tenant_id("umbra").partition(),
        };
        let key = match damage {
            Damage::Count(_) => keys.counts(partition),
            Damage::Sequence => keys.chain(partition, "umbra"),
            Damage::Version => keys.thresholds(partition),
        };
        let words = match damage {
            Damage::Count(field) => ["HSET", &key, field, "many"],
            Damage::Sequence => ["HSET", &key, "sequence", "1x"],
            Damage::Version => ["HSET", &key, "source_version", "new"],
        };
        self.app.run::<()>(&words).await;
    }

    async fn run(&self, change: Change) -> Response {
        use Change as C;
        let ask = |method, path: String, body: Value| async move {
            self.app.as_admin(method, &path, &body).await
        };
        let tenant = format!("{TENANTS}/umbra");
        let own = format!("{HOOKS}/{}", self.hook);
        let create = json!({"tenant_id": "umbra", "scope": "tenant:umbra/agent:a", "unit": "TOKENS",
            "allocated": tokens(1)});
        let all = |filter: Value, action: &str| json!({"filter": filter, "action": action, "idempotency_key": "b"});
        let (umbra, of_umbra) = (json!({"search": "umbra"}), json!({"tenant_id": "umbra"}));
        match change {
            C::CreateTenant => {
                let sol = json!({"tenant_id": "sol", "name": "Sol"});
                ask(Method::POST, TENANTS.to_owned(), sol).await
            }
            C::Suspend => ask(Method::PATCH, tenant, json!({"status": "SUSPENDED"})).await,
            C::Close => ask(Method::PATCH, tenant, json!({"status": "CLOSED"})).await,
            C::CreateBudget => ask(Method::POST, BUDGETS.to_owned(), create).await,
            C::Freeze => {
                ask(
                    Method::POST,
                    format!("{BUDGETS}/freeze?{LEDGER}"),
                    json!({}),
                )
                .await
            }
            C::CreateHook => ask(Method::POST, format!("{HOOKS}?tenant_id=umbra"), hook(URL)).await,
            C::PauseHook => ask(Method::PATCH, own, json!({"status": "PAUSED"})).await,
            C::DeleteHook => ask(Method::DELETE, own, json!({})).await,
            C::DeleteSystemHook => {
                let path = format!("{HOOKS}/{}", self.system_hook);
                ask(Method::DELETE, path, json!({})).await
            }
            C::BulkSuspend => {
                self.app
                    .post_as_admin(bulk_calls::TENANTS, &all(umbra, "SUSPEND"))
                    .await
            }
            C::BulkClose => {
                self.app
                    .post_as_admin(bulk_calls::TENANTS, &all(umbra, "CLOSE"))
                    .await
            }
            C::BulkPause => {
                self.app
                    .post_as_admin(bulk_calls::WEBHOOKS, &all(of_umbra, "PAUSE"))
                    .await
            }
            C::BulkDelete => {
                self.app
                    .post_as_admin(bulk_calls::WEBHOOKS, &all(of_umbra, "DELETE"))
                    .await
            }
        }
    }

    /// Every key except those that record the refusal, and entries of a directory ahead of their record.
    async fn everything(&self) -> BTreeMap<String, Vec<u8>> {
        let mut found = self.app.everything().await;
        let beside = ":audit :chain: :unsealed :bulk :idemdue :days {dir}";
        found.retain(|key, _| !beside.split(' ').any(|part| key.contains(part)));
        found
    }
}

const TABLE: [(Change, Damage); 14] = {
    use Change as C;
    use Damage as D;
    [
        (C::CreateTenant, D::Count("tenant ACTIVE")),
        (C::Suspend, D::Count("tenant SUSPENDED")),
        (C::Close, D::Count("tenant CLOSED")),
        (C::CreateBudget, D::Count("budget TOKENS ACTIVE")),
        (C::Freeze, D::Count("budget TOKENS FROZEN")),
        (C::CreateHook, D::Count("webhook ACTIVE")),
        (C::CreateHook, D::Sequence),
        (C::PauseHook, D::Count("webhook PAUSED")),
        (C::DeleteHook, D::Count("webhook ACTIVE")),
        (C::DeleteSystemHook, D::Version),
        (C::BulkSuspend, D::Count("tenant SUSPENDED")),
        (C::BulkClose, D::Count("tenant CLOSED")),
        (C::BulkPause, D::Count("webhook PAUSED")),
        (C::BulkDelete, D::Count("webhook ACTIVE")),
    ]
};

#[tokio::test]
async fn a_change_that_cannot_be_counted_changes_nothing() {
    let mut wrong = Vec::new();
    for (change, damage) in TABLE {
        let damaged = damaged_app().await;
        damaged.damage(change, damage).await;
        let before = damaged.everything().await;
        let response = damaged.run(change).await;
        let refused = match response.status {
            200 => words(&response, "failed")
                .first()
                .is_some_and(|(_, word)| word == "INTERNAL_ERROR"),
            status => status == 500,
        };
        let after = damaged.everything().await;
        let names = before.keys().chain(after.keys());
        let differ: Vec<_> = names
            .filter(|key| before.get(*key) != after.get(*key))
            .collect();
        if !refused || !differ.is_empty() {
            let status = response.status;
            wrong.push(format!("{change:?} with {damage:?}: {status} {differ:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn a_close_that_cannot_count_a_child_leaves_it_open_and_emits_no_event() {
    for (field, kind) in [
        ("budget TOKENS CLOSED", "budget:"),
        ("webhook DISABLED", "webhook:"),
    ] {
        let damaged = damaged_app().await;
        let (store, partition) = (&damaged.app.store, tenant_id("umbra").partition());
        let keys = store.keys();
        damaged.damage(Change::Close, Damage::Count(field)).await;
        let logs = |all: &BTreeMap<String, Vec<u8>>| {
            let mut kept = all.clone();
            kept.retain(|key, _| key.contains(kind));
            kept
        };
        let before = logs(&damaged.everything().await);
        let response = damaged.run(Change::Close).await;
        assert_eq!(response.status, 500, "{field}: {response:?}");
        assert!(logs(&damaged.everything().await) == before, "{field}");
        let open = field
            .replace("CLOSED", "ACTIVE")
            .replace("DISABLED", "ACTIVE");
        let count: i64 = damaged
            .app
            .run(&["HGET", &keys.counts(partition), &open])
            .await;
        assert_eq!(count, 1, "{open}");
        // Once the count is repaired, the close ends.
        damaged
            .app
            .run::<()>(&["HSET", &keys.counts(partition), field, "0"])
            .await;
        let response = damaged.run(Change::Close).await;
        assert_eq!(response.status, 200, "{field}: {response:?}");
        let counts = store.counts_of(partition).await.expect("the counts");
        assert_eq!(
            counts,
            store.recount(partition).await.expect("the records"),
            "{field}"
        );
        let log = |day| keys.events(partition, "umbra", day);
        assert!(!damaged.app.log_entries(log).await.is_empty());
    }
}

#[tokio::test]
async fn the_overview_leaves_out_only_damaged_rows_and_counts() {
    let damaged = damaged_app().await;
    let (app, store) = (&damaged.app, &damaged.app.store);
    let (keys, partition) = (store.keys(), tenant_id("umbra").partition());
    // As funding and deliveries leave it; the second of each is damaged.
    let agent = "tenant:umbra/agent:a";
    damaged.run(Change::CreateBudget).await.expect(201);
    let ledger = keys.budget(partition, "umbra", "TOKENS", agent);
    let (owing, failing) = (
        keys.over_limit_or_in_debt(partition),
        keys.failing(partition),
    );
    let other = made(app, hook(URL)).await;
    for words in [
        &["HSET", &ledger, "debt", "60", "overdraft_limit", "x"][..],
        &["ZADD", &owing, "50", "debt umbra TOKENS tenant:umbra"],
        &["ZADD", &owing, "60", &format!("debt umbra TOKENS {agent}")],
        &[
            "HSET",
            &keys.webhook(partition, &damaged.hook),
            "consecutive_failures",
            "3",
        ],
        &[
            "HSET",
            &keys.webhook(partition, &other),
            "consecutive_failures",
            "x",
        ],
        &["ZADD", &failing, "3", &damaged.hook, "4", &other],
        &["HSET", &keys.counts(partition), "webhook PAUSED", "x"],
    ] {
        app.run::<()>(words).await;
    }
    let response = app.get_as_admin("/v1/admin/overview").await.expect(200);
    assert_eq!(response.at("/debt_scopes/0/debt"), 50);
    assert_eq!(
        response.at("/debt_scopes").as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(
        response.at("/failing_webhooks/0/subscription_id"),
        &json!(damaged.hook)
    );
    assert_eq!(
        response.at("/failing_webhooks").as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(response.at("/tenant_counts/active"), 3);
    assert_eq!(response.at("/budget_counts/active"), 2);
    assert_eq!(response.at("/webhook_counts/active"), 3);
}

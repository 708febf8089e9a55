//! Requests do not wait for the connections of lists and workers.

use std::time::Duration;

use budget_authority::domain::api_key::secret::ApiKeyText;
use budget_authority::store::{Lane, RedisOptions, Store};
use tokio::task::JoinHandle;

use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::redis::RedisServer;
use crate::harness::redis_fixture::now_ms;
use crate::harness::tenant_fixture::TenantFixture;
use crate::harness::{eventually, store_with};

/// Keeps the only connection of the pool busy.
async fn occupy(server: &RedisServer, store: &Store) -> JoinHandle<()> {
    let busy = store.clone();
    let task = tokio::spawn(async move {
        let mut command = redis::cmd("BLPOP");
        command.arg("nothing").arg(0);
        let _ = busy.send(Lane::Background, ("nothing", &command)).await;
    });
    eventually("the connection waits for nothing", || async {
        let clients: String = server.run(&["INFO", "clients"]);
        clients
            .contains("blocked_clients:1")
            .then_some(())
            .ok_or(clients)
    })
    .await;
    task
}

fn with_one_pooled(url: &str) -> Store {
    let mut options = RedisOptions::new(url);
    options.background_connections = 1;
    options.timeout = Duration::from_secs(20);
    store_with(options)
}

#[tokio::test]
async fn a_key_is_looked_up_while_lists_and_workers_have_all_their_connections() {
    let server = RedisServer::start();
    let fixture = LedgerFixture::on(with_one_pooled(&server.url())).await;
    let key = ApiKeyText::parse(&fixture.keys[0], &["sk_live_"]).expect("a key");
    let busy = occupy(&server, &fixture.store).await;
    let found = fixture.store.tenant_of_key(key.key_id());
    let found = tokio::time::timeout(Duration::from_secs(10), found).await;
    let found = found.expect("it waits for nobody").expect("Redis answers");
    assert_eq!(found.as_ref(), Some(&fixture.callers[0].tenant));
    busy.abort();
}

#[tokio::test]
async fn dead_holds_are_expired_for_a_request_while_workers_have_all_their_connections() {
    let server = RedisServer::start();
    let store = with_one_pooled(&server.url());
    let mut tenant = TenantFixture::bare(&store, "acme").await;
    let now = now_ms(&store).await;
    tenant.write_holds(120, now - 10).await;
    let busy = occupy(&server, &store).await;
    let sweeping = budget_authority::store::runtime::expire::expire_tenant(
        &store, &tenant.id, "source t", now,
    );
    let swept = tokio::time::timeout(Duration::from_secs(10), sweeping).await;
    assert_eq!(
        swept.expect("it waits for nobody").expect("Redis answers"),
        120
    );
    busy.abort();
}

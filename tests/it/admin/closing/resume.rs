//! Resuming a close: by which process, when, and the obstacles.

use std::time::Duration;

use budget_authority::admin::tenants::closing::CloseProgress;
use budget_authority::dispatcher::UnfinishedWork;
use budget_authority::domain::budget::ledger::FundingOperation;
use prometheus::Registry;

use crate::admin::budgets::funding::figures_of;
use crate::harness::admin_fixture::{admin_key, ask, asking, closed, funding, refusal};
use crate::harness::eventually;
use crate::harness::tenant_fixture::TenantFixture;

const HOUR: Duration = Duration::from_secs(3_600);

/// Passes of a dispatcher's worker until nothing is due within the next second.
pub async fn reconcile(tenant: &TenantFixture) {
    let closings = UnfinishedWork::new(tenant.store.clone(), &Registry::new()).expect("names");
    let lease = tenant.lease("test", HOUR).await;
    let index = tenant.keys().closings(tenant.id.partition());
    eventually("nothing is due", || async {
        let pass = closings.run_once(&[lease], |_| panic!("lost")).await;
        pass.expect("Redis answers");
        let next: Option<i64> = tenant.run(&["ZSCORE", &index, tenant.name()]).await;
        let soon_ms = tenant.store.clock().now_ms() + 1_000;
        next.is_none_or(|next_ms| next_ms > soon_ms)
    })
    .await;
}

#[tokio::test]
async fn rule_79_a_dispatcher_finishes_a_close_whose_request_died() {
    let (tenant, _) = TenantFixture::populated().await;
    let before = tenant.account().await;
    let request_id = tenant.flip().await;
    reconcile(&tenant).await;
    let after = tenant.check_closed(&before).await;
    assert_eq!(
        TenantFixture::requests(&after).len(),
        1,
        "the request's entry, once"
    );
    assert_eq!(
        after.events.last().expect("events")["request_id"],
        request_id.as_str()
    );
}

#[tokio::test]
async fn no_dispatcher_resumes_a_close_while_its_request_is_running() {
    let (tenant, _) = TenantFixture::populated().await;
    tenant.flip().await;
    let closings = tenant.keys().closings(tenant.id.partition());
    let soon = (tenant.store.clock().now_ms() + 9_000).to_string();
    tenant.run::<()>(&["ZADD", &closings, &soon, "acme"]).await;
    reconcile(&tenant).await;
    assert!(tenant.is_closing().await);
}

#[tokio::test]
async fn a_former_owner_of_the_partition_takes_no_step() {
    let (tenant, _) = TenantFixture::populated().await;
    tenant.flip().await;
    let mut stale = tenant.lease("test", HOUR).await;
    stale.token -= 1;
    let closings = UnfinishedWork::new(tenant.store.clone(), &Registry::new()).expect("names");
    // On a busy machine this process's idea of Redis's clock is a little behind, and nothing is due at first.
    let lost = eventually("the lease is found lost", || async {
        let mut lost = 0;
        let pass = closings.run_once(&[stale], |_| lost += 1).await;
        assert_eq!(pass.expect("Redis answers").done, 0);
        (lost > 0).then_some(lost)
    })
    .await;
    assert_eq!(lost, 1);
    assert!(
        tenant
            .account()
            .await
            .ledgers
            .values()
            .all(|ledger| ledger["status"] != "CLOSED")
    );
}

#[tokio::test]
async fn an_unclosable_child_is_reported_and_retried_and_the_rest_is_closed() {
    let (tenant, _) = TenantFixture::populated().await;
    let sound = tenant.account().await;
    tenant.set_budget("/workspace:w", &["spent", "much"]).await;
    let updated = tenant.close().await;
    let Some(CloseProgress::Incomplete {
        again_in_ms,
        failed,
    }) = updated.close
    else {
        panic!("{updated:?}");
    };
    assert_eq!(
        (again_in_ms, failed),
        (
            30_000,
            vec!["budget:tenant:acme/workspace:w:TOKENS".to_owned()]
        )
    );
    let account = tenant.account().await;
    assert_eq!(tenant.ledger_at("/agent:a").await.status.as_str(), "CLOSED");
    assert!(
        account
            .keys
            .values()
            .all(|key| key["status"] == "REVOKED" || key["expires_at_ms"] == "1000")
    );
    assert!(
        account
            .events
            .iter()
            .all(|event| event["type"] != "tenant.closed")
    );
    let request = TenantFixture::requests(&account)[0];
    assert_eq!(
        (
            &*request["status"],
            &*request["metadata.cascade.failures_count"],
            &*request["metadata.cascade.failed_resources"]
        ),
        ("500", "1", "budget:tenant:acme/workspace:w:TOKENS")
    );
    let closings = tenant.keys().closings(tenant.id.partition());
    tenant.run::<()>(&["ZADD", &closings, "1000", "acme"]).await;
    reconcile(&tenant).await;
    let again: i64 = tenant.run(&["ZSCORE", &closings, "acme"]).await;
    let in_ms = again - tenant.store.clock().now_ms();
    assert!((50_000..=61_000).contains(&in_ms), "twice as long: {in_ms}");

    tenant.set_budget("/workspace:w", &["spent", "0"]).await;
    tenant.run::<()>(&["ZADD", &closings, "1000", "acme"]).await;
    reconcile(&tenant).await;
    let after = tenant.check_closed(&sound).await;
    assert_eq!(TenantFixture::requests(&after).len(), 1);
}

#[tokio::test]
async fn another_close_ends_stragglers_under_the_first_correlation() {
    let (tenant, _) = TenantFixture::populated().await;
    let before = tenant.account().await;
    tenant.close().await;
    let closed_then = tenant.account().await;
    tenant.webhook("whsub_late", "ACTIVE").await;
    let again = ask();
    assert_eq!(
        tenant.close_as(&again).await.close,
        Some(CloseProgress::Closed)
    );
    let after = tenant.account().await;
    assert_eq!(after.webhooks["whsub_late"]["status"], "DISABLED");
    assert_eq!(after.events.len(), closed_then.events.len() + 1);
    let event = after.events.last().expect("an event");
    assert_eq!(event["type"], "webhook.disabled_via_tenant_cascade");
    let first = before.events.len();
    assert_eq!(
        event["correlation_id"],
        after.events[first]["correlation_id"]
    );
}

#[tokio::test]
async fn a_hold_in_quarantine_does_not_keep_its_ledger_open() {
    let (tenant, ids) = TenantFixture::populated().await;
    let (keys, partition) = (tenant.keys().clone(), tenant.id.partition());
    let record = keys.reservation(partition, ids[0].as_str());
    tenant
        .run::<()>(&["HSET", &record, "estimate", "what"])
        .await;
    assert_eq!(tenant.close().await.close, Some(CloseProgress::Closed));
    for place in ["", "/agent:a", "/agent:b"] {
        let ledger = tenant.ledger_at(place).await;
        assert_eq!(
            (
                ledger.status.as_str(),
                ledger.reserved.value(),
                ledger.remaining.value()
            ),
            ("CLOSED", 0, 10_000),
            "{place}"
        );
    }
    let listed: Vec<String> = tenant
        .run(&["ZRANGE", &keys.quarantine(partition), "0", "-1"])
        .await;
    assert_eq!(listed, [ids[0].as_str()]);
}

#[tokio::test]
async fn a_repeated_close_is_replayed_and_resumed() {
    let (tenant, _) = TenantFixture::populated().await;
    let before = tenant.account().await;
    let ask = asking(Some("close"), "{}");
    let first = tenant.close_as(&ask).await;
    let again = tenant.close_as(&ask).await;
    assert_eq!(again.tenant.updated_at, first.tenant.updated_at);
    let after = tenant.check_closed(&before).await;
    assert_eq!(
        TenantFixture::requests(&after).len(),
        1,
        "a repetition is recorded once"
    );
}

#[tokio::test]
async fn rule_34_a_funding_before_the_close_is_replayed_after_it() {
    let (tenant, _) = TenantFixture::populated().await;
    let fund = funding(Some("acme"), "tenant:acme", FundingOperation::Credit, 50);
    let first = asking(Some("k"), "{}");
    let funded = tenant
        .admin
        .fund_budget(&admin_key(), &fund, &first.request())
        .await
        .expect("funded");
    tenant.close().await;
    let again = tenant
        .admin
        .fund_budget(&admin_key(), &fund, &first.request())
        .await;
    let again = again.expect("the stored answer");
    assert_eq!(figures_of(again), figures_of(funded));
    let other = asking(Some("l"), "{}");
    let refused = tenant
        .admin
        .fund_budget(&admin_key(), &fund, &other.request())
        .await;
    assert_eq!(refusal(refused), closed("acme"));
}

//! The close of a tenant: the end of all that it owns, the events, and what is refused afterwards.

use budget_authority::admin::tenants::closing::CloseProgress;
use budget_authority::domain::amount::Unit;
use budget_authority::domain::budget::ledger::BudgetUpdateRequest;
use budget_authority::domain::budget::ledger::FundingOperation;
use budget_authority::domain::cause::Actor;
use budget_authority::domain::ids::IdempotencyKey;
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::{HashedRequest, PayloadHash};
use budget_authority::domain::refusal::{Refusal, TenantRefusal};
use budget_authority::domain::reservation::CommitRequest;
use budget_authority::ledger::ReservationExtendRequest;
use budget_authority::store::StoreError;

use crate::admin::closing::resume::reconcile;
use crate::harness::admin_fixture::{
    admin_key, ask, cause, closed, funding, new_budget, new_key, refusal, scope, tokens,
};
use crate::harness::tenant_fixture::TenantFixture;

#[tokio::test]
async fn a_close_ends_everything_of_the_tenant_with_one_event_each() {
    let (tenant, _) = TenantFixture::populated().await;
    let before = tenant.account().await;
    let updated = tenant.close().await;
    assert_eq!(updated.close, Some(CloseProgress::Closed));
    assert!(updated.tenant.closed_at.is_some());
    let after = tenant.check_closed(&before).await;

    // 303 were held at the root, 202 by agent a, 101 by agent b.
    for (place, held) in [
        ("", 303),
        ("/agent:a", 202),
        ("/agent:b", 101),
        ("/workspace:w", 0),
    ] {
        let name = (format!("tenant:acme{place}"), "TOKENS".to_owned());
        let id = &after.ledgers[&name]["ledger_id"];
        let of_ledger = |kind: &str| {
            after
                .events
                .iter()
                .find(|event| event["type"] == kind && event.get("data.ledger_id") == Some(id))
        };
        let released = of_ledger("reservation.released_via_tenant_cascade");
        let amount = released.map_or(0, |event| {
            event["data.released_amount"].parse().expect("a figure")
        });
        assert_eq!(amount, held, "{place}");
        let event = of_ledger("budget.closed_via_tenant_cascade").expect("an event");
        let prior = if place == "/workspace:w" {
            "FROZEN"
        } else {
            "ACTIVE"
        };
        assert_eq!(
            (&*event["data.prior_status"], &*event["scope"]),
            (prior, &*name.0)
        );
    }
    let request = &TenantFixture::requests(&after);
    assert_eq!(request.len(), 1);
    let counted = |name: &str| request[0][&format!("metadata.cascade.{name}")].as_str();
    assert_eq!(
        [
            "budgets_closed",
            "webhooks_disabled",
            "api_keys_revoked",
            "reservations_released",
            "in_progress",
            "failures_count"
        ]
        .map(counted),
        ["4", "2", "2", "606", "false", "0"]
    );
    assert_eq!(request[0]["status"], "200");
}

#[tokio::test]
async fn rule_74_budgets_close_with_nothing_reserved_webhooks_stop_and_keys_are_revoked() {
    let (tenant, _) = TenantFixture::populated().await;
    tenant.close().await;
    let account = tenant.account().await;
    let ledger = tenant.ledger_at("/agent:a").await;
    assert_eq!(
        (
            ledger.reserved.value(),
            ledger.remaining.value(),
            ledger.allocated.value()
        ),
        (0, 10_000, 10_000)
    );
    assert!(
        account
            .webhooks
            .values()
            .all(|webhook| webhook["status"] == "DISABLED")
    );
    let revoked = account.keys.values().filter(|key| {
        key.get("revoked_reason")
            .is_some_and(|why| why == "tenant_closed")
    });
    assert_eq!(revoked.count(), 2);
}

#[tokio::test]
async fn rule_75_children_come_before_the_tenant_and_share_the_correlation_of_the_request() {
    let (tenant, _) = TenantFixture::populated().await;
    let ask = ask();
    tenant.close_as(&ask).await;
    let request = ask.request();
    let id = request.cause.request_id.as_ref().expect("an id");
    let events = tenant.events("acme");
    let first = events.iter().position(|event| {
        event["event_type"]
            .as_str()
            .expect("a type")
            .ends_with("_via_tenant_cascade")
    });
    let (children, parent) = (
        &events[first.expect("children")..events.len() - 1],
        &events[events.len() - 1],
    );
    assert_eq!(parent["event_type"], "tenant.closed");
    assert_eq!(
        parent["data"],
        serde_json::json!({"tenant_id": "acme", "previous_status": "ACTIVE", "new_status": "CLOSED", "changed_fields": []})
    );
    for event in children.iter().chain([parent]) {
        assert_eq!(
            event["correlation_id"],
            format!("tenant_close_cascade:acme:{id}")
        );
        assert_eq!(event["request_id"], id.as_str());
        assert_eq!(event["trace_id"], request.cause.trace_id.as_str());
        assert_eq!(event["actor"]["type"], "admin");
    }
    let key = children
        .iter()
        .find(|event| event["event_type"] == "api_key.revoked_via_tenant_cascade")
        .expect("a key");
    assert_eq!(
        (&key["data"]["name"], &key["data"]["cascade_reason"]),
        (&"ci".into(), &"tenant_closed".into())
    );
    let hook = children
        .iter()
        .find(|event| event["event_type"] == "webhook.disabled_via_tenant_cascade")
        .expect("a webhook");
    assert!(hook.get("scope").is_none() && hook["data"]["new_status"] == "DISABLED");
}

#[tokio::test]
async fn rule_77_and_invariant_6_closing_again_changes_and_emits_nothing() {
    let (tenant, _) = TenantFixture::populated().await;
    let before = tenant.account().await;
    let first = tenant.close().await;
    let closed = tenant.account().await;
    tenant.next_ms().await;
    let again = tenant.close().await;
    assert_eq!(
        (again.close, again.tenant.closed_at),
        (Some(CloseProgress::Closed), first.tenant.closed_at)
    );
    let after = tenant.check_closed(&before).await;
    assert_eq!(after.events.len(), closed.events.len(), "invariant 6");
    assert_eq!(
        TenantFixture::requests(&after).len(),
        2,
        "each request has its entry"
    );
    assert_eq!(after.audit.len(), closed.audit.len() + 1);
    assert_eq!(after.ledgers, closed.ledgers);
}

#[tokio::test]
async fn rule_80_and_invariant_5_a_hold_that_expires_after_the_close_is_returned_once() {
    let (tenant, ids) = TenantFixture::populated().await;
    tenant.close().await;
    let (keys, partition) = (tenant.keys().clone(), tenant.id.partition());
    let due = keys.due(partition, "acme");
    for id in &ids {
        let record = keys.reservation(partition, id.as_str());
        tenant
            .run::<()>(&["HSET", &record, "expires_at_ms", "1000", "grace_ms", "0"])
            .await;
        tenant.run::<()>(&["ZADD", &due, "1000", id.as_str()]).await;
    }
    tenant
        .run::<()>(&["ZADD", &keys.due_tenants(partition), "1000", "acme"])
        .await;
    let sweep = cause(Actor::System).lines();
    let now_ms = tenant.store.clock().now_ms();
    let expired = budget_authority::store::runtime::expire::expire_tenant(
        &tenant.store,
        &tenant.id,
        &sweep,
        now_ms,
    );
    assert_eq!(expired.await.expect("swept"), 0);
    for place in ["", "/agent:a", "/agent:b"] {
        let ledger = tenant.ledger_at(place).await;
        assert_eq!(
            (ledger.reserved.value(), ledger.remaining.value()),
            (0, 10_000),
            "{place}"
        );
    }
}

#[tokio::test]
async fn a_hold_past_its_grace_expires_in_the_close_and_is_not_released() {
    let (tenant, ids) = TenantFixture::populated().await;
    let (keys, partition) = (tenant.keys().clone(), tenant.id.partition());
    let record = keys.reservation(partition, ids[0].as_str());
    tenant
        .run::<()>(&["HSET", &record, "expires_at_ms", "1000", "grace_ms", "0"])
        .await;
    tenant
        .run::<()>(&[
            "ZADD",
            &keys.due(partition, "acme"),
            "1000",
            ids[0].as_str(),
        ])
        .await;
    let before = tenant.account().await;
    tenant.close().await;
    let after = tenant.check_closed(&before).await;
    assert_eq!(after.reservations[ids[0].as_str()]["status"], "EXPIRED");
    assert_eq!(after.reservations[ids[1].as_str()]["status"], "RELEASED");
    let request = TenantFixture::requests(&after)[0];
    assert_eq!(
        request["metadata.cascade.reservations_released"], "406",
        "without the 2 times 100"
    );
    let expired = after
        .events
        .iter()
        .find(|event| event["type"] == "reservation.expired")
        .expect("an event");
    assert_eq!(
        (&*expired["source"], &*expired["actor"]),
        ("expiry-sweeper", "system")
    );
}

#[tokio::test]
async fn rule_82_and_invariant_4_nothing_of_a_closed_tenant_can_be_created_or_changed() {
    let (tenant, ids) = TenantFixture::populated().await;
    tenant.flip().await; // the guard needs no step of the close
    let (admin, by) = (&tenant.admin, admin_key());
    let budget = admin
        .create_budget(
            &by,
            &new_budget(Some("acme"), "tenant:acme/agent:new", 1),
            &scope("tenant:acme/agent:new"),
            &ask().request(),
        )
        .await;
    assert_eq!(refusal(budget), closed("acme"));
    let key = admin
        .create_api_key(&new_key("acme"), &ask().request())
        .await;
    assert_eq!(refusal(key), closed("acme"));
    let fund = funding(Some("acme"), "tenant:acme", FundingOperation::Credit, 1);
    assert_eq!(
        refusal(admin.fund_budget(&by, &fund, &ask().request()).await),
        closed("acme")
    );
    let (root, unit) = (scope("tenant:acme"), Unit::Tokens);
    let update = BudgetUpdateRequest {
        overdraft_limit: Some(tokens(5)),
        ..BudgetUpdateRequest::default()
    };
    assert_eq!(
        refusal(
            admin
                .update_budget(&root, unit, &update, &ask().request())
                .await
        ),
        closed("acme")
    );
    for frozen in [true, false] {
        let changed = admin
            .freeze_budget(&root, unit, frozen, None, &ask().request())
            .await;
        assert_eq!(refusal(changed), closed("acme"));
    }
    let revoked = admin
        .revoke_api_key(tenant.caller.key_id.as_str(), None, &ask().request())
        .await;
    assert_eq!(refusal(revoked), closed("acme"));
    let absent = scope("tenant:acme/agent:none");
    let refused = admin
        .update_budget(&absent, unit, &update, &ask().request())
        .await;
    assert_eq!(refusal(refused), closed("acme"), "before existence");

    assert!(matches!(
        tenant.hold("late", "/agent:a", 1).await,
        Err(StoreError::Refusal(Refusal::Tenant(TenantRefusal::Closed(
            _
        ))))
    ));
    let (key, payload_hash) = (
        IdempotencyKey::parse("c"),
        PayloadHash::of_body(&Json::Null),
    );
    let idempotency_key = key.expect("a key");
    let commit = HashedRequest {
        request: CommitRequest {
            idempotency_key: idempotency_key.clone(),
            actual: tokens(1),
            metrics: None,
            metadata: None,
        },
        payload_hash: payload_hash.clone(),
        attested: None,
    };
    let cause = cause(Actor::Admin(None));
    let committed = tenant
        .ledger
        .commit(&tenant.caller, &ids[0], &commit, &cause)
        .await;
    assert!(matches!(
        committed,
        Err(StoreError::Refusal(Refusal::Tenant(TenantRefusal::Closed(
            _
        ))))
    ));
    let extend = HashedRequest {
        request: ReservationExtendRequest {
            idempotency_key,
            extend_by_ms: 10,
            metadata: None,
        },
        payload_hash,
        attested: None,
    };
    let extended = tenant
        .ledger
        .extend(&tenant.caller, &ids[0], &extend, &cause)
        .await;
    assert!(matches!(
        extended,
        Err(StoreError::Refusal(Refusal::Tenant(TenantRefusal::Closed(
            _
        ))))
    ));
    let before = tenant.account().await;
    reconcile(&tenant).await;
    tenant.check_closed(&before).await;
}

#[tokio::test]
async fn invariant_7_records_of_a_closed_tenant_can_be_read() {
    let (tenant, ids) = TenantFixture::populated().await;
    tenant.close().await;
    assert_eq!(tenant.ledger_at("/agent:a").await.status.as_str(), "CLOSED");
    let closed = tenant.admin.get_tenant(&tenant.id).await.expect("a tenant");
    assert_eq!(closed.status.as_str(), "CLOSED");
    let record = tenant.account().await.reservations[ids[0].as_str()].clone();
    assert_eq!(
        (&*record["status"], &*record["release_reason"]),
        ("RELEASED", "tenant_closed")
    );
}

#[tokio::test]
async fn rule_83_an_expired_key_stays_expired() {
    let (tenant, _) = TenantFixture::populated().await;
    tenant.close().await;
    let account = tenant.account().await;
    let expired: Vec<_> = account
        .keys
        .values()
        .filter(|key| key["expires_at_ms"] == "1000")
        .collect();
    assert_eq!(expired.len(), 1);
    assert!(expired[0]["status"] == "ACTIVE" && !expired[0].contains_key("revoked_at_ms"));
}

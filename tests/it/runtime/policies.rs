//! Policies in effect: the one that applies, its settings, and their duration.

use budget_authority::domain::policy::OveragePolicy;
use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::with;

const ROOT: &str = "tenant:acme";
const AGENT: &str = "tenant:acme/agent:a";

pub(super) async fn acme() -> TestApp {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000_000, 1_000).await;
    app
}

/// A field of a reservation's record; empty when it is not there.
pub(super) async fn kept(app: &TestApp, id: &str, field: &str) -> String {
    let found: Option<String> = app.run(&["HGET", &app.reservation_key(id), field]).await;
    found.unwrap_or_default()
}

pub(super) fn decided(response: &Response) -> (&str, &Value) {
    assert_eq!(response.status, 200, "{response:?}");
    (response.text("/decision"), response.at("/caps"))
}

#[tokio::test]
async fn every_allowed_request_and_its_replay_carry_caps() {
    let app = acme().await;
    let caps = json!({"max_tokens": 9_223_372_036_854_775_807_i64, "max_steps_remaining": 0, "cooldown_ms": 250,
        "tool_allowlist": ["web.search", "\"quoted\""], "tool_denylist": []});
    let policy = app
        .policy("caps", "tenant:acme/*", json!({"caps": caps}))
        .await;
    for attempt in ["first", "again"] {
        let held = app.create("r", AGENT, 10, json!({})).await;
        assert_eq!(decided(&held), ("ALLOW_WITH_CAPS", &caps), "{attempt}");
        let dry = app.dry_run("dry", AGENT, 10).await;
        assert_eq!(decided(&dry), ("ALLOW_WITH_CAPS", &caps), "{attempt}");
        assert_eq!(dry.at("/balances/0/remaining/amount"), &json!(999_990));
        let decision = app.decide("d", AGENT, 10).await;
        assert_eq!(decided(&decision), ("ALLOW_WITH_CAPS", &caps), "{attempt}");
    }
    let denied = app.decide("too much", AGENT, 1_000_001).await;
    assert_eq!(decided(&denied), ("DENY", &Value::Null));
    let elsewhere = app.create("root", ROOT, 10, json!({})).await;
    assert_eq!(decided(&elsewhere), ("ALLOW", &Value::Null));

    // A decision under caps stays, even if the policy changes.
    app.amend(&policy, json!({"caps": null})).await;
    let replayed = app.create("r", AGENT, 10, json!({})).await;
    assert_eq!(decided(&replayed), ("ALLOW_WITH_CAPS", &caps));
    let fresh = app.create("r2", AGENT, 10, json!({})).await;
    assert_eq!(decided(&fresh), ("ALLOW", &Value::Null));
    app.amend(&policy, json!({"caps": {}})).await;
    let fresh = app.create("r3", AGENT, 10, json!({})).await;
    assert_eq!(decided(&fresh), ("ALLOW", &Value::Null), "no caps are none");
}

#[tokio::test]
async fn the_overage_policy_comes_from_request_policy_ledger_or_tenant_in_this_order() {
    let app = acme().await;
    let policy = app
        .policy("p", AGENT, json!({"commit_overage_policy": "REJECT"}))
        .await;
    app.set_ledger(ROOT, &[("commit_overage_policy", "ALLOW_WITH_OVERDRAFT")])
        .await;
    app.set_tenant(&[("default_commit_overage_policy", "REJECT")])
        .await;
    let requested = json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"});
    for (key, scope, more, expected) in [
        (
            "request",
            AGENT,
            requested.clone(),
            OveragePolicy::AllowWithOverdraft,
        ),
        ("policy", AGENT, json!({}), OveragePolicy::Reject),
        ("ledger", ROOT, json!({}), OveragePolicy::AllowWithOverdraft),
    ] {
        let held = app.create(key, scope, 10, more.clone()).await;
        let id = held.text("/reservation_id");
        assert_eq!(
            kept(&app, id, "overage_policy").await,
            expected.as_str(),
            "{key}"
        );
        let posted = app.post_event(key, scope, 10, more).await;
        let record = app
            .store
            .keys()
            .usage_event(app.callers[0].partition, posted.text("/event_id"));
        let overage: String = app.run(&["HGET", &record, "overage_policy"]).await;
        assert_eq!(overage, expected.as_str(), "{key}");
    }
    app.amend(&policy, json!({"status": "DISABLED"})).await;
    let disabled = app.held(AGENT, 10, json!({})).await;
    assert_eq!(
        kept(&app, &disabled, "overage_policy").await,
        "ALLOW_WITH_OVERDRAFT"
    );

    // An event beyond what is left is refused under REJECT, whatever ledger and tenant say.
    app.amend(&policy, json!({"status": "ACTIVE"})).await;
    app.post_event("beyond", AGENT, 999_999_999, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
    // And so is a commit beyond its hold, by the policy captured at the reserve.
    let held = app
        .create("captured", AGENT, 10, json!({}))
        .await
        .text("/reservation_id")
        .to_owned();
    app.amend(&policy, json!({"commit_overage_policy": null}))
        .await;
    app.commit(&held, "c", 11)
        .await
        .refused(409, "BUDGET_EXCEEDED");
    app.commit(&held, "c", 10).await.expect(200);
}

#[tokio::test]
async fn a_policys_lifetimes_and_extensions_override_the_tenants() {
    let app = acme().await;
    app.set_tenant(&[
        ("default_reservation_ttl_ms", "7000"),
        ("max_reservation_ttl_ms", "8000"),
    ])
    .await;
    app.set_tenant(&[("max_reservation_extensions", "5")]).await;
    let policy = app
        .policy(
            "p",
            AGENT,
            json!({"reservation_ttl_override": {
        "default_ttl_ms": 20_000, "max_ttl_ms": 30_000, "max_extensions": 1}}),
        )
        .await;
    let ttl = async |key: &str, more: Value| {
        let held = app.create(key, AGENT, 1, more).await;
        held.at("/remaining_ttl_ms").as_i64().expect("a hold")
    };
    assert_eq!(ttl("default", json!({})).await, 20_000);
    assert_eq!(ttl("requested", json!({"ttl_ms": 25_000})).await, 25_000);
    assert_eq!(ttl("longer", json!({"ttl_ms": 86_400_000})).await, 30_000);
    let held = app
        .create("x", AGENT, 1, json!({}))
        .await
        .text("/reservation_id")
        .to_owned();
    app.extend(&held, "e1", 1_000).await.expect(200);
    // Captured settings do not change.
    app.amend(
        &policy,
        json!({"reservation_ttl_override": {"max_extensions": 9_223_372_036_854_775_807_i64}}),
    )
    .await;
    app.extend(&held, "e2", 1_000)
        .await
        .refused(409, "MAX_EXTENSIONS_EXCEEDED");
    // The whole object was replaced: absent members come from the tenant again.
    assert_eq!(ttl("tenant's", json!({})).await, 7_000);
    assert_eq!(ttl("tenant's max", json!({"ttl_ms": 60_000})).await, 8_000);
    let held = app
        .create("many", AGENT, 1, json!({}))
        .await
        .text("/reservation_id")
        .to_owned();
    for n in 0..6 {
        app.extend(&held, &format!("m{n}"), 1_000).await.expect(200);
    }
    app.amend(
        &policy,
        json!({"reservation_ttl_override": {"max_extensions": 0}}),
    )
    .await;
    let held = app
        .create("none", AGENT, 1, json!({}))
        .await
        .text("/reservation_id")
        .to_owned();
    app.extend(&held, "n", 1_000)
        .await
        .refused(409, "MAX_EXTENSIONS_EXCEEDED");
    app.amend(&policy, json!({"reservation_ttl_override": null}))
        .await;
    app.set_tenant(&[("max_reservation_extensions", "9223372036854775807")])
        .await;
    let held = app.create("most", AGENT, 1, json!({})).await;
    app.extend(held.text("/reservation_id"), "most", 1_000)
        .await
        .expect(200);
}

#[tokio::test]
async fn exactly_one_policy_applies() {
    let app = acme().await;
    let deep = "tenant:acme/workspace:w/agent:a";
    let steps = |count: i64| json!({"caps": {"max_steps_remaining": count}});
    app.policy(
        "wide",
        "tenant:acme/*",
        with(steps(1), json!({"commit_overage_policy": "REJECT"})),
    )
    .await;
    let held = app.create("wide", deep, 1, json!({})).await;
    assert_eq!(held.at("/caps/max_steps_remaining"), &json!(1));
    app.policy("near", "tenant:acme/workspace:w/*", steps(2))
        .await;
    let held = app.create("near", deep, 1, json!({})).await;
    assert_eq!(held.at("/caps/max_steps_remaining"), &json!(2));
    let overage = kept(&app, held.text("/reservation_id"), "overage_policy").await;
    assert_eq!(overage, "ALLOW_IF_AVAILABLE", "not the wide one's");
    let level = app
        .policy("level", "tenant:acme/workspace:w/agent:*", steps(3))
        .await;
    let held = app
        .create("newest of three segments", deep, 1, json!({}))
        .await;
    assert_eq!(held.at("/caps/max_steps_remaining"), &json!(3));
    assert_eq!(
        kept(&app, held.text("/reservation_id"), "policy_id").await,
        level
    );
    let high = app
        .policy(
            "high",
            "tenant:acme/*",
            with(steps(4), json!({"priority": 1})),
        )
        .await;
    let held = app.create("high", deep, 1, json!({})).await;
    assert_eq!(held.at("/caps/max_steps_remaining"), &json!(4));
    app.amend(&high, json!({"priority": null})).await;
    let held = app.create("low again", deep, 1, json!({})).await;
    assert_eq!(held.at("/caps/max_steps_remaining"), &json!(3));
    let held = app
        .create(
            "other case",
            "tenant:acme/workspace:W/agent:A",
            1,
            json!({}),
        )
        .await;
    assert_eq!(held.at("/caps/max_steps_remaining"), &json!(3));
}

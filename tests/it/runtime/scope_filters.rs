//! A key whose scope filter is a path: an agent cannot evade its own limit under another path. And addresses as ids of agents.

use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{ask_body, event_body, tokens, with};

const CHAT: &str = "tenant:acme/app:chat";
const WRITER: &str = "tenant:acme/app:chat/agent:writer";
/// The same agent, in other places.
const ELSEWHERE: [&str; 5] = [
    "tenant:acme/agent:writer",
    "tenant:acme/workspace:w/app:chat/agent:writer",
    "tenant:acme/app:chat/workflow:w/agent:writer",
    "tenant:acme/app:chat",
    "app:chat/agent:writer",
];

/// A tenant with budgets down to an agent, and a key with this filter, which an operator has made.
async fn fenced(filter: Value) -> (TestApp, String) {
    let app = TestApp::spawn().await;
    for (scope, allocated) in [("tenant:acme", 100_000), (CHAT, 100_000), (WRITER, 5_000)] {
        app.budget(scope, allocated, 0).await;
    }
    let new = json!({"tenant_id": "acme", "name": "writer", "scope_filter": filter});
    let key = app.post_as_admin("/v1/admin/api-keys", new).await;
    let secret = key.expect(201).text("/key_secret").to_owned();
    (app, secret)
}

#[tokio::test]
async fn a_path_in_a_scope_filter_confines_an_agent_to_its_budget() {
    let (app, key) = fenced(json!(["Tenant:acme/App:chat/Agent:WRITER"])).await;
    let reserve = async |scope: &str| {
        let body = ask_body(scope, scope, 50_000);
        app.post_with(&key, "/v1/reservations", &body).await
    };
    assert_eq!(reserve(WRITER).await.error(), (409, "BUDGET_EXCEEDED"));
    for scope in ELSEWHERE {
        let refused = reserve(scope).await;
        assert_eq!(refused.error(), (403, "FORBIDDEN"), "{scope}");
        let reason = format!("The API key is restricted to other scopes; it may act in {WRITER}");
        assert_eq!(refused.text("/message"), reason);
        let dry = with(ask_body("d", scope, 1), json!({"dry_run": true}));
        for (path, body) in [
            ("/v1/reservations", dry),
            ("/v1/decide", ask_body("e", scope, 1)),
            ("/v1/events", event_body("f", scope, 1)),
        ] {
            let response = app.post_with(&key, path, &body).await;
            assert_eq!(response.error(), (403, "FORBIDDEN"), "{path} {scope}");
        }
    }
    for scope in [WRITER, "tenant:acme/app:chat/agent:Writer/toolset:t"] {
        let body = ask_body(scope, scope, 10);
        let response = app.post_with(&key, "/v1/reservations", &body).await;
        response.expect(200);
    }
    assert_eq!(app.figures(CHAT).await, (99_980, 20, 0, 0));
}

/// As README says: an entry of one segment does not confine an agent that names its scope itself.
#[tokio::test]
async fn a_segment_in_a_scope_filter_admits_it_anywhere_in_the_path() {
    let (app, key) = fenced(json!(["agent:writer"])).await;
    for scope in ["tenant:acme/agent:writer", ELSEWHERE[2]] {
        let body = ask_body(scope, scope, 40_000);
        let response = app.post_with(&key, "/v1/reservations", &body).await;
        response.expect(200);
    }
}

/// An address of mail is an id of an agent like any other, in budgets, policies, scope filters and lists.
#[tokio::test]
async fn a_mail_address_is_an_id_of_an_agent() {
    const ANN: &str = "tenant:acme/agent:Ann.Lee+bot@example.com";
    let app = TestApp::spawn().await;
    let scope = ANN.to_lowercase();
    let budget =
        json!({"tenant_id": "acme", "scope": ANN, "unit": "TOKENS", "allocated": tokens(100)});
    let made = app.post_as_admin("/v1/admin/budgets", budget).await;
    assert_eq!(made.expect(201).text("/scope"), scope);
    let policy = json!({"tenant_id": "acme", "name": "p", "scope_pattern": format!("{ANN}/*"), "caps": {"max_tokens": 5}});
    let made = app.post_as_admin("/v1/admin/policies", policy).await;
    assert_eq!(
        made.expect(201).text("/scope_pattern"),
        format!("{scope}/*")
    );
    let new = json!({"tenant_id": "acme", "name": "ann", "scope_filter": [ANN]});
    let made = app.post_as_admin("/v1/admin/api-keys", new).await;
    let key = made.expect(201).text("/key_secret").to_owned();

    let held = app
        .post_with(&key, "/v1/reservations", &ask_body("a", ANN, 30))
        .await
        .expect(200);
    assert_eq!(held.at("/affected_scopes/0"), &json!("tenant:acme"));
    assert_eq!(held.text("/scope_path"), scope);
    for other in [
        "tenant:acme/agent:ann.lee",
        "tenant:acme/agent:bob@example.com",
    ] {
        let body = ask_body(other, other, 1);
        let refused = app.post_with(&key, "/v1/reservations", &body).await;
        assert_eq!(refused.error(), (403, "FORBIDDEN"), "{other}");
    }
    let agent = "agent=ann.lee%2Bbot%40example.com";
    for (path, rows) in [
        ("/v1/reservations?", "/reservations"),
        ("/v1/balances?tenant=acme&", "/balances"),
    ] {
        let page = app.get_with(&key, &format!("{path}{agent}")).await;
        let scopes = page.expect(200).at(rows).as_array().map(Vec::len);
        assert_eq!(scopes, Some(1), "{path}");
    }
    let path = format!("/v1/reservations/{}/commit", held.text("/reservation_id"));
    let commit = json!({"idempotency_key": "c", "actual": tokens(20)});
    app.post_with(&key, &path, &commit).await.expect(200);
    let found = app.get(&path.replace("/commit", "")).await.expect(200);
    assert_eq!(found.text("/subject/agent"), "Ann.Lee+bot@example.com");
    let events =
        "/v1/admin/events?tenant_id=acme&scope=tenant:acme/agent:ann.lee%2Bbot%40example.com";
    let events = app.get_as_admin(events).await.expect(200);
    let found = events.at("/events/1/scope");
    assert_eq!(found, &json!(scope), "of the budget, before the policy's");
    // The id of a tenant is none.
    let refused = app
        .create("t", "tenant:ann@example.com", 1, json!({}))
        .await;
    assert_eq!(refused.error(), (400, "INVALID_REQUEST"));
}

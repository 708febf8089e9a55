//! A key whose scope filter is a path: an agent cannot evade its own limit under another path.

use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{ask_body, event_body, with};

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

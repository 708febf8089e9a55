//! `GET /v1/usage-events`, and one of them: rows, filters, pages, fences; and the API key of every charge.

use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::{tokens, with};

const LIST: &str = "/v1/usage-events";
const CHAT: &str = "tenant:acme/app:chat";

/// A tenant with four usage events: their keys are in the order of their times.
async fn charged(app: &TestApp) -> Vec<String> {
    app.budget("tenant:acme", 1_000, 0).await;
    let mut ids = Vec::new();
    for (key, scope, amount, action) in [
        (
            "a",
            CHAT,
            10,
            json!({"kind": "llm.completion", "name": "large"}),
        ),
        (
            "b",
            "tenant:acme/app:chat/agent:Bot",
            20,
            json!({"kind": "llm.completion", "name": "small"}),
        ),
        (
            "c",
            "tenant:acme",
            30,
            json!({"kind": "tool.search", "name": "large"}),
        ),
        (
            "d",
            "tenant:acme/agent:bot",
            2_000,
            json!({"kind": "tool.search", "name": "web"}),
        ),
    ] {
        let more = json!({"action": action, "metadata": {"note": key}, "client_time_ms": 5, "metrics": {"tokens_input": 7}});
        let posted = app.post_event(key, scope, amount, more).await.expect(201);
        ids.push(posted.text("/event_id").to_owned());
        // The next one has another time.
        app.until_ms(app.now_ms().await + 2).await;
    }
    ids
}

async fn list(app: &TestApp, query: &str) -> Response {
    app.get(&format!("{LIST}?{query}")).await.expect(200)
}

/// The keys of the rows.
fn keys(page: &Response) -> String {
    let rows = page.at("/usage_events").as_array().expect("rows");
    let keys = rows
        .iter()
        .map(|row| row["idempotency_key"].as_str().expect("a key"));
    keys.collect()
}

#[tokio::test]
async fn a_usage_event_is_read_in_full_and_as_a_row() {
    for app in TestApp::spawn_both().await {
        let ids = charged(&app).await;
        let refund = json!({"idempotency_key": "r", "amount": tokens(50), "reason": "wrong"});
        let path = format!("{LIST}/{}", ids[3]);
        app.post(&format!("{path}/refund"), refund)
            .await
            .expect(200);
        let key_id = app.callers[0].key_id.as_str();
        let found = app.get(&path).await.expect(200);
        for (member, value) in [
            ("/event_id", json!(ids[3])),
            ("/idempotency_key", json!("d")),
            ("/actual", tokens(2_000)),
            ("/charged", tokens(940)),
            ("/refunded", tokens(50)),
            ("/overage_policy", json!("ALLOW_IF_AVAILABLE")),
            ("/scope_path", json!("tenant:acme/agent:bot")),
            (
                "/affected_scopes",
                json!(["tenant:acme", "tenant:acme/agent:bot"]),
            ),
            ("/subject", json!({"tenant": "acme", "agent": "bot"})),
            ("/action", json!({"kind": "tool.search", "name": "web"})),
            ("/key_id", json!(key_id)),
            ("/client_time_ms", json!(5)),
            ("/metrics", json!({"tokens_input": 7})),
            ("/metadata", json!({"note": "d"})),
        ] {
            assert_eq!(found.at(member), &value, "{member}");
        }
        let row = list(&app, "action_name=web")
            .await
            .at("/usage_events/0")
            .clone();
        let mut expected = found.body.clone();
        for member in ["client_time_ms", "metrics", "metadata"] {
            expected.as_object_mut().expect("an object").remove(member);
        }
        assert_eq!(row, expected);
        // The same of an operator.
        assert_eq!(app.get_as_admin(&path).await.expect(200).body, found.body);
        let sent = app.get(&format!("{LIST}/{}", ids[1])).await.expect(200);
        assert_eq!(sent.at("/subject/agent"), "Bot", "as it was sent");
    }
}

#[tokio::test]
async fn filters_select_by_subject_time_and_action() {
    let app = TestApp::spawn().await;
    let ids = charged(&app).await;
    let third = app.get(&format!("{LIST}/{}", ids[2])).await.expect(200);
    let at = third.at("/created_at_ms").as_i64().expect("a time");
    let moment = |ms| budget_authority::domain::moment::Moment::from_ms(ms).expect("a time");
    for (query, expected) in [
        (String::new(), "dcba"),
        ("sort_by=created_at_ms&sort_dir=asc".to_owned(), "abcd"),
        ("tenant=acme&app=chat".to_owned(), "ba"),
        ("agent=bot".to_owned(), "db"),
        ("app=chat&agent=BOT".to_owned(), "b"),
        ("action_kind=tool.search".to_owned(), "dc"),
        ("action_kind=tool.search&action_name=large".to_owned(), "c"),
        ("action_name=larg".to_owned(), ""),
        (format!("from={}", moment(at)), "dc"),
        (format!("to={}", moment(at)), "cba"),
        (format!("to={}", moment(at - 1)), "ba"),
        (
            "from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z".to_owned(),
            "",
        ),
    ] {
        assert_eq!(keys(&list(&app, &query).await), expected, "{query}");
    }
    let of_operator = app.get_as_admin(&format!("{LIST}?tenant=acme")).await;
    assert_eq!(keys(&of_operator.expect(200)), "dcba");
    let other = app.get_as(1, LIST).await.expect(200);
    assert_eq!(keys(&other), "");
    for (query, status, code) in [
        ("tenant=bolt", 403, "FORBIDDEN"),
        ("sort_by=charged", 400, "INVALID_REQUEST"),
        ("from=x", 400, "INVALID_REQUEST"),
        ("limit=201", 400, "INVALID_REQUEST"),
        ("cursor=x", 400, "INVALID_REQUEST"),
    ] {
        app.get(&format!("{LIST}?{query}"))
            .await
            .refused(status, code);
    }
    app.get_as_admin(LIST).await.refused(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn pages_follow_each_other_in_both_directions() {
    let app = TestApp::spawn().await;
    charged(&app).await;
    for (direction, expected) in [("asc", "abcd"), ("desc", "dcba")] {
        let (mut found, mut cursor) = (String::new(), String::new());
        loop {
            let page = list(
                &app,
                &format!("limit=1&sort_dir={direction}&cursor={cursor}"),
            )
            .await;
            found += &keys(&page);
            match page.at("/next_cursor").as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn a_fenced_key_reads_what_its_scopes_were_charged_and_others_read_nothing() {
    let app = TestApp::spawn().await;
    let ids = charged(&app).await;
    let fenced = json!({"tenant_id": "acme", "name": "chat", "scope_filter": [CHAT]});
    let fenced = app.post_as_admin("/v1/admin/api-keys", fenced).await;
    let fenced = fenced.expect(201).text("/key_secret").to_owned();
    let blind =
        json!({"tenant_id": "acme", "name": "blind", "permissions": ["reservations:create"]});
    let blind = app.post_as_admin("/v1/admin/api-keys", blind).await;
    let blind = blind.expect(201).text("/key_secret").to_owned();
    assert_eq!(keys(&app.get_with(&fenced, LIST).await.expect(200)), "ba");
    let one = |place: usize| format!("{LIST}/{}", ids[place]);
    app.get_with(&fenced, &one(1)).await.expect(200);
    app.get_with(&fenced, &one(3))
        .await
        .refused(403, "FORBIDDEN");
    for path in [LIST.to_owned(), one(1)] {
        app.get_with(&blind, &path).await.refused(403, "FORBIDDEN");
        app.get_with("nobody", &path)
            .await
            .refused(401, "UNAUTHORIZED");
    }
    let foreign = app.get_as(1, &one(0)).await.refused(403, "FORBIDDEN");
    let belongs = "What this id names belongs to another tenant";
    assert_eq!(foreign.text("/message"), belongs);
    let last = if ids[0].ends_with('x') { "y" } else { "x" };
    let unknown = format!("{LIST}/{}{last}", &ids[0][..ids[0].len() - 1]);
    for path in [unknown, format!("{LIST}/r1")] {
        app.get(&path).await.refused(404, "NOT_FOUND");
        app.get_as_admin(&path).await.refused(404, "NOT_FOUND");
        app.get_with(&blind, &path).await.refused(403, "FORBIDDEN");
        app.get_with("nobody", &path)
            .await
            .refused(401, "UNAUTHORIZED");
    }
    let long = format!("{LIST}/{}{}", ids[0], "x".repeat(128));
    app.get(&long).await.refused(400, "INVALID_REQUEST");
    // The id of a reservation is none of a usage event.
    app.set_ledger("tenant:acme", &[("is_over_limit", "0"), ("remaining", "9")])
        .await;
    let held = app.held("tenant:acme", 1, json!({})).await;
    app.get(&format!("{LIST}/{held}"))
        .await
        .refused(404, "NOT_FOUND");
    app.get(&format!("/v1/reservations/{}", ids[0]))
        .await
        .refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn rows_show_the_key_that_created_them_and_in_the_other_dialect_on_request() {
    for (dialect, app) in TestApp::spawn_both().await.into_iter().enumerate() {
        app.budget("tenant:acme", 100, 0).await;
        let id = app.held("tenant:acme", 1, json!({})).await;
        let key_id = json!(app.callers[0].key_id.as_str());
        let visible = if dialect == 0 {
            key_id.clone()
        } else {
            Value::Null
        };
        assert_eq!(app.found(&id).await.at("/key_id"), &visible);
        for (query, expected) in [
            ("", &visible),
            ("include=key_id", &key_id),
            ("include=metadata,key_id", &key_id),
        ] {
            for by_key in ["", "&idempotency_key=tenant:acme"] {
                let page = app
                    .get(&format!("/v1/reservations?{query}{by_key}"))
                    .await
                    .expect(200);
                let rows = page.at("/reservations").as_array().expect("rows");
                assert_eq!(rows.len(), 1);
                assert_eq!(&rows[0]["key_id"], expected, "{query}");
            }
        }
        // One that was made by an older build.
        let record = app.store.keys().reservation(app.callers[0].partition, &id);
        app.run::<i64>(&["HDEL", &record, "key_id"]).await;
        assert_eq!(app.found(&id).await.at("/key_id"), &Value::Null);
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_left_out() {
    let app = TestApp::spawn().await;
    let ids = charged(&app).await;
    let keys_of = app.store.keys();
    let record = |place: usize| keys_of.usage_event(app.callers[0].partition, &ids[place]);
    app.run::<i64>(&["HSET", &record(0), "charged", "much"])
        .await;
    app.run::<i64>(&["DEL", &record(1)]).await;
    app.run::<i64>(&["DEL", &record(2)]).await;
    app.run::<()>(&["SET", &record(2), "x"]).await;
    assert_eq!(keys(&list(&app, "").await), "d");
    let more = with(json!({}), json!({"action": {"kind": "k", "name": "n"}}));
    app.post_event("e", CHAT, 0, more).await.expect(201);
    assert_eq!(keys(&list(&app, "").await), "ed");
}

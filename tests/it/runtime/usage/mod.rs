//! Usage by day: what the scripts count, and the reports of it.

mod csv;
mod many;
mod months;
mod verified;

use budget_authority::tools::verify::verify;
use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::tokens;

const CHAT: &str = "tenant:acme/app:chat";

/// The members of a row in their order; amounts without their unit.
const MEMBERS: [&str; 17] = [
    "day",
    "month",
    "tenant",
    "workspace",
    "app",
    "workflow",
    "agent",
    "toolset",
    "scope",
    "action_kind",
    "action_name",
    "key_id",
    "other",
    "charged",
    "refunded",
    "count",
    "saturated",
];

/// What each row shows.
pub(super) fn rows(report: &Response) -> Vec<String> {
    let rows = report.at("/usage").as_array().expect("rows");
    let word = |row: &Value, name: &str| match row.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) => Some(name.to_owned()),
        Value::Number(number) => Some(number.to_string()),
        amount => Some(amount["amount"].to_string()),
    };
    let line = |row: &Value| {
        let words: Vec<_> = MEMBERS.iter().filter_map(|name| word(row, name)).collect();
        words.join(" ")
    };
    rows.iter().map(line).collect()
}

pub(super) async fn report(app: &TestApp, query: &str) -> Response {
    app.get(&format!("/v1/usage?{query}")).await.expect(200)
}

/// Charges of three kinds, in two units, and two refunds.
async fn charged(app: &TestApp) {
    app.budget("tenant:acme", 10_000, 0).await;
    let large = json!({"action": {"kind": "llm.completion", "name": "large"}});
    let small = json!({"action": {"kind": "llm.completion", "name": "small model"}});
    let web = json!({"action": {"kind": "tool search", "name": "web"}});
    let mut ids = Vec::new();
    for (key, scope, amount, more) in [
        ("a", CHAT, 10, &large),
        ("b", "tenant:acme/app:chat/agent:Bot", 20, &large),
        ("c", "tenant:acme/agent:bot", 30, &small),
        ("d", "tenant:acme", 500, &web),
    ] {
        let posted = app.post_event(key, scope, amount, more.clone()).await;
        ids.push(posted.expect(201).text("/event_id").to_owned());
        // A replay is not counted.
        app.post_event(key, scope, amount, more.clone())
            .await
            .expect(201);
    }
    let held = app.held(CHAT, 100, large).await;
    app.commit(&held, "e", 70).await.expect(200);
    app.commit(&held, "e", 70).await.expect(200);
    let refund = json!({"idempotency_key": "r", "amount": tokens(15), "reason": "wrong"});
    for path in [
        format!("usage-events/{}", ids[1]),
        format!("reservations/{held}"),
    ] {
        let path = format!("/v1/{path}/refund");
        app.post(&path, refund.clone()).await.expect(200);
        app.post(&path, refund.clone()).await.expect(200);
    }
}

#[tokio::test]
async fn usage_is_what_was_charged_and_refunded_by_every_group() {
    for app in TestApp::spawn_both().await {
        charged(&app).await;
        let today = app.store.today();
        let (day, month) = (today.date(), today.date()[..7].to_owned());
        let key = app.callers[0].key_id.to_string();
        for (query, expected) in [
            ("", vec!["630 30 5".to_owned()]),
            ("group_by=day", vec![format!("{day} 630 30 5")]),
            (
                "group_by=month,tenant",
                vec![format!("{month} acme 630 30 5")],
            ),
            ("group_by=key_id", vec![format!("{key} 630 30 5")]),
            (
                "group_by=app",
                vec!["530 0 2".to_owned(), "chat 100 30 3".to_owned()],
            ),
            (
                "group_by=agent, app",
                vec![
                    "500 0 1".to_owned(),
                    "chat 80 15 2".to_owned(),
                    "bot 30 0 1".to_owned(),
                    "chat bot 20 15 1".to_owned(),
                ],
            ),
            (
                "group_by=scope",
                vec![
                    "tenant:acme 500 0 1".to_owned(),
                    format!("{CHAT} 80 15 2"),
                    "tenant:acme/agent:bot 30 0 1".to_owned(),
                    format!("{CHAT}/agent:bot 20 15 1"),
                ],
            ),
            (
                "group_by=action_kind,action_name",
                vec![
                    "tool search web 500 0 1".to_owned(),
                    "llm.completion large 100 30 3".to_owned(),
                    "llm.completion small model 30 0 1".to_owned(),
                ],
            ),
            ("agent=BOT", vec!["50 15 2".to_owned()]),
            ("app=chat&agent=bot", vec!["20 15 1".to_owned()]),
            ("action_kind=tool%20search", vec!["500 0 1".to_owned()]),
            ("action_name=small%20model", vec!["30 0 1".to_owned()]),
            ("unit=TOKENS&tenant=acme", vec!["630 30 5".to_owned()]),
            ("unit=CREDITS", vec![]),
            ("key_id=key_000_none", vec![]),
            ("from=2020-01-01&to=2020-02-01", vec![]),
        ] {
            let found = report(&app, query).await;
            assert_eq!(rows(&found), expected, "{query}");
            assert_eq!(
                (found.at("/complete"), found.at("/complete_from")),
                (&json!(true), &json!(day))
            );
        }
        let of_operator = app
            .get_as_admin("/v1/admin/usage?tenant_id=acme")
            .await
            .expect(200);
        assert_eq!(of_operator.body, report(&app, "").await.body);
        let row = report(&app, "group_by=app&app=chat")
            .await
            .at("/usage/0")
            .clone();
        assert_eq!(
            row,
            json!({"app": "chat", "charged": tokens(100), "refunded": tokens(30), "count": 3})
        );
        assert_eq!(rows(&app.get_as(1, "/v1/usage").await.expect(200)), [""; 0]);
        let verified = verify(&app.store, None, |_| {})
            .await
            .expect("Redis answers");
        assert!(verified.is_right(), "{}", verified.table(true));
    }
}

#[tokio::test]
async fn pages_go_through_all_groups() {
    let app = TestApp::spawn().await;
    charged(&app).await;
    let whole = rows(&report(&app, "group_by=scope").await);
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = report(&app, &format!("group_by=scope&limit=1&cursor={cursor}")).await;
        found.extend(rows(&page));
        let Some(next) = page.at("/next_cursor").as_str() else {
            assert_eq!(page.at("/has_more"), &json!(false));
            break;
        };
        cursor = next.to_owned();
    }
    assert_eq!(found, whole);
    let other = app
        .get(&format!("/v1/usage?group_by=app&cursor={cursor}"))
        .await;
    other.refused(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn a_fenced_key_sees_its_own_part() {
    let app = TestApp::spawn().await;
    charged(&app).await;
    let fenced = json!({"tenant_id": "acme", "name": "chat", "scope_filter": [CHAT, "app:mail"]});
    let fenced = app
        .post_as_admin("/v1/admin/api-keys", fenced)
        .await
        .expect(201);
    let fenced = fenced.text("/key_secret");
    let found = app
        .get_with(fenced, "/v1/usage?group_by=app")
        .await
        .expect(200);
    assert_eq!(rows(&found), ["chat 100 30 3"]);
    for (query, status) in [
        ("app=chat", 200),
        ("app=mail", 200),
        ("app=other", 403),
        ("agent=bot", 200),
        ("tenant=bolt", 403),
    ] {
        let found = app.get_with(fenced, &format!("/v1/usage?{query}")).await;
        assert_eq!(found.status, status, "{query}");
    }
    let blind = json!({"tenant_id": "acme", "name": "blind", "permissions": ["reservations:list"]});
    let blind = app
        .post_as_admin("/v1/admin/api-keys", blind)
        .await
        .expect(201);
    let refused = app
        .get_with(blind.text("/key_secret"), "/v1/usage?cursor=x")
        .await;
    refused.refused(403, "FORBIDDEN");
}

#[tokio::test]
async fn what_cannot_be_reported_is_refused() {
    let app = TestApp::spawn().await;
    for (query, named) in [
        ("from=2026-07-04T00:00:00Z", "from"),
        ("to=2026-02-30", "to"),
        ("from=2026-07-04&to=2026-07-03", "from"),
        ("group_by=app,app", "group_by"),
        ("group_by=color", "group_by"),
        ("group_by=app,", "group_by"),
        ("unit=EUR", "unit"),
        ("limit=1001", "limit"),
        ("format=xml", "format"),
        ("app=a&app=b", "app"),
    ] {
        let refused = app.get(&format!("/v1/usage?{query}")).await;
        assert!(
            refused
                .text("/message")
                .contains(&format!("Invalid {named}:")),
            "{query}: {refused:?}"
        );
        refused.refused(400, "INVALID_REQUEST");
    }
    for (query, text) in [("", "tenant_id"), ("?tenant_id=a%20b", "tenant_id")] {
        let refused = app.get_as_admin(&format!("/v1/admin/usage{query}")).await;
        assert!(refused.text("/message").contains(text), "{refused:?}");
        refused.refused(400, "INVALID_REQUEST");
    }
    let unknown = app
        .get_as_admin("/v1/admin/usage?tenant_id=nobody")
        .await
        .expect(200);
    assert_eq!(rows(&unknown), [""; 0]);
}

#[tokio::test]
async fn totals_beyond_64_bits_stay_at_the_largest_and_say_so() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", i64::MAX, 0).await;
    app.post_event("a", "tenant:acme", i64::MAX, json!({}))
        .await
        .expect(201);
    assert_eq!(rows(&report(&app, "").await), [format!("{} 0 1", i64::MAX)]);
    let credit =
        json!({"operation": "RESET_SPENT", "amount": tokens(i64::MAX), "spent": tokens(0)});
    let path = "/v1/admin/budgets/fund?tenant_id=acme&scope=tenant:acme&unit=TOKENS";
    app.post_as_admin(path, credit).await.expect(200);
    app.post_event("b", "tenant:acme", 5, json!({}))
        .await
        .expect(201);
    let found = report(&app, "").await;
    assert_eq!(rows(&found), [format!("{} 0 2 saturated", i64::MAX)]);
    app.post_event("c", "tenant:acme", 5, json!({}))
        .await
        .expect(201);
    assert_eq!(
        rows(&report(&app, "").await),
        [format!("{} 0 3 saturated", i64::MAX)]
    );
    let verified = verify(&app.store, None, |_| {})
        .await
        .expect("Redis answers");
    assert!(verified.is_right(), "{}", verified.table(true));
}

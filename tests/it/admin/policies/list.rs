//! Listing policies: owner, filters, order and pages.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::admin_calls::POLICIES;
use crate::harness::app::TestApp;
use crate::harness::redis::RedisServer;
use crate::harness::response::Response;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

async fn list(app: &TestApp, key: Option<&str>, query: &str) -> Response {
    let path = format!("{POLICIES}?{query}");
    app.by_either(key, Method::GET, &path, &Value::Null).await
}

fn names(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 200, "{response:?}");
    let rows = response.at("/policies").as_array().expect("rows").iter();
    rows.map(|row| row["name"].as_str().expect("a name").to_owned())
        .collect()
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[tokio::test]
async fn policies_are_listed_by_id_with_filters_and_cursors() {
    let app = TestApp::spawn().await;
    for number in 0..7 {
        let pattern = if number % 2 == 0 {
            "tenant:acme/agent:*"
        } else {
            "tenant:acme"
        };
        let id = app.policy(&format!("p{number}"), pattern, json!({})).await;
        if number > 4 {
            app.amend(&id, json!({"status": "DISABLED"})).await;
        }
    }
    let all = list(&app, None, "tenant_id=acme").await;
    assert_eq!(all.at("/has_more"), &json!(false));
    let ids: Vec<&str> = all
        .at("/policies")
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["policy_id"].as_str().expect("an id"))
        .collect();
    assert!(ids.is_sorted() && ids.len() == 7, "{ids:?}");

    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = list(&app, None, &format!("tenant_id=acme&limit=3{cursor}")).await;
        found.extend(names(&page));
        let Some(next) = page.at("/next_cursor").as_str() else {
            break;
        };
        assert_eq!(page.at("/policies").as_array().map(Vec::len), Some(3));
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found, names(&all));

    assert_eq!(
        sorted(names(
            &list(&app, None, "tenant_id=acme&status=DISABLED").await
        )),
        ["p5", "p6"]
    );
    let filtered = list(
        &app,
        None,
        "tenant_id=acme&scope_pattern=TENANT:acme%2Fagent:*&status=ACTIVE",
    )
    .await;
    assert_eq!(sorted(names(&filtered)), ["p0", "p2", "p4"]);
    assert!(
        names(&list(&app, None, "tenant_id=acme&scope_pattern=tenant:acme/*").await).is_empty()
    );
    assert!(names(&list(&app, None, "tenant_id=nobody").await).is_empty());
    assert!(names(&list(&app, None, "tenant_id=NO+BODY").await).is_empty());
    let ignored = list(
        &app,
        None,
        "tenant_id=acme&has_action_quotas=x&references_action_kind=y&z=1&limit=2000",
    )
    .await;
    assert_eq!(names(&ignored).len(), 7);

    let invalid = (400, "INVALID_REQUEST");
    for query in [
        "",
        "tenant_id=acme&status=active",
        "tenant_id=acme&limit=x",
        "tenant_id=acme&cursor=x",
    ] {
        assert_eq!(list(&app, None, query).await.error(), invalid, "{query}");
    }
    assert_eq!(
        list(&app, None, &format!("tenant_id=acme&status=ACTIVE{cursor}"))
            .await
            .error(),
        invalid
    );
    assert_eq!(
        list(&app, None, &format!("tenant_id=bolt{cursor}"))
            .await
            .error(),
        invalid
    );
}

#[tokio::test]
async fn a_key_sees_the_policies_of_its_tenant_and_its_scopes() {
    let app = TestApp::spawn().await;
    for (name, pattern) in [
        ("root", "tenant:acme"),
        ("x", "tenant:acme/agent:x"),
        ("all", "tenant:acme/agent:*"),
    ] {
        app.policy(name, pattern, json!({})).await;
    }
    let key = async |permissions: &str, filter: &str| {
        app.add_key(0, &[("permissions", permissions), ("scope_filter", filter)])
            .await
    };
    let reader = key(" policies:read ", "").await;
    assert_eq!(names(&list(&app, Some(&reader), "").await).len(), 3);
    assert_eq!(
        names(&list(&app, Some(&reader), "tenant_id=bolt").await).len(),
        3,
        "the key names its tenant"
    );
    assert!(names(&list(&app, Some(&app.keys[1]), "tenant_id=acme").await).is_empty());
    for filter in ["agent:x", "tenant:acme/agent:x"] {
        let restricted = key(" admin:read ", filter).await;
        assert_eq!(names(&list(&app, Some(&restricted), "").await), ["x"]);
    }
    let level = key(" policies:read ", "agent:*").await;
    assert_eq!(
        sorted(names(&list(&app, Some(&level), "").await)),
        ["all", "x"]
    );
    list(&app, Some(&level), "scope_pattern=tenant:acme")
        .await
        .refused(403, "FORBIDDEN");
    let writer = key(" policies:write ", "").await;
    list(&app, Some(&writer), "status=x")
        .await
        .refused(403, "INSUFFICIENT_PERMISSIONS");
    list(&app, Some("sk_live_nonsense"), "")
        .await
        .refused(401, "UNAUTHORIZED");
    for status in ["SUSPENDED", "CLOSED"] {
        app.set_tenant(&[("status", status)]).await;
        assert_eq!(
            names(&list(&app, Some(&reader), "").await).len(),
            3,
            "{status}"
        );
        assert_eq!(
            names(&list(&app, None, "tenant_id=acme").await).len(),
            3,
            "{status}"
        );
    }
}

/// How many scripts Redis has run.
fn scripts(redis: &RedisServer) -> u64 {
    let stats: String = redis.run(&["INFO", "commandstats"]);
    let line = stats
        .lines()
        .find(|line| line.starts_with("cmdstat_evalsha:"));
    let count = line.and_then(|line| line.split(['=', ',']).nth(1));
    count.expect("a count").parse().expect("a number")
}

#[tokio::test]
async fn long_policies_shorten_pages_and_script_replies() {
    const POLICIES: usize = 40;
    let redis = RedisServer::start();
    let settings = [&["--caps-bytes", "65536"][..], LONG_REDIS_TIMEOUT].concat();
    let app = TestApp::spawn_on(&redis.url(), &settings).await;
    app.budget("tenant:acme", 1_000, 0).await;
    let tools: Vec<_> = (0..200).map(|number| format!("{number:0>250}")).collect();
    for number in 0..POLICIES {
        let caps = json!({"tool_allowlist": tools, "cooldown_ms": number});
        let more = json!({"caps": caps, "priority": number});
        app.policy(&format!("p{number}"), "tenant:acme", more).await;
    }

    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let before = scripts(&redis);
        let page = list(&app, None, &format!("tenant_id=acme&limit=100{cursor}")).await;
        let (read, rows) = (scripts(&redis) - before, names(&page));
        // Five policies of 50 KiB fit into what one script reads.
        assert!(read * 5 >= rows.len() as u64, "{read} for {}", rows.len());
        assert!(page.body.to_string().len() < 1_400_000, "{}", rows.len());
        seen.extend(rows);
        let Some(next) = page.at("/next_cursor").as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen.len(), POLICIES);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), POLICIES, "each once");

    let before = scripts(&redis);
    let decision = app.decide("d", "tenant:acme", 1).await;
    assert_eq!(decision.at("/caps/cooldown_ms"), &json!(POLICIES - 1));
    assert!(scripts(&redis) - before >= 8 + 2);
}

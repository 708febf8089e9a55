//! Lists of API keys: of one tenant and of all, in every order, with the status that the clock has.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{KEYS, TENANTS};
use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::redis::shared;
use crate::harness::response::Response;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

fn texts(response: &Response, member: &str) -> Vec<String> {
    let rows = response.at("/keys").as_array();
    let rows = rows.unwrap_or_else(|| panic!("no keys in {response:?}"));
    let text = |row: &Value| row[member].as_str().expect("a text").to_owned();
    rows.iter().map(text).collect()
}

/// All pages of a list, as the values of one member.
async fn walked(app: &TestApp, query: &str, limit: usize, member: &str) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    for _ in 0..100 {
        let page = app
            .get_as_admin(&format!("{KEYS}?{query}&limit={limit}{cursor}"))
            .await
            .expect(200);
        found.extend(texts(&page, member));
        let next = page.at("/next_cursor").as_str();
        assert_eq!(page.at("/has_more"), &json!(next.is_some()));
        match next {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
    panic!("the list has no end");
}

async fn tenant(app: &TestApp, id: &str) {
    app.post_as_admin(TENANTS, json!({"tenant_id": id, "name": id}))
        .await
        .expect(201);
}

/// A key of this name; its id.
async fn key(app: &TestApp, tenant: &str, name: &str) -> String {
    let body = json!({"tenant_id": tenant, "name": name, "permissions": ["budgets:read"]});
    let response = app.post_as_admin(KEYS, body).await.expect(201);
    response.text("/key_id").to_owned()
}

async fn revoke(app: &TestApp, id: &str) {
    let request = app.request(Method::DELETE, &format!("{KEYS}/{id}"));
    let request = request.header("X-Admin-API-Key", ADMIN_KEY);
    app.send(request).await.expect(200);
}

/// Three tenants with keys that are made in turns: `a-0 b-0 c-0 a-1 …`, in this order.
async fn with_keys(app: &TestApp) -> Vec<(String, String)> {
    for id in ["aaa", "bbb", "ccc"] {
        tenant(app, id).await;
    }
    let mut keys = Vec::new();
    for round in 0..4 {
        for id in ["aaa", "bbb", "ccc"] {
            // With a character that no id has: a search looks at ids as well.
            let name = format!("{}-{round}", &id[..1]);
            keys.push((name.clone(), key(app, id, &name).await));
            // Keys of one millisecond are in the order of their ids.
            let made_ms = app.now_ms().await;
            while app.now_ms().await == made_ms {}
        }
    }
    keys
}

#[tokio::test]
async fn keys_of_all_tenants_are_listed_in_order_of_creation_on_pages_of_any_size() {
    let app = TestApp::spawn().await;
    let made: Vec<String> = with_keys(&app)
        .await
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let newest: Vec<String> = made.iter().rev().cloned().collect();
    for limit in [1, 5, 12, 100] {
        assert_eq!(walked(&app, "", limit, "name").await, newest, "{limit}");
        let oldest = walked(&app, "sort_by=created_at&sort_dir=asc", limit, "name").await;
        assert_eq!(oldest, made, "{limit}");
    }
    let times = walked(&app, "sort_dir=ASC", 7, "created_at").await;
    assert!(times.is_sorted(), "{times:?}");
    let own = walked(&app, "tenant_id=bbb", 3, "name").await;
    assert_eq!(own, ["b-3", "b-2", "b-1", "b-0"]);
    let response = app.get_as_admin(&format!("{KEYS}?limit=1")).await;
    let row = &response.at("/keys/0");
    for member in ["key_secret", "hash"] {
        assert!(row.get(member).is_none(), "{row}");
    }
    assert!(
        row["key_prefix"]
            .as_str()
            .expect("a text")
            .starts_with("sk_live_")
    );
    assert_eq!(row["permissions"], json!(["budgets:read"]));
}

#[tokio::test]
async fn every_sort_orders_its_pages_with_ties_by_id() {
    let app = TestApp::spawn().await;
    let made = with_keys(&app).await;
    revoke(&app, &made[4].1).await;
    app.set_key_of("ccc", &made[5].1, &["expires_at_ms", "1"])
        .await;
    let mut ids: Vec<String> = made.iter().map(|(_, id)| id.clone()).collect();
    ids.sort();
    for sort in [
        "key_id",
        "name",
        "tenant_id",
        "status",
        "created_at",
        "expires_at",
    ] {
        for limit in [1, 5, 50] {
            let values = walked(&app, &format!("sort_by={sort}&sort_dir=asc"), limit, sort).await;
            assert!(
                values.is_sorted() && values.len() == 12,
                "{sort}: {values:?}"
            );
            let up = walked(
                &app,
                &format!("sort_by={sort}&sort_dir=asc"),
                limit,
                "key_id",
            )
            .await;
            let mut down = walked(&app, &format!("sort_by={sort}"), limit, "key_id").await;
            down.reverse();
            assert_eq!(up, down, "{sort}");
            let mut all = up.clone();
            all.sort();
            assert_eq!(all, ids, "{sort}: each once");
        }
    }
    let statuses = walked(&app, "sort_by=status&sort_dir=asc", 4, "status").await;
    assert_eq!(statuses[..10], ["ACTIVE"; 10]);
    assert_eq!(statuses[10..], ["EXPIRED", "REVOKED"]);
}

#[tokio::test]
async fn the_clock_decides_the_status_in_list_filter_and_sort() {
    let app = TestApp::spawn().await;
    let made = with_keys(&app).await;
    app.set_key_of("aaa", &made[0].1, &["expires_at_ms", "1"])
        .await;
    app.set_key_of("bbb", &made[1].1, &["expires_at_ms", "1"])
        .await;
    revoke(&app, &made[1].1).await;
    let of = async |status: &str| walked(&app, &format!("status={status}"), 5, "name").await;
    assert_eq!(of("EXPIRED").await, ["a-0"]);
    assert_eq!(of("REVOKED").await, ["b-0"], "that is for good");
    assert_eq!(of("ACTIVE").await.len(), 10);
    let response = app
        .get_as_admin(&format!("{KEYS}?tenant_id=aaa&search=A-0"))
        .await;
    assert_eq!(texts(&response, "status"), ["EXPIRED"]);
    let filtered = walked(&app, "status=EXPIRED&sort_by=name", 5, "name").await;
    assert_eq!(filtered, ["a-0"]);
    // The store's clock alone decides: the record says ACTIVE.
    let keys = app.store.keys();
    let record = keys.api_key(tenant_id("aaa").partition(), &made[0].1);
    let status: String = app.run(&["HGET", &record, "status"]).await;
    assert_eq!(status, "ACTIVE");
}

#[tokio::test]
async fn filters_narrow_and_unknown_values_give_an_empty_page() {
    let app = TestApp::spawn().await;
    let made = with_keys(&app).await;
    for (query, expected) in [
        ("search=B-2", &["b-2"][..]),
        (
            "search=%20b-%20&tenant_id=bbb",
            &["b-3", "b-2", "b-1", "b-0"],
        ),
        ("tenant_id=aaa&search=b-2", &[]),
        ("tenant_id=nobody", &[]),
        ("tenant_id=NO+BODY", &[]),
        ("tenant_id=NO+BODY&sort_by=name", &[]),
        ("tenant_id=&search=c-3", &["c-3"]),
    ] {
        assert_eq!(walked(&app, query, 50, "name").await, expected, "{query}");
    }
    let by_id = format!("search={}", made[6].1.to_uppercase());
    assert_eq!(walked(&app, &by_id, 50, "name").await, ["a-2"]);
    let empty = app.get_as_admin(&format!("{KEYS}?tenant_id=nobody")).await;
    assert_eq!(empty.body, json!({"keys": [], "has_more": false}));
    let blanks = format!("search={}&unknown=x", "%20".repeat(128));
    assert_eq!(walked(&app, &blanks, 50, "name").await.len(), 12);
}

#[tokio::test]
async fn a_wrong_parameter_or_cursor_is_refused() {
    let app = TestApp::spawn().await;
    with_keys(&app).await;
    let first = app
        .get_as_admin(&format!("{KEYS}?limit=2&status=ACTIVE"))
        .await;
    let cursor = first.text("/next_cursor");
    let long = format!("search={}", "s".repeat(129));
    for query in [
        "status=active",
        "sort_by=prefix",
        "sort_dir=up",
        "limit=x",
        "cursor=x",
        &long,
        &format!("cursor={cursor}"),
        &format!("cursor={cursor}&status=REVOKED"),
        &format!("cursor={cursor}&status=ACTIVE&tenant_id=aaa"),
        &format!("cursor={cursor}&status=ACTIVE&sort_by=name"),
        &format!("cursor={cursor}&status=ACTIVE&sort_dir=asc"),
    ] {
        let response = app.get_as_admin(&format!("{KEYS}?{query}")).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{query}");
    }
    let on = app
        .get_as_admin(&format!("{KEYS}?limit=2&status=ACTIVE&cursor={cursor}"))
        .await;
    assert_eq!(texts(&on, "name"), ["a-3", "c-2"]);
}

#[tokio::test]
async fn an_entry_without_a_record_and_a_damaged_record_hide_no_other_key() {
    let app = TestApp::spawn().await;
    let made = with_keys(&app).await;
    let (keys, partition) = (app.store.keys(), tenant_id("aaa").partition());
    let directory = keys.api_key_directory();
    let nobody = format!("key_{partition}_zzzzzzzzzzzz");
    for (score, entry) in [("99999999999999", nobody.as_str()), ("1", "nonsense")] {
        app.run::<()>(&["ZADD", &directory, score, entry]).await;
    }
    let damaged = keys.api_key(partition, &made[0].1);
    app.run::<()>(&["HDEL", &damaged, "tenant"]).await;
    let other_type = keys.api_key(partition, &made[3].1);
    app.run::<()>(&["DEL", &other_type]).await;
    app.run::<()>(&["SET", &other_type, "x"]).await;
    for query in ["", "sort_by=name", "status=ACTIVE"] {
        let found = walked(&app, query, 3, "name").await;
        assert_eq!(found.len(), 10, "{query}: {found:?}");
    }
}

#[tokio::test]
async fn keys_of_one_millisecond_are_all_listed_once() {
    let app = TestApp::spawn().await;
    tenant(&app, "aaa").await;
    let id = key(&app, "aaa", "one").await;
    let (keys, partition) = (app.store.keys(), tenant_id("aaa").partition());
    let (directory, record) = (keys.api_key_directory(), keys.api_key(partition, &id));
    let fields: Vec<String> = shared().run(&["HGETALL", &record]);
    let at: String = app.run(&["HGET", &record, "created_at_ms"]).await;
    for copy in 0..40 {
        let id = format!("key_{partition}_{copy:012}");
        let record = keys.api_key(partition, &id);
        let mut words = vec!["HSET", &record];
        words.extend(fields.iter().map(String::as_str));
        app.run::<()>(&words).await;
        app.run::<()>(&["ZADD", &directory, &at, &id]).await;
    }
    for query in ["sort_dir=asc", "", "search=one"] {
        for limit in [1, 3, 20] {
            let mut found = walked(&app, query, limit, "key_id").await;
            assert_eq!(found.len(), 41, "{query}");
            found.sort();
            found.dedup();
            assert_eq!(found.len(), 41, "{query}");
        }
    }
}

#[tokio::test]
async fn a_refused_or_repeated_create_leaves_nothing_in_the_directory() {
    let app = TestApp::spawn().await;
    tenant(&app, "aaa").await;
    let create = async |tenant: &str, attempt: Option<&str>| {
        let request = app.request(Method::POST, KEYS);
        let request = request.header("X-Admin-API-Key", ADMIN_KEY);
        let request = match attempt {
            Some(attempt) => request.header("X-Idempotency-Key", attempt),
            None => request,
        };
        let request = request.json(&json!({"tenant_id": tenant, "name": "n"}));
        app.send(request).await
    };
    let first = create("aaa", Some("k")).await.expect(201);
    assert_eq!(create("aaa", Some("k")).await.body, first.body);
    create("nobody", None)
        .await
        .refused(400, "TENANT_NOT_FOUND");
    let directory = app.store.keys().api_key_directory();
    let entries: Vec<String> = shared().run(&["ZRANGE", &directory, "0", "-1", "WITHSCORES"]);
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert_eq!(entries[0], first.text("/key_id"));
    // Its position is the creation time of the key itself.
    let partition = tenant_id("aaa").partition();
    let record = app.store.keys().api_key(partition, &entries[0]);
    let at: String = app.run(&["HGET", &record, "created_at_ms"]).await;
    assert_eq!(entries[1], at);
}

#[tokio::test]
async fn only_sorts_without_an_index_are_bounded() {
    const KEYS_MADE: usize = 10_001;
    let app = TestApp::spawn_on(&shared().url(), LONG_REDIS_TIMEOUT).await;
    tenant(&app, "aaa").await;
    let id = key(&app, "aaa", "one").await;
    let (keys, partition) = (app.store.keys(), tenant_id("aaa").partition());
    let record = keys.api_key(partition, &id);
    let fields: Vec<String> = shared().run(&["HGETALL", &record]);
    let mut commands = Vec::new();
    for copy in 1..KEYS_MADE {
        let id = format!("key_{partition}_{copy:012}");
        let record = keys.api_key(partition, &id);
        let mut write = redis::cmd("HSET");
        write.arg(&record).arg(&fields);
        commands.push((record, write));
        let directory = keys.api_key_directory();
        let mut enter = redis::cmd("ZADD");
        enter.arg(&directory).arg(copy).arg(&id);
        commands.push((directory, enter));
    }
    for batch in commands.chunks(5_000) {
        app.store.send_all(batch).await.expect("written");
    }
    let refused = app
        .get_as_admin(&format!("{KEYS}?sort_by=name"))
        .await
        .refused(400, "LIMIT_EXCEEDED");
    let message = refused.text("/message");
    assert!(
        message.contains("10000") && message.contains("tenant_id"),
        "{message}"
    );
    app.get_as_admin(&format!("{KEYS}?limit=100"))
        .await
        .expect(200);
    let narrowed = app
        .get_as_admin(&format!("{KEYS}?sort_by=name&status=REVOKED"))
        .await;
    assert_eq!(narrowed.body, json!({"keys": [], "has_more": false}));
    // A sparse filter ends its page after 5,000 rows, and the cursor continues.
    let sparse = format!("{KEYS}?status=REVOKED");
    let page = app.get_as_admin(&sparse).await;
    assert_eq!(page.at("/keys"), &json!([]));
    assert_eq!(page.at("/has_more"), &json!(true));
    assert_eq!(walked(&app, "status=REVOKED", 10, "name").await.len(), 0);
}

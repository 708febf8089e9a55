//! Logging in and out.

use reqwest::{StatusCode, header};

use super::reader::Reader;
use crate::harness::app::{ADMIN_KEY, TestApp};

#[tokio::test]
async fn a_key_opens_a_session_that_ends_with_a_logout() {
    let app = TestApp::spawn().await;
    let mut reader = Reader::of(&app);
    let turned_away = reader.get("/console/tenants?search=a").await;
    assert_eq!(turned_away.status, StatusCode::SEE_OTHER);
    let login = "/console/login?to=%2Fconsole%2Ftenants%3Fsearch%3Da";
    assert_eq!(turned_away.header(header::LOCATION), login);
    let form = reader.get(login).await;
    assert_eq!(form.field("to"), "/console/tenants?search=a");
    let wrong = reader
        .post("/console/login", &[("key", "wrong"), ("to", "/console")])
        .await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    assert!(
        wrong.has("This key is unknown, revoked or expired.")
            && wrong.header(header::SET_COOKIE).is_empty()
    );

    let to = [("key", ADMIN_KEY), ("to", "/console/tenants?search=a")];
    let opened = reader.post("/console/login", &to).await;
    let cookie = opened.header(header::SET_COOKIE);
    assert!(
        cookie.starts_with("__Host-budget-console=")
            && cookie.contains("; Path=/; Max-Age=28800; "),
        "{cookie}"
    );
    assert!(
        cookie.ends_with("; Secure; HttpOnly; SameSite=Strict"),
        "{cookie}"
    );
    // A browser that does not keep it is told so.
    let location = opened.header(header::LOCATION).to_owned();
    assert!(
        reader
            .get(&location)
            .await
            .has("Your browser did not store the session cookie")
    );
    reader.cookie = Some(opened.cookie());
    assert_eq!(
        reader.get(&location).await.header(header::LOCATION),
        "/console/tenants?search=a"
    );
    assert_eq!(reader.get("/console").await.status, StatusCode::OK);

    // Redis has neither key nor cookie.
    let stored = app.everything().await;
    let secret = opened
        .cookie()
        .split_once('=')
        .expect("a value")
        .1
        .to_owned();
    for value in stored.values() {
        let text = String::from_utf8_lossy(value);
        assert!(!text.contains(&secret) && !text.contains(ADMIN_KEY));
    }
    let out = reader.post("/console/logout", &[("", "")]).await;
    assert!(out.header(header::SET_COOKIE).contains("Max-Age=0"));
    assert_eq!(
        reader.get("/console").await.status,
        StatusCode::SEE_OTHER,
        "the old cookie is of no use"
    );
}

#[tokio::test]
async fn a_login_leads_to_the_console_alone() {
    let app = TestApp::spawn().await;
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    for to in [
        "https://elsewhere.example",
        "//elsewhere.example",
        "/consolex",
        "/v1/admin",
    ] {
        let to: String = url::form_urlencoded::byte_serialize(to.as_bytes()).collect();
        let page = reader.get(&format!("/console/login?to={to}")).await;
        assert_eq!(page.header(header::LOCATION), "/console");
    }
}

#[tokio::test]
async fn a_session_ends_with_its_key() {
    let app = TestApp::spawn().await;
    let key = app.keys[0].clone();
    let (operator, tenant) = (
        Reader::with_key(&app, ADMIN_KEY).await,
        Reader::with_key(&app, &key).await,
    );
    assert_eq!(
        tenant.get("/console/tenants/acme").await.status,
        StatusCode::OK
    );
    app.change_key(&key, &[("status", "REVOKED")]).await;
    let ended = tenant.get("/console/tenants/acme").await;
    assert_eq!(ended.header(header::LOCATION), "/console/login");
    // There, another key can be entered.
    let login = tenant.get("/console/login").await;
    assert!(login.status == StatusCode::OK && login.has("name=\"key\""));
    // Another replica, which has another admin key.
    let replaced = app
        .replica(&["--admin-keys", "another-admin-key-that-is-long-enough"])
        .await;
    let mut reader = Reader::of(&replaced);
    reader.cookie = operator.cookie.clone();
    assert_eq!(reader.get("/console").await.status, StatusCode::SEE_OTHER);
    assert_eq!(operator.get("/console").await.status, StatusCode::OK);
}

#[tokio::test]
async fn one_key_has_32_sessions_at_most_and_they_live_eight_hours() {
    let app = TestApp::spawn().await;
    let key = app.keys[0].clone();
    let first = Reader::with_key(&app, &key).await;
    for _ in 0..32 {
        Reader::with_key(&app, &key).await;
    }
    assert_eq!(
        first.get("/console").await.header(header::LOCATION),
        "/console/login?to=%2Fconsole"
    );
    let keys = app.keys_like("*{dir}:console:*").await;
    let sessions: i64 = app.run(&["HLEN", &keys[0]]).await;
    let left_ms: i64 = app.run(&["PTTL", &keys[0]]).await;
    assert_eq!((keys.len(), sessions), (1, 32));
    assert!((28_700_000..=28_800_000).contains(&left_ms), "{left_ms}");
}

#[tokio::test]
async fn a_link_from_another_site_leads_to_the_page_by_its_own_reload() {
    let app = TestApp::spawn().await;
    let mut reader = Reader::with_key(&app, ADMIN_KEY).await;
    let cookie = reader.cookie.take();
    let page = reader.get_from("cross-site", "/console/denials").await;
    assert!(
        page.status == StatusCode::OK && page.has("http-equiv=\"refresh\" content=\"0\""),
        "{}",
        page.text
    );
    // Its reload is one of the same origin.
    let page = reader.get("/console/denials").await;
    assert_eq!(page.status, StatusCode::SEE_OTHER);
    reader.cookie = cookie;
    assert!(reader.get("/console/denials").await.has("<h1>Denied</h1>"));
    let form = [("key", ADMIN_KEY)];
    let plain = reader.post_from("", "/console/login", &form).await;
    assert!(
        plain.status == StatusCode::FORBIDDEN && plain.has("over HTTPS"),
        "{}",
        plain.text
    );
    let newline = reader.get("/console/login?to=/console/%0A").await;
    assert_eq!(newline.header(header::LOCATION), "/console");
}

//! Callers, refusals and cursors of lists of events.

use budget_authority::domain::moment::Moment;
use budget_authority::store::Day;
use reqwest::Method;
use serde_json::{Value, json};

use super::fixture::{EVENTS, EventsFixture, rows, text};
use crate::harness::event_log::{follow, partition_of};

#[tokio::test]
async fn rule_2_each_list_takes_its_own_kind_of_key() {
    let fixture = EventsFixture::new().await;
    let app = &fixture.app;
    app.get_as_admin("/v1/events")
        .await
        .refused(401, "UNAUTHORIZED");
    for path in [EVENTS, &format!("{EVENTS}/evt_1")] {
        app.get_with(&fixture.key, path)
            .await
            .refused(401, "UNAUTHORIZED");
        app.send(app.request(Method::GET, path))
            .await
            .refused(401, "UNAUTHORIZED");
    }
    // An additional admin key contradicts it, even where it would not be accepted.
    let both = app
        .request(Method::GET, "/v1/events")
        .header(app.names.key, &fixture.key)
        .header("X-Admin-API-Key", "wrong");
    app.send(both).await.refused(400, "INVALID_REQUEST");
    app.send(app.request(Method::GET, "/v1/events"))
        .await
        .refused(401, "UNAUTHORIZED");
    // The path is another operation's as well, which stays what it was.
    let wrong = app
        .request(Method::DELETE, "/v1/events")
        .header(app.names.key, &fixture.key);
    let wrong = app.send(wrong).await.refused(405, "INVALID_REQUEST");
    let allowed = wrong.header("allow").expect("methods");
    assert!(
        allowed.contains("GET") && allowed.contains("POST"),
        "{allowed}"
    );
    app.send(app.request(Method::DELETE, "/v1/events"))
        .await
        .expect(401);
    app.post_with(&fixture.key, "/v1/events", &json!({}))
        .await
        .expect(400);
}

#[tokio::test]
async fn the_permission_is_checked_before_the_rest_of_the_request() {
    let fixture = EventsFixture::new().await;
    let poor = EventsFixture::key(
        &fixture.app,
        "alpha",
        json!({"permissions": ["balances:read"]}),
    )
    .await;
    for query in [
        "",
        "?limit=0",
        "?category=system",
        "?from=2030-01-01T00:00:00Z&to=2020-01-01T00:00:00Z",
    ] {
        let path = format!("/v1/events{query}");
        let response = fixture.app.get_with(&poor, &path).await;
        assert_eq!(
            response.error(),
            (403, "INSUFFICIENT_PERMISSIONS"),
            "{query}"
        );
        assert!(
            response.text("/message").contains("events:read"),
            "{response:?}"
        );
    }
    for permission in ["events:read", "admin:read"] {
        let key =
            EventsFixture::key(&fixture.app, "alpha", json!({"permissions": [permission]})).await;
        let response = fixture.app.get_with(&key, "/v1/events").await;
        assert_eq!(response.header("x-service-tenant"), Some("alpha"));
        assert_eq!(rows(&response).len(), 1, "{permission}");
    }
}

#[tokio::test]
async fn a_key_with_a_scope_filter_sees_only_its_scopes() {
    let mut fixture = EventsFixture::new().await;
    fixture.emit_many().await;
    let key = json!({"permissions": ["events:read"], "scope_filter": ["agent:a1"]});
    let key = EventsFixture::key(&fixture.app, "alpha", key).await;
    follow(&fixture.app.store).await;
    let path = json!({"permissions": ["events:read"], "scope_filter": ["tenant:alpha/agent:a1"]});
    let path = EventsFixture::key(&fixture.app, "alpha", path).await;
    for (key, query, seen) in [
        (&key, "", 5),
        (&key, "scope=tenant:alpha/agent:a1", 5),
        (&path, "", 5),
        (&path, "scope=tenant:alpha/agent:a1", 5),
    ] {
        let page = fixture
            .app
            .get_with(key, &format!("/v1/events?{query}"))
            .await;
        let events = rows(&page);
        assert_eq!(events.len(), seen, "{query}: {events:?}");
        assert!(
            events
                .iter()
                .all(|event| text(event, "scope").ends_with("/agent:a1"))
        );
        let correlation = text(&events[0], "correlation_id");
        let page = fixture
            .app
            .get_with(key, &format!("/v1/events?correlation_id={correlation}"))
            .await;
        assert!(!rows(&page).is_empty());
    }
    fixture
        .app
        .get_with(&key, "/v1/events?scope=tenant:alpha")
        .await
        .refused(403, "FORBIDDEN");
}

#[tokio::test]
async fn rule_68_a_tenant_never_sees_events_of_the_operators_categories() {
    let mut fixture = EventsFixture::new().await;
    fixture.emit_many().await;
    follow(&fixture.app.store).await;
    let scoped = "scope=tenant:alpha";
    for query in [
        "",
        "category=tenant",
        "event_type=budget.debt_incurred",
        scoped,
        "from=2020-01-01T00:00:00Z",
    ] {
        let page = fixture.own(&format!("{query}&limit=100")).await;
        let events = rows(&page);
        assert!(!events.is_empty(), "{query}");
        for event in events {
            let category = text(&event, "category");
            assert!(
                ["budget", "reservation", "tenant"].contains(&category),
                "{query}: {event}"
            );
            assert_eq!(text(&event, "tenant_id"), "alpha");
        }
    }
    for query in [
        "category=api_key",
        "category=policy",
        "category=webhook",
        "category=system",
        "event_type=api_key.created",
        "event_type=policy.created",
        "event_type=webhook.created",
        "event_type=system.high_latency",
        "event_type=custom.x",
        "event_type=moon.landed",
        "category=moon",
    ] {
        assert_eq!(
            fixture.own(query).await.error(),
            (400, "INVALID_REQUEST"),
            "{query}"
        );
    }
}

#[tokio::test]
async fn rule_69_a_correlation_id_does_not_lift_the_time_bounds() {
    let mut fixture = EventsFixture::new().await;
    fixture.emit_many().await;
    follow(&fixture.app.store).await;
    let id = "tenant_bulk_action:Suspend:req_1_2";
    let all = fixture.admin(&format!("correlation_id={id}")).await;
    assert_eq!(rows(&all).len(), 3);
    let ahead = format!("correlation_id={id}&from=2999-01-01T00:00:00Z");
    for page in [
        fixture.admin(&ahead).await,
        fixture.admin(&format!("{ahead}&tenant_id=alpha")).await,
        fixture.own(&ahead).await,
    ] {
        assert!(rows(&page).is_empty());
        assert_eq!(page.at("/has_more"), &json!(false));
        assert!(page.body.get("next_cursor").is_none());
    }
}

#[tokio::test]
async fn rule_70_a_search_has_at_most_128_characters_and_a_blank_one_is_ignored() {
    let fixture = EventsFixture::new().await;
    follow(&fixture.app.store).await;
    fixture
        .admin(&format!("search={}", "é".repeat(129)))
        .await
        .refused(400, "INVALID_REQUEST");
    assert!(rows(&fixture.admin(&format!("search={}", "é".repeat(128))).await).is_empty());
    let blank = fixture
        .admin(&format!("search={}", "%20".repeat(128)))
        .await;
    assert_eq!(rows(&blank).len(), 4);
}

#[tokio::test]
async fn rule_73_an_unknown_parameter_is_ignored() {
    let fixture = EventsFixture::new().await;
    follow(&fixture.app.store).await;
    assert_eq!(
        rows(&fixture.admin("surprise=1&observe_mode=x").await).len(),
        4
    );
    assert_eq!(
        rows(
            &fixture
                .own("surprise=1&tenant_id=beta&search=nothing")
                .await
        )
        .len(),
        1
    );
}

#[tokio::test]
async fn wrong_parameters_are_refused_and_named() {
    let fixture = EventsFixture::new().await;
    for (query, part) in [
        ("limit=0", "'limit': 0; it must be an integer from 1 to 100"),
        ("limit=101", "'limit'"),
        ("limit=x", "'limit'"),
        ("category=custom", "'category'"),
        ("event_type=word", "'event_type'"),
        ("trace_id=abc", "'trace_id'"),
        ("from=1790000000000", "'from'"),
        ("to=soon", "'to'"),
        ("sort_by=age", "'sort_by'"),
        ("sort_dir=up", "'sort_dir'"),
        ("cursor=abc", "cursor"),
    ] {
        let response = fixture.admin(query).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{query}");
        assert!(response.text("/message").contains(part), "{response:?}");
    }
}

fn next(response: &crate::harness::response::Response) -> String {
    response.text("/next_cursor").to_owned()
}

#[tokio::test]
async fn a_cursor_is_valid_only_for_its_filters_sort_list_and_tenant() {
    let mut fixture = EventsFixture::new().await;
    fixture.emit_many().await;
    follow(&fixture.app.store).await;
    let refused = |response: &crate::harness::response::Response, why: &str| {
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{why}");
        assert!(response.text("/message").contains("cursor"), "{response:?}");
    };
    let cursor = next(&fixture.admin("category=budget&limit=2").await);
    for query in [
        "",
        "category=policy",
        "category=budget&event_type=budget.debt_incurred",
        "category=budget&tenant_id=alpha",
        "category=budget&scope=tenant:",
        "category=budget&from=2020-01-01T00:00:00Z",
        "category=budget&search=a",
        "category=budget&correlation_id=a",
        "category=budget&request_id=a",
        "category=budget&trace_id=00000000000000000000000000000001",
        "category=budget&sort_by=scope",
        "category=budget&sort_dir=asc",
    ] {
        refused(
            &fixture.admin(&format!("{query}&cursor={cursor}")).await,
            query,
        );
    }
    // Another limit is not another list, and the order in the cursor need not be repeated.
    let page = fixture
        .admin(&format!("category=budget&limit=3&cursor={cursor}"))
        .await;
    assert_eq!(rows(&page).len(), 3);
    let sorted = next(&fixture.admin("sort_by=scope&sort_dir=asc&limit=2").await);
    assert_eq!(
        rows(&fixture.admin(&format!("cursor={sorted}")).await).len(),
        50
    );

    let own = next(&fixture.own("limit=2").await);
    refused(
        &fixture
            .admin(&format!("tenant_id=alpha&cursor={own}"))
            .await,
        "the operator's list",
    );
    refused(
        &fixture.own(&format!("category=budget&cursor={own}")).await,
        "other filters",
    );
    let other = EventsFixture::key(
        &fixture.app,
        "beta",
        json!({"permissions": ["events:read"]}),
    )
    .await;
    let response = fixture
        .app
        .get_with(&other, &format!("/v1/events?cursor={own}"))
        .await;
    refused(&response, "another tenant");
    let cursor = next(&fixture.admin("tenant_id=alpha&limit=2").await);
    refused(
        &fixture.own(&format!("cursor={cursor}")).await,
        "the tenant's list",
    );
}

#[tokio::test]
async fn a_cursor_continues_although_its_event_is_gone() {
    let mut fixture = EventsFixture::new().await;
    fixture.emit_many().await;
    follow(&fixture.app.store).await;
    for query in [
        "tenant_id=alpha",
        "category=tenant",
        "",
        "tenant_id=alpha&sort_by=event_type",
    ] {
        let events = fixture.walk(false, &format!("{query}&limit=100")).await;
        let first = fixture.admin(&format!("{query}&limit=10")).await;
        assert_eq!(rows(&first), events[..10]);
        // Retention takes the boundary away: the log of that day.
        let last = &events[9];
        let day_of = |event: &Value| {
            let at = Moment::parse(text(event, "timestamp")).expect("a time");
            Day::of_ms(at.as_ms())
        };
        let (tenant, day) = (text(last, "tenant_id"), day_of(last));
        let keys = fixture.app.store.keys();
        let log = keys.events(partition_of(tenant), tenant, day);
        let away = format!("{log}:away");
        fixture
            .event_log
            .run::<String>(&["RENAME", &log, &away])
            .await;
        let (query, from) = (format!("{query}&limit=10"), next(&first));
        let rest = fixture.walk_from(false, &query, &from).await;
        let left = |event: &&Value| text(event, "tenant_id") != tenant || day_of(event) != day;
        let expected: Vec<Value> = events[10..].iter().filter(left).cloned().collect();
        assert_eq!(rest, expected, "{query}");
        fixture
            .event_log
            .run::<String>(&["RENAME", &away, &log])
            .await;
    }
}

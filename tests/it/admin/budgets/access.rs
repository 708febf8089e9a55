//! Lists of budgets: permissions, tenants and limits.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::budgets::list::{
    UNITS, budget, change, ids, list, ordered, rows, scopes, tenant, walked,
};
use crate::admin::http::BUDGETS;
use crate::harness::app::TestApp;
use crate::harness::redis::shared;
use crate::harness::runtime_calls::tokens;

#[tokio::test]
async fn a_key_sees_the_budgets_of_its_tenant_and_its_scopes() {
    let app = TestApp::spawn().await;
    for scope in [
        "tenant:acme",
        "tenant:acme/agent:x",
        "tenant:acme/workspace:w/agent:y",
    ] {
        budget(&app, "acme", scope, "TOKENS", 10).await;
    }
    let key = async |permissions: &str, filter: &str| {
        let fields = [("permissions", permissions), ("scope_filter", filter)];
        app.add_key(0, &fields).await
    };
    let reader = key(" budgets:read ", "").await;
    assert_eq!(scopes(&list(&app, Some(&reader), "").await).len(), 3);
    let named = list(&app, Some(&reader), "tenant_id=bolt").await;
    assert_eq!(scopes(&named).len(), 3, "the key names its tenant");
    assert_eq!(named.headers["x-service-tenant"], "acme");
    assert!(scopes(&list(&app, Some(&app.keys[1]), "tenant_id=acme").await).is_empty());
    for (filter, seen) in [
        ("agent:x", &["tenant:acme/agent:x"][..]),
        (
            "agent:*",
            &["tenant:acme/agent:x", "tenant:acme/workspace:w/agent:y"],
        ),
        ("*", &[]),
        ("tenant:acme/agent:x", &["tenant:acme/agent:x"]),
        ("tenant:acme/agent:y", &[]),
    ] {
        let restricted = key(" budgets:read ", filter).await;
        let listed = list(&app, Some(&restricted), "sort_by=scope&sort_dir=asc").await;
        assert_eq!(scopes(&listed), seen, "{filter}");
        let default = walked(&app, Some(&restricted), "limit=1").await;
        assert_eq!(default.len(), seen.len(), "{filter}");
    }
    for filter in ["agent:x", "tenant:acme/agent:x"] {
        let restricted = key(" budgets:read ", filter).await;
        for (prefix, outcome) in [
            ("tenant:acme/agent:x", Ok(1)),
            ("tenant:acme/AGENT:X", Ok(0)),
            ("tenant:acme", Err((403, "FORBIDDEN"))),
            ("tenant:acme/agent:xy", Err((403, "FORBIDDEN"))),
        ] {
            let response = list(&app, Some(&restricted), &format!("scope_prefix={prefix}")).await;
            match outcome {
                Ok(count) => assert_eq!(scopes(&response).len(), count, "{prefix}"),
                Err(error) => assert_eq!(response.error(), error, "{prefix}"),
            }
        }
    }
    list(&app, Some("sk_live_nonsense"), "")
        .await
        .refused(401, "UNAUTHORIZED");
    let writer = key(" budgets:write ", "").await;
    for query in ["", "unit=x"] {
        list(&app, Some(&writer), query)
            .await
            .refused(403, "INSUFFICIENT_PERMISSIONS");
    }
    for status in ["SUSPENDED", "CLOSED"] {
        app.set_tenant(&[("status", status)]).await;
        assert_eq!(
            scopes(&list(&app, Some(&reader), "").await).len(),
            3,
            "{status}"
        );
    }
}

#[tokio::test]
async fn rule_5_admin_read_permits_the_list_of_budgets_and_no_funding() {
    let app = TestApp::spawn().await;
    budget(&app, "acme", "tenant:acme", "TOKENS", 10).await;
    let reads = app.add_key(0, &[("permissions", " admin:read ")]).await;
    assert_eq!(scopes(&list(&app, Some(&reads), "").await), ["tenant:acme"]);
    let fund = format!("{BUDGETS}/fund?scope=tenant:acme&unit=TOKENS");
    let body = json!({"operation": "CREDIT", "amount": tokens(1)});
    app.by_key(&reads, Method::POST, &fund, &body)
        .await
        .refused(403, "INSUFFICIENT_PERMISSIONS");
    let writes = app.add_key(0, &[("permissions", " admin:write ")]).await;
    app.by_key(&writes, Method::POST, &fund, &body)
        .await
        .expect(200);
    let hold = crate::harness::app::reserve_body("k1", 1);
    app.post_with(&writes, "/v1/reservations", &hold)
        .await
        .refused(403, "FORBIDDEN");
    list(&app, Some(&writes), "")
        .await
        .refused(403, "INSUFFICIENT_PERMISSIONS");
}

#[tokio::test]
async fn rule_6_a_granular_admin_permission_does_not_permit_the_list() {
    let app = TestApp::spawn().await;
    let key = app
        .add_key(0, &[("permissions", " admin:budgets:read ")])
        .await;
    let response = list(&app, Some(&key), "")
        .await
        .refused(403, "INSUFFICIENT_PERMISSIONS");
    assert!(
        response.text("/message").contains("budgets:read"),
        "{response:?}"
    );
}

#[tokio::test]
async fn rule_20_a_body_names_the_tenant_only_with_an_admin_key() {
    let app = TestApp::spawn().await;
    let key = app.add_key(0, &[("permissions", " budgets:write ")]).await;
    let body = |tenant: Value| json!({"tenant_id": tenant, "scope": "tenant:acme", "unit": "TOKENS", "allocated": tokens(1)});
    let response = app
        .by_key(&key, Method::POST, BUDGETS, &body(json!("acme")))
        .await
        .refused(400, "INVALID_REQUEST");
    assert!(response.text("/message").contains("tenant_id"));
    let response = app
        .as_admin(Method::POST, BUDGETS, &body(Value::Null))
        .await
        .refused(400, "INVALID_REQUEST");
    assert!(response.text("/message").contains("tenant_id"));
    assert!(scopes(&list(&app, None, "tenant_id=acme").await).is_empty());
}

#[tokio::test]
async fn rule_25_a_foreign_scope_is_refused_whether_it_has_a_budget_or_not() {
    let app = TestApp::spawn().await;
    budget(&app, "bolt", "tenant:bolt", "TOKENS", 1).await;
    for scope in ["tenant:bolt", "tenant:bolt/agent:none", "tenant:nobody"] {
        let path = format!("{BUDGETS}/lookup?scope={scope}&unit=TOKENS");
        let response = app
            .by_key(&app.keys[0], Method::GET, &path, &Value::Null)
            .await;
        assert_eq!(response.error(), (403, "FORBIDDEN"), "{scope}");
    }
}

#[tokio::test]
async fn rule_38_the_bounds_of_utilization_are_inclusive() {
    let app = TestApp::spawn().await;
    for (name, allocated, spent) in [
        ("none", 0, 5_i64),
        ("under", 1_000, 899),
        ("ninety", 10, 9),
        ("full", 7, 7),
        ("beyond", 10, 11),
        ("huge", i64::MAX - 7, 8_301_034_833_169_298_220),
    ] {
        let scope = format!("tenant:acme/agent:{name}");
        budget(&app, "acme", &scope, "TOKENS", allocated).await;
        change(
            &app,
            "acme",
            "TOKENS",
            &scope,
            &[("spent", &spent.to_string())],
        )
        .await;
    }
    for (query, expected) in [
        (
            "utilization_min=0.9",
            &["beyond", "full", "huge", "ninety"][..],
        ),
        (
            "utilization_min=0.9&utilization_max=0.9",
            &["huge", "ninety"],
        ),
        ("utilization_min=1&utilization_max=1", &["full"]),
        ("utilization_max=0", &["none"]),
        ("utilization_max=0.899", &["none", "under"]),
    ] {
        let response = list(
            &app,
            None,
            &format!("tenant_id=acme&sort_by=scope&sort_dir=asc&{query}"),
        )
        .await;
        let names: Vec<_> = scopes(&response)
            .iter()
            .map(|scope| scope["tenant:acme/agent:".len()..].to_owned())
            .collect();
        assert_eq!(names, expected, "{query}");
    }
    let crossed = list(
        &app,
        None,
        "tenant_id=acme&utilization_min=0.9&utilization_max=0.8",
    )
    .await
    .refused(400, "INVALID_REQUEST");
    assert!(crossed.text("/message").contains("utilization_min"));
}

#[tokio::test]
async fn rule_39_a_limit_is_clamped_to_1_and_100() {
    let app = TestApp::spawn().await;
    for number in 0..101 {
        budget(
            &app,
            "acme",
            &format!("tenant:acme/agent:x{number}"),
            "TOKENS",
            1,
        )
        .await;
    }
    for sort in ["", "&sort_by=scope"] {
        for (limit, count) in [
            ("2000", 100),
            ("0", 1),
            ("-3", 1),
            ("100", 100),
            ("101", 100),
        ] {
            let response = list(&app, None, &format!("tenant_id=acme&limit={limit}{sort}")).await;
            assert_eq!(rows(&response).len(), count, "{limit}");
            assert_eq!(response.at("/has_more"), &json!(true));
        }
        let usual = list(&app, None, &format!("tenant_id=acme{sort}")).await;
        assert_eq!(rows(&usual).len(), 50);
        list(&app, None, &format!("tenant_id=acme&limit=abc{sort}"))
            .await
            .refused(400, "INVALID_REQUEST");
    }
}

#[tokio::test]
async fn an_admin_list_needs_a_tenant_unless_a_setting_allows_all() {
    let app = TestApp::spawn().await;
    for query in [
        "",
        "tenant_id=",
        "sort_by=scope",
        "scope_prefix=tenant:acme/",
    ] {
        let response = list(&app, None, query).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{query}");
        assert!(response.text("/message").contains("tenant_id"), "{query}");
    }
    for unknown in ["nobody", "NO+BODY", "__admin__"] {
        assert!(scopes(&list(&app, None, &format!("tenant_id={unknown}")).await).is_empty());
    }

    let open = TestApp::spawn_on(&shared().url(), &["--allow-cross-tenant-list"]).await;
    assert!(scopes(&list(&open, None, "").await).is_empty());
    // One whose scopes would come before those of a tenant with a smaller id, and some without a budget.
    for (id, count) in [
        ("ab-c", 3),
        ("abc", 2),
        ("abc-d", 1),
        ("empty", 0),
        ("xab", 0),
        ("yab", 4),
        ("zab", 0),
    ] {
        tenant(&open, id).await;
        for (number, unit) in UNITS.iter().enumerate().take(count) {
            budget(&open, id, &format!("tenant:{id}/agent:x{number}"), unit, 10).await;
        }
    }
    let all = list(&open, None, "limit=2000").await;
    assert_eq!(rows(&all).len(), 10);
    for by in ["tenant_id", "scope", "unit", "utilization"] {
        for direction in ["asc", "desc"] {
            let mut expected = rows(&all);
            expected.sort_by(|a, b| ordered(by, a, b));
            if direction == "desc" {
                expected.reverse();
            }
            for limit in [1, 2, 4, 100] {
                let query = format!("sort_by={by}&sort_dir={direction}&limit={limit}");
                assert_eq!(
                    ids(&walked(&open, None, &query).await),
                    ids(&expected),
                    "{query}"
                );
            }
        }
    }
    for (query, count) in [
        ("tenant_id=abc", 2),
        ("tenant_id=nobody", 0),
        ("tenant_id=empty", 0),
        ("scope_prefix=tenant:ab", 6),
        ("scope_prefix=tenant:ab-c/", 3),
        ("scope_prefix=tenant:abc/agent:x1", 1),
        ("scope_prefix=tenant:nobody/", 0),
        ("search=ab-c", 3),
        ("unit=TOKENS&search=x1", 3),
    ] {
        for sort in ["", "&sort_by=scope&limit=2"] {
            assert_eq!(
                walked(&open, None, &format!("{query}{sort}")).await.len(),
                count,
                "{query}{sort}"
            );
        }
    }
    // A tenant's key sees its own all the same.
    budget(&open, "acme", "tenant:acme", "TOKENS", 1).await;
    assert_eq!(
        scopes(&list(&open, Some(&open.keys[0]), "").await),
        ["tenant:acme"]
    );
    assert!(scopes(&list(&open, Some(&open.keys[1]), "").await).is_empty());
}

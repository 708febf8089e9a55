//! A damaged record removes nothing from a list but itself.

use serde_json::json;

use super::Fixture;
use crate::harness::app::TestApp;

#[tokio::test]
async fn a_damaged_reservation_is_left_out() {
    let damages: [&[&str]; 6] = [
        &["HDEL", "estimate"],
        &["HSET", "expires_at_ms", "1e400"],
        &["HSET", "status", "WEIRD"],
        &["HSET", "unit", "PEBBLES"],
        &["DEL"],
        &["SET", "x"],
    ];
    for damage in damages {
        let list = Fixture::new().await;
        let fixture = &list.app;
        let key = fixture
            .store
            .keys()
            .reservation(fixture.callers[0].partition, &list.ids[2]);
        if damage[0] == "SET" {
            fixture.run::<()>(&["DEL", &key]).await;
        }
        let mut words = vec![damage[0], key.as_str()];
        words.extend(&damage[1..]);
        fixture.run::<()>(&words).await;
        let left = ["committed", "expired", "last", "late", "released"];
        for query in [
            "",
            "include=metadata",
            "sort_by=status",
            "sort_by=reserved&sort_dir=asc",
        ] {
            assert_eq!(list.keys(query).await, left, "{damage:?} {query}");
        }
        let active = ["last", "late"];
        assert_eq!(
            list.keys("status=ACTIVE&sort_by=expires_at_ms").await,
            active,
            "{damage:?}"
        );
    }
}

#[tokio::test]
async fn a_damaged_ledger_is_left_out_of_balances_and_found_by_a_verification() {
    let damages: [&[&str]; 8] = [
        &["HDEL", "remaining"],
        &["HSET", "reserved", "12x"],
        &["HSET", "spent", "1e400"],
        &["HSET", "debt", ""],
        &["HSET", "allocated", "9223372036854775808"],
        &["HDEL", "allocated"],
        &["HSET", "remaining", "nan"],
        &["SET", "x"],
    ];
    for damage in damages {
        let app = TestApp::spawn().await;
        let scopes = ["tenant:acme", "tenant:acme/agent:a", "tenant:acme/agent:b"];
        for scope in scopes {
            app.budget(scope, 1_000, 0).await;
        }
        let fixture = &app;
        let keys = fixture.store.keys();
        let key = keys.budget(fixture.callers[0].partition, "acme", "TOKENS", scopes[1]);
        if damage[0] == "SET" {
            fixture.run::<()>(&["DEL", &key]).await;
        }
        let mut words = vec![damage[0], key.as_str()];
        words.extend(&damage[1..]);
        fixture.run::<()>(&words).await;
        let mut seen = Vec::new();
        let mut cursor = String::new();
        loop {
            let response = app
                .get(&format!("/v1/balances?tenant=acme&limit=1&cursor={cursor}"))
                .await;
            assert_eq!(response.status, 200, "{damage:?}: {response:?}");
            for row in response.at("/balances").as_array().expect("rows") {
                seen.push(row["scope_path"].as_str().expect("a scope").to_owned());
            }
            match response.at("/next_cursor").as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        assert_eq!(seen, [scopes[0], scopes[2]], "{damage:?}");
        let report = budget_authority::tools::verify::verify(&fixture.store, None, |_| {}).await;
        let report = report.expect("Redis answers");
        let reported = report
            .differences
            .iter()
            .any(|d| d.id.contains("agent:a") && d.detail.contains("corrupt"));
        assert!(reported, "{damage:?}: {:?}", report.differences);
        // The others are listed as before.
        let response = app.get("/v1/balances?agent=b").await;
        assert_eq!(
            response.at("/balances/0/allocated"),
            &json!({"unit": "TOKENS", "amount": 1_000})
        );
    }
}

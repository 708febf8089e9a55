//! `ledger verify` compares the usage of a day with the charges and refunds of the records, while all of these exist.

use budget_authority::tools::verify::verify;

use super::charged;
use crate::harness::app::TestApp;

async fn differences(app: &TestApp) -> Vec<String> {
    let report = verify(&app.store, None, |_| {}).await;
    let differences = report.expect("Redis answers").differences.into_iter();
    differences
        .map(|it| format!("{} {}: {}", it.what, it.id, it.detail))
        .collect()
}

#[tokio::test]
async fn usage_that_is_not_what_the_records_charged_is_reported() {
    let app = TestApp::spawn().await;
    charged(&app).await;
    assert_eq!(differences(&app).await, [""; 0]);
    let (keys, partition, today) = (
        app.store.keys(),
        app.callers[0].partition,
        app.store.today(),
    );
    let key = keys.usage(partition, "acme", today);
    let fields: Vec<String> = app.run(&["HKEYS", &key]).await;
    let web = fields
        .iter()
        .find(|field| field.ends_with(" web"))
        .expect("a combination");
    let day = format!("usage {} TOKENS", today.date());
    for (value, what) in [
        ("501 1", "charged is 631, its records give 630"),
        ("499 1", "charged is 629, its records give 630"),
        ("500 2", "count is 6, its records give 5"),
        ("500 1 1", "refunded is 31, its records give 30"),
    ] {
        let () = app.run(&["HSET", &key, web, value]).await;
        assert_eq!(differences(&app).await, [format!("{day}: {what}")]);
    }
    let () = app.run(&["DEL", &key]).await;
    assert_eq!(differences(&app).await.len(), 3);
    // From then on a record may have been removed.
    let now_ms = app.now_ms().await.to_string();
    let () = app
        .run(&["HSET", &keys.purged(partition), "acme", &now_ms])
        .await;
    assert_eq!(differences(&app).await, [""; 0]);
}

//! Who sees the whole address of a receiver, whose query often holds a secret.

use serde_json::json;

use crate::admin::http::{key, umbra_on};
use crate::harness::app::TestApp;
use crate::harness::receiver::public_names;

const HOOKS: &str = "/v1/webhooks";
const WHOLE: &str = "https://hooks.example/in?token=s3cret&x=1";
const MASKED: &str = "https://hooks.example/in?***";

#[tokio::test]
async fn only_who_may_change_a_subscription_sees_the_query_of_its_address() {
    let app = umbra_on(TestApp::spawn_reaching(public_names(), &[]).await).await;
    let path = "/v1/admin/webhooks?tenant_id=umbra";
    let plain = "https://hooks.example/in";
    for url in [WHOLE, plain] {
        let hook = json!({"url": url, "event_types": ["budget.funded"]});
        app.post_as_admin(path, hook).await.expect(201);
    }
    for (permissions, seen) in [
        (&["webhooks:read"][..], MASKED),
        (&["admin:read"], MASKED),
        (&["webhooks:read", "budgets:write"], MASKED),
        (&["webhooks:read", "webhooks:write"], WHOLE),
        (&["webhooks:read", "admin:write"], WHOLE),
    ] {
        let (_, secret) = key(&app, permissions).await;
        let list = app.get_with(&secret, HOOKS).await.expect(200);
        let rows = list.at("/subscriptions").as_array().expect("rows").clone();
        let mut urls: Vec<_> = rows.iter().map(|row| row["url"].clone()).collect();
        urls.sort_by_key(|url| url.to_string().len());
        assert_eq!(urls, [json!(plain), json!(seen)], "{permissions:?}");
        for row in &rows {
            let id = row["subscription_id"].as_str().expect("an id");
            let one = app.get_with(&secret, &format!("{HOOKS}/{id}")).await;
            assert_eq!(one.at("/url"), &row["url"], "{permissions:?}");
        }
    }
    let (list, own) = ("/v1/admin/webhooks", "/v1/webhooks?tenant=umbra");
    for path in [list, own] {
        let list = app.get_as_admin(path).await.expect(200);
        assert!(list.body.to_string().contains("token=s3cret"), "{path}");
    }
}

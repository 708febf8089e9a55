//! Damaged records and indexes of webhooks: one of them hides no other from a list or a bulk action.

use serde_json::{Value, json};

use crate::admin::webhooks::subscriptions::{HOOKS, OWN, URL, hook, hooked, made};
use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::TestApp;
use crate::harness::bulk_calls;
use crate::harness::response::Response;

fn ids(response: &Response, list: &str, member: &str) -> Vec<String> {
    let rows = response.at(list).as_array();
    let rows = rows.unwrap_or_else(|| panic!("no {list} in {response:?}"));
    let id = |row: &Value| row[member].as_str().expect("an id").to_owned();
    rows.iter().map(id).collect()
}

/// Damages two subscriptions of `umbra`: one has a field that cannot be read, the key of the other holds no hash.
async fn damage(app: &TestApp, unreadable: &str, other_type: &str) {
    let (keys, partition) = (app.store.keys(), tenant_id("umbra").partition());
    let record = keys.webhook(partition, unreadable);
    app.run::<()>(&["HSET", &record, "version", "new"]).await;
    let record = keys.webhook(partition, other_type);
    app.run::<()>(&["DEL", &record]).await;
    app.run::<()>(&["SET", &record, "x"]).await;
}

#[tokio::test]
async fn a_damaged_subscription_is_left_out_and_hides_no_other() {
    let app = hooked().await;
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(made(&app, hook(URL)).await);
    }
    all.sort();
    damage(&app, &all[1], &all[2]).await;
    let sound = [all[0].clone(), all[3].clone()];
    for path in [
        HOOKS.to_owned(),
        format!("{HOOKS}?tenant_id=umbra&status=ACTIVE&sort_by=url"),
        format!("{OWN}?tenant=umbra"),
        format!("{OWN}?tenant=umbra&status=ACTIVE"),
    ] {
        let response = app.get_as_admin(&path).await;
        assert_eq!(response.status, 200, "{path}: {response:?}");
        let mut found = ids(&response, "/subscriptions", "subscription_id");
        found.sort();
        assert_eq!(found, sound, "{path}");
    }
    let pause =
        json!({"filter": {"tenant_id": "umbra"}, "action": "PAUSE", "idempotency_key": "k"});
    let response = app.post_as_admin(bulk_calls::WEBHOOKS, &pause).await;
    assert_eq!(response.at("/total_matched"), &json!(2), "{response:?}");
}

#[tokio::test]
async fn a_damaged_delivery_is_left_out_and_hides_no_other() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    let (keys, partition) = (app.store.keys(), tenant_id("umbra").partition());
    let today = app.store.today();
    let index = keys.deliveries(partition, &id, today);
    for n in 0..4 {
        let (delivery, at_ms) = (format!("del_{n}"), (today.start_ms() + n).to_string());
        let record = keys.delivery(partition, &delivery);
        let fields = format!(
            "subscription {id} type budget.funded status SUCCESS at_ms {at_ms} attempts {n} trace x"
        );
        let mut words = vec!["HSET", &record];
        words.extend(fields.split(' '));
        app.run::<()>(&words).await;
        let place = format!("{partition} umbra {today} 1-1");
        app.run::<()>(&["HSET", &record, "place", &place]).await;
        let member = format!("{n:010} {delivery}");
        app.run::<()>(&["ZADD", &index, &at_ms, &member]).await;
    }
    let record = keys.delivery(partition, "del_1");
    app.run::<()>(&["HSET", &record, "attempts", "many"]).await;
    let record = keys.delivery(partition, "del_2");
    app.run::<()>(&["DEL", &record]).await;
    app.run::<()>(&["SET", &record, "x"]).await;
    for query in ["", "?status=SUCCESS"] {
        let response = app
            .get_as_admin(&format!("{HOOKS}/{id}/deliveries{query}"))
            .await;
        assert_eq!(response.status, 200, "{query}: {response:?}");
        let found = ids(&response, "/deliveries", "delivery_id");
        assert_eq!(found, ["del_3", "del_0"], "{query}");
    }
}

#[tokio::test]
async fn entries_that_are_not_ids_end_neither_a_list_nor_a_bulk_action() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    let (keys, partition) = (app.store.keys(), tenant_id("umbra").partition());
    let indexes = [keys.webhook_directory(), keys.webhooks(partition, "umbra")];
    // As many entries as one step reads, before that of the subscription, and one of them is no id.
    let mut entries = vec!["nonsense".to_owned()];
    entries.extend((0..499).map(|n| format!("whsub_000_{n:024}")));
    for index in &indexes {
        let mut words = vec!["ZADD", index];
        words.extend(entries.iter().flat_map(|entry| ["0", entry]));
        app.run::<()>(&words).await;
    }
    for query in ["", "?tenant_id=umbra"] {
        let response = app.get_as_admin(&format!("{HOOKS}{query}")).await;
        let found = ids(&response, "/subscriptions", "subscription_id");
        assert_eq!(found, [id.as_str()], "{query}");
    }
    let response = app.get_as_admin(&format!("{OWN}?tenant=umbra")).await;
    assert_eq!(ids(&response, "/subscriptions", "subscription_id"), [id]);
    for (key, filter) in [
        ("all", json!({"status": "ACTIVE"})),
        ("own", json!({"tenant_id": "umbra"})),
    ] {
        let pause = json!({"filter": filter, "action": "PAUSE", "idempotency_key": key});
        let response = app.post_as_admin(bulk_calls::WEBHOOKS, &pause).await;
        assert_eq!(
            response.at("/total_matched"),
            &json!(1),
            "{key}: {response:?}"
        );
    }
}

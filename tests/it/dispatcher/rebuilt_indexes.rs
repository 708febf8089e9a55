//! W33: the repair of damaged indexes of subscriptions, as in docs/operating.md.

use super::fan_out::{fan_out, follow, fund};
use crate::harness::behind::{SubscriptionFixture, umbra};

#[tokio::test]
async fn w33_missed_events_are_fetched_after_the_index_of_subscriptions_behind_is_rebuilt() {
    for mut hooked in [
        SubscriptionFixture::own().await,
        SubscriptionFixture::system().await,
    ] {
        hooked.let_open(1_000).await;
        fund(&hooked.app, 3).await;
        assert_eq!(follow(&hooked.fan_out).await, 0);
        let keys = hooked.app.store.keys();
        let behind = keys.behind(hooked.partition);
        hooked.app.run::<()>(&["SET", &behind, "x"]).await;
        hooked.app.run::<i64>(&["DEL", &behind]).await;
        let prefix = keys.window(hooked.partition, "");
        for window in hooked.app.keys_like("{???}:window:*").await {
            let sources: Option<String> = hooked.app.run(&["HGET", &window, "sources"]).await;
            if sources.is_some() {
                let id = window.strip_prefix(&prefix).expect("of the partition");
                let words = ["ZADD", &behind, "NX", "0", id];
                hooked.app.run::<i64>(&words).await;
            }
        }
        fund(&hooked.app, 1).await;
        hooked.let_open(0).await;
        assert_eq!(follow(&hooked.fan_out).await, 0);
        assert_eq!(hooked.catch_up().await, 4);
        hooked.expect_in_order(4).await;
        assert!(!hooked.is_behind().await);
    }
}

#[tokio::test]
async fn w33_events_are_queued_after_an_owners_list_of_subscriptions_is_rebuilt() {
    let hooked = SubscriptionFixture::own().await;
    fund(&hooked.app, 1).await;
    assert_eq!(follow(&hooked.fan_out).await, 1);
    let keys = hooked.app.store.keys();
    let (list, record) = (
        keys.webhooks(umbra(), "umbra"),
        keys.webhook(umbra(), &hooked.id),
    );
    hooked.app.run::<()>(&["SET", &list, "x"]).await;
    fund(&hooked.app, 2).await;
    follow(&fan_out(&hooked.app)).await;
    let tenant: String = hooked.app.run(&["HGET", &record, "tenant"]).await;
    assert_eq!(tenant, "umbra");
    let both = "redis.call('DEL', KEYS[1]) redis.call('ZADD', KEYS[1], 0, ARGV[1])";
    hooked
        .app
        .run::<()>(&["EVAL", both, "1", &list, &hooked.id])
        .await;
    fund(&hooked.app, 1).await;
    // Those of the meantime were skipped.
    assert_eq!(follow(&fan_out(&hooked.app)).await, 1);
    hooked.expect_in_order(2).await;
}

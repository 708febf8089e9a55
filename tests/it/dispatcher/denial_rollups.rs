//! Denials above the rate are only counted, and rolled up when their minute is over.

use crate::harness::due_events::due_events;
use crate::harness::past_day::PastDay;
use crate::harness::redis::shared;
use crate::harness::store;

#[tokio::test]
async fn denials_of_a_past_minute_are_rolled_up_once() {
    let store = store(&shared().url());
    let past = PastDay::new(&store, 0).await;
    let keys = store.keys().clone();
    let (hash, index) = (
        keys.denials(past.lease.partition, "acme"),
        keys.denials_due(past.lease.partition),
    );
    let minute_ms = (past.now_ms - 60_000).to_string();
    let fields = [
        "HSET",
        &hash,
        "minute_ms",
        &minute_ms,
        "count",
        "642",
        "suppressed",
        "42",
        "scope",
        "tenant:acme",
        "data.reason_code",
        "BUDGET_EXCEEDED",
    ];
    past.tenant.run::<i64>(&fields).await;
    past.tenant
        .run::<i64>(&["ZADD", &index, &past.now_ms.to_string(), "acme"])
        .await;
    past.tenant
        .run::<i64>(&["ZADD", &index, &(past.now_ms + 60_000).to_string(), "later"])
        .await;

    let rollups = due_events(&store);
    let flush = rollups
        .run_once(&[past.lease], |_| {})
        .await
        .expect("Redis answers");
    assert_eq!((flush.done, flush.failed, flush.more), (1, 0, false));
    let again = rollups
        .run_once(&[past.lease], |_| {})
        .await
        .expect("Redis answers");
    assert_eq!(again.done, 0);

    let log = |day| keys.events(past.lease.partition, "acme", day);
    let entries = past.tenant.log_entries(log).await;
    let fields = entries[0].1.join(" ");
    assert_eq!(entries.len(), 1);
    assert!(
        fields.contains("type reservation.denied") && fields.contains("metadata.count 42"),
        "{fields}"
    );
    assert!(
        fields.contains("data.reason_code BUDGET_EXCEEDED") && fields.contains("actor system"),
        "{fields}"
    );
    let left: Vec<String> = past.tenant.run(&["ZRANGE", &index, "0", "-1"]).await;
    assert_eq!(left, ["later"]);
}

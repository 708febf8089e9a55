//! `ledger verify` after Redis's clock went back.

use budget_authority::tools::verify::verify;

use crate::harness::past_day::{End, PastDay};
use crate::harness::redis::shared;
use crate::harness::store;

/// A hold that began an hour ahead of the clock, and one that ended there.
#[tokio::test]
async fn a_ledger_with_records_from_before_the_clock_was_set_back_is_uncertain() {
    for ended in [false, true] {
        let store = store(&shared().url());
        let mut past = PastDay::new(&store, 0).await;
        let (end, figures) = match ended {
            false => (End::Active, ["reserved", "10", "remaining", "90"]),
            true => (
                End::Committed {
                    charged: 7,
                    debt: 0,
                },
                ["spent", "7", "remaining", "93"],
            ),
        };
        let later_ms = past.now_ms + 3_600_000;
        let id = past.record(end, later_ms).await;
        let tenant = &past.tenant;
        let later = later_ms.to_string();
        let (ledger, record) = (tenant.ledger_key(), tenant.reservation_key(&id));
        let mut fields = vec![
            "HSET",
            ledger.as_str(),
            "allocated",
            "100",
            "overdraft_limit",
            "0",
        ];
        fields.extend(["reserved", "0", "spent", "0", "debt", "0"]);
        fields.extend(figures);
        tenant.run::<i64>(&fields).await;
        let listed = store.keys().budgets(past.lease.partition, "acme");
        let entry = "tenant:acme 1 TOKENS";
        tenant.run::<i64>(&["ZADD", &listed, "0", entry]).await;
        if !ended {
            let created = ["HSET", &record, "created_at_ms", &later];
            tenant.run::<i64>(&created).await;
            tenant
                .run::<i64>(&["ZADD", &past.index(), &later, &id])
                .await;
        }
        let found = verify(&store, None, |_| {}).await.expect("Redis answers");
        let ledgers = found.differences.iter().filter(|d| d.what == "ledger");
        assert_eq!(ledgers.count(), 0, "{:?}", found.differences);
        assert_eq!(found.unsettled, ["acme tenant:acme TOKENS"]);
        assert!(!found.is_right());
        let text = found.table(false);
        let stated = "acme tenant:acme TOKENS: unsettled, the clock went back";
        assert!(text.contains(stated), "{text}");
    }
}

//! A damaged intent of a close is not resumed, and nothing is half done.

use std::time::Duration;

use budget_authority::admin::tenants::closing::{CloseProgress, Closer};

use crate::harness::tenant_fixture::TenantFixture;

#[tokio::test]
async fn a_close_with_a_damaged_intent_changes_nothing() {
    for (phase, field, value, says) in [
        (
            "reservations",
            "reservations_released",
            "some",
            "reservations",
        ),
        ("budgets", "budgets_closed", "some", "budgets"),
        ("budgets", "offset", "x", "budgets"),
        ("budgets", "failures", "-", "budgets"),
        ("webhooks", "webhooks_disabled", "1.5", "webhooks"),
        ("api_keys", "api_keys_revoked", "x", "api_keys"),
        ("end", "audit", "x", "audit is no number"),
        ("end", "correlation_id", "", "end"),
        ("end", "previous_status", "", "end"),
    ] {
        let tenant = TenantFixture::new().await;
        tenant.budget("/agent:a", 100).await;
        tenant.webhook("whsub_1", "ACTIVE").await;
        tenant.flip().await;
        let intent = tenant.keys().closing(tenant.id.partition(), tenant.name());
        tenant.run::<i64>(&["HSET", &intent, "phase", phase]).await;
        match value {
            "" => tenant.run::<i64>(&["HDEL", &intent, field]).await,
            value => tenant.run::<i64>(&["HSET", &intent, field, value]).await,
        };
        let before = tenant.account().await;
        let went = Closer::new(&tenant.store, &tenant.id, None)
            .run(Duration::from_secs(5))
            .await;
        let outcome = match went {
            Ok(CloseProgress::Incomplete { failed, .. }) => failed.join(" "),
            Ok(progress) => panic!("{phase} {field}: {progress:?}"),
            Err(error) => error.to_string(),
        };
        assert!(outcome.contains(says), "{phase} {field}: {outcome}");
        let after = tenant.account().await;
        assert_eq!(after.ledgers, before.ledgers, "{phase} {field}");
        assert_eq!(after.webhooks, before.webhooks, "{phase} {field}");
        assert_eq!(after.events, before.events, "{phase} {field}");
    }
}

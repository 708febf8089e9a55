//! How many lists of one tenant may be sorted at the same time.

use std::time::Duration;

use serde_json::json;

use super::cursors::complete;
use crate::harness::app::TestApp;
use crate::harness::redis::RedisServer;
use crate::harness::redis_fixture::now_ms;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::slow_proxy::SlowProxy;
use crate::harness::tenant_fixture::TenantFixture;

const SORTED: &str = "/v1/reservations?sort_by=reserved";

#[tokio::test]
async fn a_tenant_sorts_two_lists_at_once_and_delays_no_other_tenant() {
    let server = RedisServer::start();
    let way = SlowProxy::to(server.port).await;
    let app = TestApp::spawn_on(&way.url(), LONG_REDIS_TIMEOUT).await;
    for name in ["acme", "bolt"] {
        let mut tenant = TenantFixture::bare(&app.store, name).await;
        let now = now_ms(&app.store).await;
        tenant.write_holds(1_000, now + 60_000).await;
        complete(&app, &tenant).await;
    }
    // The three are then sorted at the same time.
    way.delay(Duration::from_millis(250));
    let own = || app.get(SORTED);
    let (first, second, third, others) = tokio::join!(own(), own(), own(), app.get_as(1, SORTED));
    way.delay(Duration::ZERO);
    others.expect(200);
    let mut lists = [first, second, third];
    lists.sort_by_key(|list| list.status);
    let [first, second, refused] = lists;
    first.expect(200);
    second.expect(200);
    assert_eq!(refused.error(), (429, "LIMIT_EXCEEDED"), "{refused:?}");
    assert_eq!(refused.at("/details"), &json!({"limit": 2, "present": 2}));
    assert_eq!(refused.header("retry-after"), Some("1"), "{refused:?}");
    assert!(refused.header("x-ratelimit-reset").is_some(), "{refused:?}");
    assert_eq!(
        refused.text("/message"),
        "Too many lists at the same time: 2 are already being sorted for acme, which is the limit; try again in 1 s, \
         or narrow the list with from and to, or sort by created_at_ms"
    );
    let counted = "budget_limit_refusals_total{limit=\"gathering_lists\"} 1\n";
    let metrics = app.telemetry.render().expect("metrics");
    assert!(metrics.contains(counted), "{metrics}");
    app.get(SORTED).await.expect(200);
}

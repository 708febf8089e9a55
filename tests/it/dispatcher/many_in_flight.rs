//! A dispatcher has as many deliveries in flight as it says, without a thread for each.

use std::fs;
use std::ops::Range;
use std::time::Duration;

use serde_json::json;

use super::process::Dispatcher;
use crate::admin::webhooks::subscriptions::{HOOKS, made};
use crate::harness::deliveries::{fund, here};
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::within;

/// Lanes: of each subscription one for each tenant, as many as may be in flight to a subscription.
const SUBSCRIPTIONS: usize = 40;
const TENANTS: usize = 64;

/// Half of the 4,000: an owner that has as many in flight as are free gets no more of a subscription that has any. One call claims 64.
const IN_FLIGHT: Range<usize> = 2_000..2_064;

/// Far more than it has, and far fewer than deliveries.
const THREADS_MAX: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dispatcher_has_4000_deliveries_in_flight_half_of_one_owner_and_no_thread_for_each_timed()
{
    let app = here().await;
    let (slow, good) = (
        Receiver::start(Reply::Silence).await,
        Receiver::start(Reply::Status(200, "")).await,
    );
    let body = json!({"url": slow.url("/in"), "event_types": ["tenant.created"]});
    for _ in 0..SUBSCRIPTIONS {
        app.post_as_admin(HOOKS, body.clone()).await.expect(201);
    }
    let dispatcher = Dispatcher::start(&app.store);
    for number in 0..TENANTS {
        let tenant = json!({"tenant_id": format!("many-{number}"), "name": "Many"});
        app.post_as_admin("/v1/admin/tenants", tenant)
            .await
            .expect(201);
    }
    // An attempt lasts 30 seconds here.
    const SOON: Duration = Duration::from_secs(25);
    within(SOON, "they are in flight together", || async {
        let open = slow.open();
        IN_FLIGHT.contains(&open).then_some(()).ok_or(open)
    })
    .await;
    let body = json!({"url": good.url("/in"), "event_types": ["budget.funded"]});
    made(&app, body).await;
    fund(&app, 3).await;
    within(SOON, "another owner has room", || async {
        good.arrived().len() == 3
    })
    .await;
    let open = slow.open();
    assert!(IN_FLIGHT.contains(&open), "{open} in flight");
    assert_eq!(slow.arrived().len(), open, "each once");
    let counted = dispatcher.metric("budget_webhook_in_flight").await;
    assert!(counted >= Some(open as f64), "{counted:?}");
    let threads = threads_of(dispatcher.process_id());
    assert!(threads < THREADS_MAX, "{threads} threads");
    println!("{open} in flight, {threads} threads");
}

fn threads_of(process: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    tasks.expect("it runs").count()
}

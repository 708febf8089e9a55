//! Slow receivers leave room for the others of any owner.

use std::time::Duration;

use serde_json::json;

use super::noisy_tenants::{quiet, update};
use crate::admin::webhooks::subscriptions::HOOKS;
use crate::harness::app::TestApp;
use crate::harness::deliveries::{RunningDispatcher, fund, here};
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::{eventually, within};

/// An attempt that gets no response takes 30 seconds.
const SOON: Duration = Duration::from_secs(25);

async fn subscribe(app: &TestApp, tenant: &str, receiver: &Receiver, event_type: &str) {
    let body = json!({"url": receiver.url("/in"), "event_types": [event_type]});
    let path = format!("{HOOKS}?tenant_id={tenant}");
    app.post_as_admin(&path, body).await.expect(201);
}

/// Waits until a receiver has this many requests.
async fn has(receiver: &Receiver, count: usize) {
    eventually("they are in flight", || async {
        receiver.arrived().len() >= count
    })
    .await;
}

/// Waits until each of this many events has arrived, one after the other.
async fn arrive_soon(receiver: &Receiver, app: &TestApp, tenant: &str) {
    for count in 1..4 {
        update(app, tenant).await;
        within(SOON, "the good receiver gets its event", || async {
            receiver.arrived().len() == count
        })
        .await;
    }
}

#[tokio::test]
async fn slow_receivers_of_one_tenant_delay_no_other_tenant() {
    let app = here().await;
    let (slow, good) = (
        Receiver::start(Reply::Silence).await,
        Receiver::start(Reply::Status(200, "")).await,
    );
    let name = quiet(&app).await;
    subscribe(&app, &name, &good, "tenant.updated").await;
    for _ in 0..24 {
        subscribe(&app, "umbra", &slow, "budget.funded").await;
    }
    let _running = RunningDispatcher::with_room(&app, 16);
    fund(&app, 2).await;
    has(&slow, 12).await;
    arrive_soon(&good, &app, &name).await;
    assert_eq!(slow.arrived().len(), 12);
}

#[tokio::test]
async fn slow_receivers_delay_no_other_receiver_of_their_tenant() {
    let app = here().await;
    let (slow, good) = (
        Receiver::start(Reply::Silence).await,
        Receiver::start(Reply::Status(200, "")).await,
    );
    for _ in 0..12 {
        subscribe(&app, "umbra", &slow, "budget.funded").await;
    }
    subscribe(&app, "umbra", &good, "tenant.updated").await;
    fund(&app, 20).await;
    let _running = RunningDispatcher::with(&app, 16, 64);
    has(&slow, 32).await;
    arrive_soon(&good, &app, "umbra").await;
}

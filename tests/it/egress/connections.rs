//! Connections that are kept for the next delivery.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use budget_authority::egress::{Limits, PostError};

use super::{LIMITS, arrived, deliver, deliver_within, here, status};
use crate::harness::receiver::{Receiver, Reply, trusting_egress};

#[tokio::test]
async fn w22_deliveries_to_one_subscription_share_a_connection() {
    let egress = here();
    for reply in [
        Reply::Status(200, ""),
        Reply::Status(204, ""),
        Reply::Status(500, ""),
        Reply::Bytes(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".to_owned(),
        ),
    ] {
        let receiver = Receiver::start(reply.clone()).await;
        for _ in 0..5 {
            status(&egress, &receiver).await.expect("a response");
        }
        let arrived = receiver.arrived();
        assert_eq!((receiver.accepted(), arrived.len()), (1, 5), "{reply:?}");
        for request in arrived {
            assert_eq!(request.line, "POST /in HTTP/1.1");
            assert_eq!(request.body, b"{\"a\":1}");
            let host = receiver.address.to_string();
            assert_eq!(request.header("host"), Some(host.as_str()));
            assert_eq!(request.header("content-length"), Some("7"));
        }
    }
}

#[tokio::test]
async fn subscriptions_and_host_names_do_not_share_connections() {
    let egress = here();
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let port = receiver.address.port();
    let url = |host: &str| format!("http://{host}:{port}/");
    for (to, host) in [
        ("one", "a.test"),
        ("two", "a.test"),
        ("one", "b.test"),
        ("one", "127.0.0.1"),
        ("one", "A.test"),
        ("two", "a.test"),
    ] {
        deliver(&egress, to, &url(host)).await.expect("a response");
    }
    assert_eq!(receiver.accepted(), 4);
}

#[tokio::test]
async fn concurrent_deliveries_use_separate_connections_that_are_reused() {
    let egress = here();
    let receiver = Receiver::start(Reply::After(Duration::from_secs(1))).await;
    for _ in 0..2 {
        let (a, b, c) = tokio::join!(
            status(&egress, &receiver),
            status(&egress, &receiver),
            status(&egress, &receiver)
        );
        assert_eq!((a, b, c), (Ok(200), Ok(200), Ok(200)));
        assert_eq!(receiver.accepted(), 3);
    }
}

#[tokio::test]
async fn a_connection_that_the_receiver_closes_between_two_requests_is_replaced() {
    let egress = here();
    let receiver = Receiver::start(Reply::Last(200)).await;
    for _ in 0..20 {
        assert_eq!(status(&egress, &receiver).await, Ok(200));
    }
    assert_eq!((receiver.accepted(), receiver.arrived().len()), (20, 20));
}

#[tokio::test]
async fn w22_a_request_on_a_closed_idle_connection_is_sent_once_more_in_the_same_attempt() {
    let egress = here();
    let receiver = Receiver::start(Reply::Times(1)).await;
    assert_eq!(status(&egress, &receiver).await, Ok(200));
    assert_eq!(status(&egress, &receiver).await, Ok(200));
    // The second request arrived twice.
    assert_eq!((receiver.accepted(), receiver.arrived().len()), (2, 3));
    // A new connection that ends without a response is not repeated.
    let rude = Receiver::start(Reply::HangUp).await;
    assert_eq!(status(&egress, &rude).await, Err(PostError::NoResponse));
    assert_eq!((rude.accepted(), rude.arrived().len()), (1, 1));
}

#[tokio::test]
async fn a_request_with_a_partial_response_is_not_sent_again() {
    let egress = here();
    let receiver = Receiver::start(Reply::HalfLater).await;
    assert_eq!(status(&egress, &receiver).await, Ok(200));
    let second = status(&egress, &receiver).await;
    assert_eq!(second, Err(PostError::NoResponse));
    assert_eq!((receiver.accepted(), receiver.arrived().len()), (1, 2));
}

#[tokio::test]
async fn a_closing_response_leads_to_a_new_connection() {
    let egress = here();
    for reply in [
        Reply::Status(200, "Connection: close\r\n"),
        Reply::Bytes("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()),
    ] {
        let receiver = Receiver::start(reply.clone()).await;
        for expected in 1..=3 {
            assert_eq!(status(&egress, &receiver).await, Ok(200), "{reply:?}");
            assert_eq!(receiver.accepted(), expected, "{reply:?}");
        }
        receiver.all_closed().await;
    }
}

#[tokio::test]
async fn a_connection_to_a_newly_blocked_address_is_not_used() {
    let last = Arc::new(AtomicU8::new(1));
    let now = Arc::clone(&last);
    let egress =
        trusting_egress(move |_| vec![IpAddr::from([127, 0, 0, now.load(Ordering::SeqCst)])]);
    let receiver = Receiver::start_everywhere(Reply::Status(200, "")).await;
    let url = format!("http://moves.test:{}/", receiver.address.port());
    for (address, accepted) in [(1, 1), (1, 1), (2, 2), (2, 2), (1, 2), (3, 3)] {
        last.store(address, Ordering::SeqCst);
        let delivered = deliver(&egress, "one", &url).await;
        assert_eq!(delivered.map(|posted| posted.status), Ok(200));
        assert_eq!(receiver.accepted(), accepted, "127.0.0.{address}");
    }
}

#[tokio::test]
async fn tls_connections_are_reused() {
    let egress = here();
    let receiver = Receiver::start_with_tls(Reply::Status(200, "")).await;
    let url = format!("https://localhost:{}/", receiver.address.port());
    for _ in 0..3 {
        let delivered = deliver(&egress, "one", &url).await;
        assert_eq!(delivered.map(|posted| posted.status), Ok(200));
    }
    assert_eq!((receiver.accepted(), receiver.arrived().len()), (1, 3));
    let rude = Receiver::start_with_tls(Reply::Times(1)).await;
    let url = format!("https://localhost:{}/", rude.address.port());
    for _ in 0..2 {
        let delivered = deliver(&egress, "one", &url).await;
        assert_eq!(delivered.map(|posted| posted.status), Ok(200));
    }
    assert_eq!((rude.accepted(), rude.arrived().len()), (2, 3));
}

#[tokio::test]
async fn connections_close_with_the_egress_and_with_an_abandoned_attempt() {
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let egress = here();
    assert_eq!(status(&egress, &receiver).await, Ok(200));
    assert_eq!(receiver.open(), 1);
    drop(egress);
    receiver.all_closed().await;
    let silent = Receiver::start(Reply::Silence).await;
    let egress = here();
    let limits = Limits {
        total: Duration::from_millis(300),
        ..LIMITS
    };
    let delivered = deliver_within(&egress, "one", &silent.url("/"), limits).await;
    assert_eq!(delivered, Err(PostError::Timeout));
    silent.all_closed().await;
    // Dropped by its caller.
    tokio::select! {
        _ = status(&egress, &silent) => panic!("it is silent"),
        () = arrived(&silent, 2) => {}
    }
    silent.all_closed().await;
    assert_eq!(silent.accepted(), 2);
}

#[tokio::test]
async fn a_thousand_deliveries_wait_for_a_slow_receiver_concurrently() {
    let egress = here();
    // All are sent before the first is done: no connection is free for another.
    let receiver = Receiver::start(Reply::After(Duration::from_secs(10))).await;
    let limits = Limits {
        connect: Duration::from_secs(30),
        total: Duration::from_secs(60),
    };
    let begun = Instant::now();
    let mut under_way = tokio::task::JoinSet::new();
    for number in 0..1_000 {
        let (egress, url) = (egress.clone(), receiver.url("/"));
        let to = format!("subscription {}", number % 20);
        under_way.spawn(async move { deliver_within(&egress, &to, &url, limits).await });
    }
    arrived(&receiver, 1_000).await;
    while let Some(delivered) = under_way.join_next().await {
        let delivered = delivered.expect("no panic").expect("a response");
        assert_eq!(delivered.status, 200);
    }
    assert_eq!(receiver.accepted(), 1_000);
    assert!(begun.elapsed() < Duration::from_secs(50));
}

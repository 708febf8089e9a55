//! Where a request goes, and in which order addresses are tried.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use budget_authority::egress::{Limits, PostError};
use tokio::net::{TcpSocket, TcpStream};

use super::{deliver, deliver_within, here};
use crate::harness::receiver::{Receiver, Reply, trusting_egress};

#[tokio::test]
async fn a_certificate_for_another_name_fails_the_attempt() {
    let egress = here();
    let receiver = Receiver::start_with_tls(Reply::Status(200, "")).await;
    let port = receiver.address.port();
    for (host, expected) in [
        ("localhost", Ok(200)),
        ("127.0.0.1", Ok(200)),
        ("localhost.", Ok(200)),
        ("other.test", Err(PostError::Tls)),
    ] {
        let url = format!("https://{host}:{port}/");
        let delivered = deliver(&egress, "one", &url).await;
        assert_eq!(delivered.map(|posted| posted.status), expected, "{host}");
    }
    assert_eq!(receiver.arrived().len(), 3);
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let egress = trusting_egress(|_| vec![[127, 0, 0, 9].into(), [127, 0, 0, 1].into()]);
    let url = format!("http://two.test:{}/", receiver.address.port());
    for _ in 0..2 {
        let delivered = deliver(&egress, "one", &url).await;
        assert_eq!(delivered.map(|posted| posted.status), Ok(200));
    }
    assert_eq!(receiver.accepted(), 1);
}

#[tokio::test]
async fn an_address_that_drops_packets_takes_only_its_share_of_the_time() {
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let port = receiver.address.port();
    let dropping = SocketAddr::from(([127, 0, 0, 9], port));
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(dropping).expect("a port");
    // A queue that is full drops what else comes.
    let _listener = socket.listen(1).expect("a listener");
    let mut waiting = Vec::new();
    let limit = Duration::from_millis(200);
    while let Ok(connected) = tokio::time::timeout(limit, TcpStream::connect(dropping)).await {
        waiting.push(connected);
        assert!(waiting.len() < 20, "the queue is never full");
    }
    let dead = IpAddr::from([127, 0, 0, 9]);
    let egress = trusting_egress(move |host| match host {
        "two.test" => vec![dead, [127, 0, 0, 1].into()],
        _ => vec![dead],
    });
    let limits = Limits {
        connect: Duration::from_secs(8),
        total: Duration::from_secs(30),
    };
    let begun = Instant::now();
    let url = format!("http://two.test:{port}/");
    let delivered = deliver_within(&egress, "one", &url, limits).await;
    assert_eq!(delivered.map(|posted| posted.status), Ok(200));
    assert!(begun.elapsed() < Duration::from_millis(7_900));
    let url = format!("http://one.test:{port}/");
    let delivered = deliver_within(&egress, "one", &url, limits).await;
    assert_eq!(delivered, Err(PostError::Unreachable));
}

//! The responses of a receiver.

use std::time::{Duration, Instant};

use budget_authority::egress::{Limits, PostError};

use super::{LIMITS, deliver, deliver_within, here, status};
use crate::harness::receiver::{Receiver, Reply};

/// The status of two deliveries in a row to a receiver that always sends these bytes, and how many connections they took.
async fn deliver_twice(reply: Reply) -> (Result<u16, PostError>, Result<u16, PostError>, usize) {
    let egress = here();
    let receiver = Receiver::start(reply).await;
    let first = status(&egress, &receiver).await;
    let second = status(&egress, &receiver).await;
    (first, second, receiver.accepted())
}

fn bytes(text: &str) -> Reply {
    Reply::Bytes(text.to_owned())
}

#[tokio::test]
async fn every_status_is_reported_and_only_2xx_is_a_success() {
    let egress = here();
    for code in [
        200, 201, 202, 204, 206, 226, 299, 300, 301, 304, 307, 308, 399, 400, 401, 404, 410, 429,
        499, 500, 502, 503, 599, 600, 999,
    ] {
        let receiver = Receiver::start(Reply::Status(code, "Retry-After: 9\r\n")).await;
        let posted = deliver(&egress, "one", &receiver.url("/")).await;
        let posted = posted.expect("a response");
        assert_eq!(posted.status, code);
        assert_eq!(posted.is_success(), (200..300).contains(&code), "{code}");
    }
}

#[tokio::test]
async fn a_redirect_is_a_response_and_is_not_followed() {
    let egress = here();
    let elsewhere = Receiver::start(Reply::Status(200, "")).await;
    let location: &'static str = format!("Location: {}\r\n", elsewhere.url("/")).leak();
    for code in [301, 302, 303, 307, 308] {
        let receiver = Receiver::start(Reply::Status(code, location)).await;
        assert_eq!(status(&egress, &receiver).await, Ok(code));
        assert_eq!(receiver.arrived().len(), 1);
    }
    assert_eq!(elsewhere.accepted(), 0);
}

#[tokio::test]
async fn interim_responses_are_skipped() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                   HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(deliver_twice(bytes(interim)).await, (Ok(202), Ok(202), 1));
}

#[tokio::test]
async fn w21_the_head_decides_though_the_body_drips_or_never_ends() {
    let egress = here();
    for reply in [Reply::Drip, Reply::Flood] {
        let (mut head, mut whole) = (Duration::MAX, Duration::MAX);
        // A busy machine may take longer: the fastest of ten counts.
        for _ in 0..10 {
            let receiver = Receiver::start(reply.clone()).await;
            let begun = Instant::now();
            let posted = deliver(&egress, "one", &receiver.url("/")).await;
            whole = whole.min(begun.elapsed());
            let posted = posted.expect("a response");
            assert_eq!(posted.status, 200, "{reply:?}");
            head = head.min(posted.took);
            // Its connection is closed, and not used again.
            receiver.all_closed().await;
            assert_eq!(status(&egress, &receiver).await, Ok(200), "{reply:?}");
            assert_eq!(receiver.accepted(), 2, "{reply:?}");
            if head < Duration::from_millis(900) && whole < Duration::from_secs(3) {
                break;
            }
        }
        assert!(head < Duration::from_millis(900), "{reply:?}: {head:?}");
        assert!(whole < Duration::from_secs(3), "{reply:?}: {whole:?}");
    }
}

#[tokio::test]
async fn a_dripping_body_ends_at_the_deadline_of_the_exchange() {
    let egress = here();
    let limits = Limits {
        total: Duration::from_millis(300),
        ..LIMITS
    };
    let mut seen = Vec::new();
    // On a busy machine even the head may come too late: one of ten in time will do.
    for _ in 0..10 {
        let receiver = Receiver::start(Reply::Drip).await;
        let begun = Instant::now();
        let posted = deliver_within(&egress, "one", &receiver.url("/"), limits).await;
        let took = begun.elapsed();
        if posted.as_ref().is_ok_and(|posted| posted.status == 200)
            && took < Duration::from_millis(900)
        {
            return;
        }
        seen.push((posted.map(|posted| posted.status), took));
    }
    panic!("{seen:?}");
}

#[tokio::test]
async fn a_body_of_64_kib_is_read_to_its_end_and_a_longer_one_is_not() {
    let body = |length: usize| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        Reply::Bytes(head + &"x".repeat(length))
    };
    assert_eq!(deliver_twice(body(65_536)).await, (Ok(200), Ok(200), 1));
    assert_eq!(deliver_twice(body(65_537)).await, (Ok(200), Ok(200), 2));
}

#[tokio::test]
async fn a_wrong_length_keeps_the_status_and_closes_the_connection() {
    let long = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort";
    let ended = deliver_twice(Reply::BytesThenEnd(long.to_owned())).await;
    assert_eq!(ended, (Ok(200), Ok(200), 2));
    let waiting = deliver_twice(bytes(long)).await;
    assert_eq!(waiting, (Ok(200), Ok(200), 2));
    let short = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, and more than that";
    assert_eq!(deliver_twice(bytes(short)).await, (Ok(200), Ok(200), 2));
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nno length\r\n";
    assert_eq!(deliver_twice(bytes(chunks)).await, (Ok(200), Ok(200), 2));
    // Without a length, the body ends with the connection.
    let none = Reply::BytesThenEnd("HTTP/1.1 200 OK\r\n\r\nok".to_owned());
    assert_eq!(deliver_twice(none).await, (Ok(200), Ok(200), 2));
}

#[tokio::test]
async fn an_unrequested_response_is_not_used_for_a_later_request() {
    let two =
        "HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 x\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(deliver_twice(bytes(two)).await, (Ok(500), Ok(500), 2));
}

#[tokio::test]
async fn bytes_that_are_not_http_and_endless_heads_are_no_response() {
    let broken = Err(PostError::Malformed);
    for text in [
        "220 mail.example ESMTP\r\n",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "<html></html>\r\n\r\n",
    ] {
        assert_eq!(
            deliver_twice(bytes(text)).await,
            (broken, broken, 2),
            "{text}"
        );
    }
    let padded = |length: usize| {
        let pad = "x".repeat(length);
        bytes(&format!(
            "HTTP/1.1 200 OK\r\nX-Pad: {pad}\r\nContent-Length: 0\r\n\r\n"
        ))
    };
    assert_eq!(deliver_twice(padded(30_000)).await, (Ok(200), Ok(200), 1));
    assert_eq!(deliver_twice(padded(40_000)).await, (broken, broken, 2));
    let interim = |count: usize| {
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(count);
        bytes(&format!(
            "{interim}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        ))
    };
    assert_eq!(deliver_twice(interim(40)).await, (Ok(200), Ok(200), 1));
    assert_eq!(deliver_twice(interim(4_000)).await, (broken, broken, 2));
    let half = Reply::BytesThenEnd("HTTP/1.1 200 OK\r\nContent-".to_owned());
    let ended = Err(PostError::NoResponse);
    assert_eq!(deliver_twice(half).await, (ended, ended, 2));
}

#[tokio::test]
async fn an_unoffered_protocol_is_a_failure() {
    let upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
    let (first, second, accepted) = deliver_twice(bytes(upgrade)).await;
    assert!(first.is_err() || first == Ok(101), "{first:?}");
    assert_eq!((second, accepted), (first, 2));
}

#[tokio::test]
async fn cookies_are_not_sent_back_and_no_compression_is_offered() {
    let egress = here();
    let receiver = Receiver::start(Reply::Status(200, "Set-Cookie: a=b\r\n")).await;
    for _ in 0..2 {
        status(&egress, &receiver).await.expect("a response");
    }
    for request in receiver.arrived() {
        let mut names: Vec<_> = request.headers.iter().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, ["content-length", "content-type", "host"]);
    }
}

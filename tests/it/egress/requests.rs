//! The requests that a receiver gets.

use reqwest::header::{HeaderName, HeaderValue};

use super::{LIMITS, here, outgoing, send};
use crate::harness::receiver::{Receiver, Reply};

#[tokio::test]
async fn a_request_has_one_host_one_length_and_no_line_break_in_its_path() {
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let url = receiver.url("/in/%0d%0aX:%20y?q='\"<é>|^{}`");
    let mut outgoing = outgoing("{}");
    for (name, value) in [
        ("host", "b.test"),
        ("content-length", "9"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("x-team", "a b"),
    ] {
        let value = HeaderValue::from_static(value);
        outgoing
            .headers
            .append(HeaderName::from_static(name), value);
    }
    let delivered = send(&here(), "one", &url, outgoing, LIMITS).await;
    assert_eq!(delivered.map(|response| response.status), Ok(200));
    let [request] = &receiver.arrived()[..] else {
        panic!("one request");
    };
    let mut headers = request.headers.clone();
    headers.sort();
    let host = receiver.address.to_string();
    let expected = [
        ("content-length", "2"),
        ("content-type", "application/json"),
        ("host", &host),
        ("x-team", "a b"),
    ];
    assert_eq!(
        headers,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    assert_eq!(request.body, b"{}");
    let words: Vec<&str> = request.line.split(' ').collect();
    assert_eq!((words[0], words[2], words.len()), ("POST", "HTTP/1.1", 3));
    assert!(words[1].bytes().all(|byte| byte.is_ascii_graphic()));
}

//! Headers that are wrong, contradict the body or are too large.

use std::time::Duration;

use budget_authority::domain::ids::Partition;
use reqwest::header::HeaderValue;
use serde_json::json;

use super::Target;
use crate::harness::eventually;

#[tokio::test]
async fn only_json_in_utf_8_is_accepted() {
    let target = Target::new().await;
    for operation in &target.operations {
        let body = operation.body.to_string();
        let request = |content_type: &[u8]| {
            let value = HeaderValue::from_bytes(content_type).expect("a header value");
            let request = target.app.request(reqwest::Method::POST, &operation.path);
            let request = request.header(target.app.names.key, &target.app.keys[0]);
            request.header("Content-Type", value).body(body.clone())
        };
        for other in [
            &b"text/plain"[..],
            b"text/json",
            b"application/xml",
            b"application/x-www-form-urlencoded",
            b"multipart/form-data; boundary=x",
            b"application/jsonx",
            b"application/json2; charset=utf-8",
            b"application/problem+json",
            b"application/json, application/json",
            b"*/*",
            b"application/*",
            b"json",
            b"application/json; charset=latin1",
            b"application/json; charset=iso-8859-1",
            b"application/json; charset=utf-16",
            b"application/json;charset=\"utf-16\"",
            b"application/json; charset=",
            b"application/json; x=y; CHARSET=UTF-7",
            b"application/json; charset=utf-8; charset=utf-16",
            b"\xff\xfe",
        ] {
            let what = format!("{}: {:?}", operation.name, String::from_utf8_lossy(other));
            target.refused_with(&what, request(other), 415).await;
        }
        for good in [
            &b"application/json"[..],
            b"APPLICATION/JSON",
            b"application/json;charset=utf-8",
            b"application/json; charset=UTF-8",
            b"application/json ; charset=\"utf-8\"",
            b"application/json; profile=x",
            b" ",
        ] {
            let what = format!("{}: {:?}", operation.name, String::from_utf8_lossy(good));
            target
                .accepted(&what, request(good), operation.success)
                .await;
        }
        let request = target.app.request(reqwest::Method::POST, &operation.path);
        let request = request.header(target.app.names.key, &target.app.keys[0]);
        target
            .accepted("no type", request.body(body), operation.success)
            .await;
    }
}

#[tokio::test]
async fn a_compressed_body_is_refused_naming_its_encoding() {
    let target = Target::new().await;
    for operation in &target.operations {
        for (encoding, named) in [("gzip", "gzip"), ("BR", "BR"), ("nonsense", "nonsense")] {
            let request = target.request(operation).body(operation.body.to_string());
            let request = request.header("Content-Encoding", encoding);
            let refused = target.refused_with(encoding, request, 415).await;
            assert!(refused.text("/message").contains(named), "{refused:?}");
        }
    }
    let create = &target.operations[0];
    let plain = target.request(create).body(create.body.to_string());
    let plain = plain.header("Content-Encoding", "identity");
    target.accepted("identity", plain, create.success).await;
}

#[tokio::test]
async fn the_idempotency_header_repeats_the_bodys_key_or_is_absent() {
    let target = Target::new().await;
    for operation in &target.operations {
        let body = operation.body.to_string();
        let request = |values: &[&[u8]]| {
            let mut request = target.request(operation).body(body.clone());
            for value in values {
                let value = HeaderValue::from_bytes(value).expect("a header value");
                request = request.header("X-Idempotency-Key", value);
            }
            request
        };
        let own = operation.name.as_bytes();
        let upper = operation.name.to_uppercase();
        let (long, longest) = (vec![b'k'; 257], vec![b'k'; 256]);
        for values in [
            &[&b"other"[..]][..],
            &[upper.as_bytes()],
            &[&own[1..]],
            &[b""],
            &[b"   "],
            &[&long],
            &[&longest],
            &[b"\xff\xfe"],
            &["é".as_bytes()],
            &[own, b"other"],
            &[b"other", own],
            &[own, b""],
        ] {
            let what = format!("{}: {values:?}", operation.name);
            target
                .refused(&what, request(values), &["X-Idempotency-Key"])
                .await;
        }
        let what = format!("{}: the same", operation.name);
        target
            .accepted(&what, request(&[own]), operation.success)
            .await;
        target
            .accepted(&what, request(&[own, own]), operation.success)
            .await;
        target
            .accepted(&what, request(&[]), operation.success)
            .await;
    }
}

#[tokio::test]
async fn the_header_alone_is_not_enough_and_a_refused_key_stays_unused() {
    let target = Target::new().await;
    let create = &target.operations[0];
    let mut body = create.body.clone();
    body.as_object_mut()
        .expect("an object")
        .remove("idempotency_key");
    let request = target.request(create).header("X-Idempotency-Key", "create");
    let request = request.body(body.to_string());
    target
        .refused("the header alone", request, &["idempotency_key"])
        .await;
    let request = target.request(create).header("X-Idempotency-Key", "other");
    let request = request.body(create.body.to_string());
    target
        .refused("another", request, &["X-Idempotency-Key"])
        .await;
    let mut body = create.body.clone();
    body["estimate"]["amount"] = json!(11);
    let request = target.request(create).body(body.to_string());
    target.accepted("another payload", request, 200).await;
}

#[tokio::test]
async fn an_idempotency_key_may_have_any_characters() {
    let target = Target::new().await;
    let create = &target.operations[0];
    let mut ids = Vec::new();
    for key in [
        "\0", "\r\nX: y", "../..", "{tag}", "\u{202e}", "a", "a ", "漢", "%00", " ",
    ] {
        let mut body = create.body.clone();
        body["idempotency_key"] = json!(key);
        for _ in 0..2 {
            let request = target.request(create).body(body.to_string());
            let response = target.accepted(key, request, 200).await;
            ids.push(response.text("/reservation_id").to_owned());
        }
    }
    for pair in ids.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 10);
}

#[tokio::test]
async fn credentials_of_any_bytes_are_401_and_never_repeated() {
    let target = Target::new().await;
    // The first bad key of a minute emits an event; those after it are counted by the replica alone.
    let store = &target.app.store;
    target
        .app
        .with_left_in_minute(Duration::from_secs(30))
        .await;
    target.app.get_with("first", "/v1/reservations").await;
    let outbox = store.keys().outbox(Partition::FIRST);
    eventually("the first emits an event", async || {
        let text: i64 = target.app.run(&["XLEN", &outbox]).await;
        text > 0
    })
    .await;
    target.take_state().await;
    let good = target.app.keys[0].as_bytes();
    let huge = vec![b'k'; 30_000];
    for key in [
        &b"\xff\xfe\xfd"[..],
        "sk_live_é".as_bytes(),
        b"a\tb",
        b"Bearer x",
        b"*",
        b"' OR 1=1 --",
        b"${jndi:ldap://x}",
        b"{05f}:apikey:*",
        &huge,
        &[good, b",", good].concat(),
        &[good, b"\t", good].concat(),
    ] {
        for (name, path) in [
            (target.app.names.key, "/v1/reservations"),
            ("X-Admin-API-Key", "/v1/reservations"),
            ("X-Admin-API-Key", "/v1/reservations/x"),
        ] {
            let value = HeaderValue::from_bytes(key).expect("a header value");
            let request = target.app.request(reqwest::Method::GET, path);
            let response = target
                .app
                .send(request.header(name, value))
                .await
                .refused(401, "UNAUTHORIZED");
            target.check_echo("a credential", response.text("/message"));
            let text = response.body.to_string();
            assert!(!text.contains("jndi") && !text.contains("kkkk"), "{text}");
            target.unchanged("a credential").await;
        }
    }
}

#[tokio::test]
async fn no_header_of_a_request_comes_back_in_the_response() {
    let target = Target::new().await;
    for name in [
        "X-Request-Id",
        "traceparent",
        "tracestate",
        "Host",
        "Origin",
        "X-Forwarded-For",
        "X-Service-Tenant",
        "X-Cycles-Trace-Id",
        "User-Agent",
        "Referer",
        "Accept",
    ] {
        let request = target
            .app
            .request(reqwest::Method::GET, "/v1/reservations?limit=0");
        let request = request.header(target.app.names.key, &target.app.keys[0]);
        let response = target.app.send(request.header(name, "boomerang")).await;
        assert_eq!(response.status, 400, "{name}: {response:?}");
        let text = format!("{:?} {}", response.headers, response.body);
        assert!(!text.contains("boomerang"), "{name}: {text}");
    }
}

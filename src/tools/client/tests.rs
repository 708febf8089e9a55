use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::api::dialect::headers::ADMIN_KEY;
use crate::tools::setup::create_key;

/// A client of a service that responds once, with this status.
async fn client_of(status: &'static str) -> Client {
    let service = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", service.local_addr().expect("an address"));
    tokio::spawn(async move {
        let (mut stream, _) = service.accept().await.expect("a request");
        let _ = stream.read(&mut [0; 4096]).await;
        let body = r#"{"error":"CODE","message":"text"}"#;
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all((head + body).as_bytes()).await;
    });
    let url = base_url(&url).expect("a URL");
    Client::new(url, &ADMIN_KEY, &"key".into()).expect("a client")
}

#[tokio::test]
async fn waiting_for_the_service_ends_with_a_refusal() {
    let client = client_of("401 Unauthorized").await;
    let ready = client.is_ready_within(Duration::from_secs(60)).await;
    assert!(matches!(ready, Err(CallError::Refused(_))), "{ready:?}");
}

#[tokio::test]
async fn no_error_advises_creating_an_api_key_twice() {
    let client = client_of("500 Internal Server Error").await;
    let failed = create_key(&client, "acme", "name").await;
    let advice = failed.expect_err("a failure").to_string();
    assert!(
        advice.contains("`admin key list --tenant acme`"),
        "{advice}"
    );
}

#[test]
fn an_address_may_name_the_version_or_not() {
    for text in [
        "http://host:1",
        "http://host:1/",
        "http://host:1/v1",
        "http://host:1/v1/",
    ] {
        assert_eq!(base_url(text).expect(text).as_str(), "http://host:1/");
    }
    assert_eq!(
        base_url("https://host/budget/v1").expect("a URL").as_str(),
        "https://host/budget"
    );
    assert!(base_url("127.0.0.1:7878").is_err());
    assert!(base_url("ftp://host").is_err());
}

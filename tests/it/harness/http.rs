//! An HTTP client without certificates, for plain HTTP.

use reqwest::{Client, ClientBuilder, IntoUrl, Response};

/// A client without a timeout.
pub fn client() -> Client {
    builder().build().expect("a client")
}

/// A client of the test's choice.
pub fn builder() -> ClientBuilder {
    // Only says that another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().tls_certs_only([])
}

/// One `GET` by a client of its own.
pub async fn get(url: impl IntoUrl) -> reqwest::Result<Response> {
    client().get(url).send().await
}

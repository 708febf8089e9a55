//! The HTTP client of the tools: one request of the operations index at a time.

use std::error::Error;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue, WARNING};
use reqwest::{Certificate, ClientBuilder, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::call::{Call, CallError, Refusal};
use crate::api::dialect::headers::ADMIN_KEY;
use crate::api::operation::Operation;
use crate::api::operations::OperationId;
use crate::config::SecretSetting;
use crate::domain::dialect::Dialect;
use crate::domain::printable::printable_up_to;

/// The admin key, and the file that holds it.
pub(super) const KEY: SecretSetting =
    SecretSetting::new("BUDGET_ADMIN_KEY", "BUDGET_ADMIN_KEY_FILE");

/// How long a tool without a setting for it waits for a response.
pub(super) const RESPONSE_LIMIT: Duration = Duration::from_secs(30);

/// Reads are repeated for this long, because a service that failed may come back.
const READ_LIMIT: Duration = Duration::from_secs(15);

/// Pause before a request is repeated.
const PAUSE: Duration = Duration::from_millis(50);

/// Reads the address, with or without `/v1`.
pub(super) fn base_url(text: &str) -> Result<Url, String> {
    let plain = text.trim_end_matches('/');
    let plain = plain.strip_suffix("/v1").unwrap_or(plain);
    let url = Url::parse(plain).map_err(|_| "not a URL; write http://host:port".to_owned())?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        _ => Err("not a URL of a service; write http://host:port or https://host".to_owned()),
    }
}

/// A client of the service, under one key.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    url: Url,
    /// The headers of its keys.
    keys: HeaderMap,
}

impl Client {
    /// A client that connects with the first request, and sends `key` in the header `key_header`.
    ///
    /// # Errors
    /// [`CallError::Usage`] when the key cannot be sent.
    pub fn new(url: Url, key_header: &HeaderName, key: &SecretString) -> Result<Self, CallError> {
        let http = http(&url, RESPONSE_LIMIT, None)?;
        Self::over(http, url, key_header, key)
    }

    /// The same over an HTTP client.
    ///
    /// # Errors
    /// As for [`Client::new`].
    pub fn over(
        http: reqwest::Client,
        url: Url,
        key_header: &HeaderName,
        key: &SecretString,
    ) -> Result<Self, CallError> {
        let keys = HeaderMap::from_iter([(key_header.clone(), header_value(key)?)]);
        Ok(Self { http, url, keys })
    }

    /// Sends an API key in place of the other key, in the headers of all dialects.
    ///
    /// # Errors
    /// As for [`Client::new`].
    pub fn with_api_key(mut self, key: &str) -> Result<Self, CallError> {
        self.keys.clear();
        for dialect in Dialect::ALL {
            let header = &dialect.header_names().api_key;
            self.keys.insert(header, header_value(&key.into())?);
        }
        Ok(self)
    }

    /// Waits until the service responds and reaches its store; `false` when it does not within `limit`.
    ///
    /// # Errors
    /// [`CallError::Refused`] and others that waiting does not change.
    pub async fn is_ready_within(&self, limit: Duration) -> Result<bool, CallError> {
        let list = Call::of(OperationId::ListTenants).with("limit", Some(1));
        match timeout(limit, self.read_within(limit, &list)).await {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(CallError::Unavailable(_))) | Err(_) => Ok(false),
            Ok(Err(error)) => Err(error),
        }
    }

    /// Reads, and repeats the request for at most [`READ_LIMIT`] while the service fails or cannot be reached.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn read(&self, call: &Call) -> Result<Value, CallError> {
        self.read_within(READ_LIMIT, call).await
    }

    async fn read_within(&self, limit: Duration, call: &Call) -> Result<Value, CallError> {
        let deadline = Instant::now() + limit;
        loop {
            match self.send(call).await {
                Err(CallError::Unavailable(_)) if Instant::now() < deadline => sleep(PAUSE).await,
                read => return read,
            }
        }
    }

    /// Sends one request and returns the body of the response.
    pub async fn send(&self, call: &Call) -> Result<Value, CallError> {
        let (status, _, text) = self.exchange(call, HeaderMap::new()).await?;
        self.response(status, &text, call)
    }

    /// Sends one request for CSV, and returns it with the headers of the response.
    pub async fn csv(&self, call: &Call) -> Result<(HeaderMap, String), CallError> {
        let accept = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/csv"))]);
        let (status, headers, text) = self.exchange(call, accept).await?;
        if status.is_success() {
            return Ok((headers, text));
        }
        let refused = self.response(status, &text, call);
        Err(refused.err().unwrap_or_else(|| self.unreadable()))
    }

    /// Sends one request; status, headers and text of the response.
    async fn exchange(
        &self,
        call: &Call,
        headers: HeaderMap,
    ) -> Result<(StatusCode, HeaderMap, String), CallError> {
        let Operation { method, path, .. } = call.operation.operation();
        let id = call.id.as_deref().unwrap_or_default();
        // Such a segment would vanish from the path, which then names another operation.
        if call.id.is_some() && ["", ".", ".."].contains(&id) {
            return Err(CallError::Usage(format!("`{id}` is not an id")));
        }
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        let mut url = self.url.clone();
        url.path_segments_mut()
            .expect("a URL with a host")
            .pop_if_empty()
            .extend(segments.map(|segment| match segment.starts_with('{') {
                true => id,
                false => segment,
            }));
        let mut request = self
            .http
            .request(method.clone(), url)
            .query(&call.query)
            .headers(headers)
            .headers(self.keys.clone());
        if let Some(key) = &call.key {
            request = request.header("X-Idempotency-Key", key);
        }
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        let exchange = async {
            let response = request.send().await?;
            for warning in response.headers().get_all(WARNING) {
                let text = String::from_utf8_lossy(warning.as_bytes());
                eprintln!("warning: {}", printable_up_to(&text, usize::MAX));
            }
            let (status, headers) = (response.status(), response.headers().clone());
            Ok((status, headers, response.text().await?))
        };
        let exchanged = exchange.await;
        exchanged.map_err(|error| self.no_response(&error, call))
    }

    fn response(&self, status: StatusCode, text: &str, call: &Call) -> Result<Value, CallError> {
        let text = if text.is_empty() { "null" } else { text };
        let body: Option<Value> = serde_json::from_str(text).ok();
        if status.is_server_error() {
            let body = body.unwrap_or_default();
            let message = body["message"].as_str().unwrap_or("no message");
            let (url, status) = (printable(&self.url), status.as_u16());
            let advice = call.advice();
            return Err(CallError::Unavailable(format!(
                "the service at {url} failed: {status} {message}\n{advice}"
            )));
        }
        let body = body.ok_or_else(|| self.unreadable())?;
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_value(body) {
            Ok(refusal) if status.is_client_error() => Err(CallError::Refused(Refusal {
                status: status.as_u16(),
                used_admin_key: self.keys.contains_key(ADMIN_KEY),
                ..refusal
            })),
            _ => Err(self.unreadable()),
        }
    }

    fn no_response(&self, error: &reqwest::Error, call: &Call) -> CallError {
        let (url, reason) = (printable(&self.url), deepest_cause(error));
        CallError::Unavailable(match error.is_connect() || error.is_builder() {
            true => format!(
                "the service at {url} cannot be reached: {reason}\n--url, BUDGET_URL or a profile sets where it is"
            ),
            false => format!("no response from {url}: {reason}\n{}", call.advice()),
        })
    }

    /// The response lacks something that the protocol requires.
    pub fn unreadable(&self) -> CallError {
        CallError::Unreadable(printable(&self.url))
    }
}

/// The key as the value of a header.
///
/// # Errors
/// [`CallError::Usage`] when it holds characters that a header must not hold.
pub(super) fn header_value(key: &SecretString) -> Result<HeaderValue, CallError> {
    let mut value = HeaderValue::from_str(key.expose_secret()).map_err(|_| {
        CallError::Usage("the key holds characters that no header may hold".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Settings of every HTTP client: it follows no redirect.
pub(super) fn http_builder(timeout: Duration) -> ClientBuilder {
    // An error only says that the process has a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .timeout(timeout)
        .redirect(reqwest::redirect::Policy::none())
}

/// An HTTP client that trusts the system's authorities or those of a file; plain HTTP needs none.
pub(super) fn http(
    url: &Url,
    timeout: Duration,
    ca_file: Option<PathBuf>,
) -> Result<reqwest::Client, CallError> {
    let agent = concat!("budget-authority/", env!("CARGO_PKG_VERSION"));
    let mut builder = http_builder(timeout).user_agent(agent);
    if let Some(path) = ca_file {
        let refused = |reason: &dyn Display| {
            CallError::Usage(format!("--ca-file {}: {reason}", path.display()))
        };
        let pem = std::fs::read(&path).map_err(|error| refused(&error))?;
        let authorities = Certificate::from_pem_bundle(&pem).map_err(|error| refused(&error))?;
        builder = builder.tls_certs_only(authorities);
    } else if url.scheme() == "http" {
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| {
        let cause = deepest_cause(&error);
        CallError::Usage(format!("{cause}; name authorities with --ca-file"))
    })
}

/// The address without credentials and without a slash at its end.
pub(super) fn printable(url: &Url) -> String {
    let mut url = url.clone();
    let _ = (url.set_username(""), url.set_password(None));
    url.as_str().trim_end_matches('/').to_owned()
}

/// The deepest cause, which is the most precise one.
pub(super) fn deepest_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
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
}

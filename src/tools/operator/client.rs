//! The HTTP client of the operator's commands.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reqwest::header::HeaderValue;
use reqwest::{Certificate, Method, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::error::{OperatorError, Refusal, Retry};
use crate::api::dialect::headers::ADMIN_KEY;
use crate::api::operation::Operation;
use crate::api::operations::OperationId;

/// Rows per page; the service returns no more.
const PAGE: usize = 100;

/// Where the service is, and its admin key.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct Connection {
    /// URL of the admin plane
    #[arg(long, global = true, env = "BUDGET_URL", value_name = "URL", default_value = "http://127.0.0.1:7878", value_parser = base)]
    url: Url,
    /// Admin key
    #[arg(
        long,
        global = true,
        env = "BUDGET_ADMIN_KEY",
        value_name = "KEY",
        hide_env_values = true
    )]
    admin_key: Option<SecretString>,
    /// PEM file with the authorities that signed the service's certificate; replaces the system's
    #[arg(long, global = true, env = "BUDGET_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// How long to wait for a response, in seconds
    #[arg(long, global = true, value_name = "SECONDS", default_value = "30", value_parser = clap::value_parser!(u16).range(1..))]
    timeout: u16,
}

/// Reads the address, with or without `/v1`.
fn base(text: &str) -> Result<Url, String> {
    let plain = text.trim_end_matches('/');
    let plain = plain.strip_suffix("/v1").unwrap_or(plain);
    let url = Url::parse(plain).map_err(|_| "not a URL; write http://host:port".to_owned())?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        _ => Err("not a URL of a service; write http://host:port or https://host".to_owned()),
    }
}

/// The members of `args` that were given: neither null nor false nor empty.
pub(super) fn given(args: &impl Serialize) -> Map<String, Value> {
    let Ok(Value::Object(mut members)) = serde_json::to_value(args) else {
        return Map::new();
    };
    members.retain(|_, value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(entries) => !entries.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    });
    members
}

/// One request.
#[derive(Debug)]
pub(super) struct Call {
    operation: OperationId,
    /// The parameter of the path.
    id: Option<String>,
    query: Vec<(String, String)>,
    body: Option<Value>,
    retry: Retry,
}

impl Call {
    /// A request whose path has no parameter.
    pub fn of(operation: OperationId) -> Self {
        let retry = match operation.operation().method {
            Method::GET => Retry::Read,
            _ => Retry::Idempotent,
        };
        Self {
            operation,
            id: None,
            query: Vec::new(),
            body: None,
            retry,
        }
    }

    /// A request about the object `id`.
    pub fn to(operation: OperationId, id: String) -> Self {
        Self {
            id: Some(id),
            ..Self::of(operation)
        }
    }

    /// Adds a parameter, if there is a value.
    pub fn with(mut self, name: &str, value: Option<impl ToString>) -> Self {
        let value = value.map(|value| (name.to_owned(), value.to_string()));
        self.query.extend(value);
        self
    }

    /// Adds the given members of `parameters`.
    pub fn query(mut self, parameters: &impl Serialize) -> Self {
        for (name, value) in given(parameters) {
            let value = match value {
                Value::String(text) => text,
                value => value.to_string(),
            };
            self.query.push((name, value));
        }
        self
    }

    /// Sends the given members of `body`.
    pub fn body(mut self, body: &impl Serialize) -> Self {
        self.body = Some(Value::Object(given(body)));
        self
    }

    /// Makes the request safe to repeat, under the operator's idempotency key or a random one.
    pub fn once(mut self, key: Option<String>) -> Self {
        self.retry = Retry::Keyed(key.unwrap_or_else(|| Uuid::new_v4().to_string()));
        self
    }

    /// Sets the advice for a lost response, when a second request would repeat the change.
    pub fn never_twice(mut self, advice: String) -> Self {
        self.retry = Retry::Never(advice);
        self
    }
}

/// A connection to the admin plane.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    url: Url,
    key: HeaderValue,
}

impl Client {
    /// A client that connects with the first request.
    ///
    /// # Errors
    /// [`OperatorError::Usage`] without a key, or when the file of authorities cannot be used.
    pub fn new(connection: Connection) -> Result<Self, OperatorError> {
        let usage = |text: &str| OperatorError::Usage(text.to_owned());
        let key = connection
            .admin_key
            .filter(|key| !key.expose_secret().is_empty())
            .ok_or_else(|| usage("--admin-key or BUDGET_ADMIN_KEY is required"))?;
        let mut key = HeaderValue::from_str(key.expose_secret())
            .map_err(|_| usage("the admin key holds characters that no header may hold"))?;
        key.set_sensitive(true);
        Ok(Self {
            http: http(&connection.url, connection.timeout, connection.ca_file)?,
            url: connection.url,
            key,
        })
    }

    /// Sends one request and returns the body of the response.
    pub async fn send(&self, call: Call) -> Result<Value, OperatorError> {
        let Operation { method, path, .. } = call.operation.operation();
        let id = call.id.as_deref().unwrap_or_default();
        // Such a segment would vanish from the path, which then names another operation.
        if call.id.is_some() && ["", ".", ".."].contains(&id) {
            return Err(OperatorError::Usage(format!("`{id}` is not an id")));
        }
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        let mut url = self.url.clone();
        url.path_segments_mut()
            .expect("a URL with a host")
            .pop_if_empty()
            .extend(segments.map(|segment| {
                if segment.starts_with('{') {
                    id
                } else {
                    segment
                }
            }));
        let mut request = self
            .http
            .request(method.clone(), url)
            .query(&call.query)
            .header(ADMIN_KEY, self.key.clone());
        if let Retry::Keyed(key) = &call.retry {
            request = request.header("X-Idempotency-Key", key);
        }
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        let exchange = async {
            let response = request.send().await?;
            let status = response.status();
            Ok((status, response.text().await?))
        };
        match exchange.await {
            Ok((status, text)) => self.read(status, &text, call.retry),
            Err(error) => Err(self.no_response(&error, call.retry)),
        }
    }

    /// Reads a list page by page, up to `limit` rows. `page` makes the request without page size and cursor.
    pub async fn rows(
        &self,
        page: impl Fn() -> Call,
        member: &str,
        limit: Option<usize>,
    ) -> Result<Vec<Value>, OperatorError> {
        let (mut rows, mut cursor) = (Vec::new(), None::<String>);
        let limit = limit.unwrap_or(usize::MAX);
        while rows.len() < limit {
            let call = page()
                .with("limit", Some((limit - rows.len()).min(PAGE)))
                .with("cursor", cursor.take());
            let mut body = self.send(call).await?;
            let Some(Value::Array(found)) = body.get_mut(member).map(Value::take) else {
                return Err(self.unreadable());
            };
            rows.extend(found);
            match (body["has_more"].as_bool(), body["next_cursor"].as_str()) {
                (Some(true), Some(next)) => cursor = Some(next.to_owned()),
                _ => break,
            }
        }
        rows.truncate(limit);
        Ok(rows)
    }

    fn read(&self, status: StatusCode, text: &str, retry: Retry) -> Result<Value, OperatorError> {
        let body = match text {
            "" => Some(Value::Null),
            text => serde_json::from_str(text).ok(),
        };
        match (status, body) {
            (status, Some(body)) if status.is_success() => Ok(body),
            (status, Some(body)) if status.is_client_error() && body["error"].is_string() => {
                let member = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
                Err(OperatorError::Refused(Refusal {
                    status: status.as_u16(),
                    code: member("error"),
                    message: member("message"),
                    details: body["details"].clone(),
                    request_id: member("request_id"),
                }))
            }
            (status, body) if status.is_server_error() => Err(OperatorError::Failed {
                url: printable(&self.url),
                status: status.as_u16(),
                message: body
                    .as_ref()
                    .and_then(|body| body["message"].as_str())
                    .unwrap_or("no message")
                    .to_owned(),
                retry,
            }),
            _ => Err(self.unreadable()),
        }
    }

    fn no_response(&self, error: &reqwest::Error, retry: Retry) -> OperatorError {
        let (url, reason) = (printable(&self.url), deepest_cause(error));
        match error.is_connect() || error.is_builder() {
            true => OperatorError::Unreachable { url, reason },
            false => OperatorError::Lost { url, reason, retry },
        }
    }

    fn unreadable(&self) -> OperatorError {
        OperatorError::Unreadable {
            url: printable(&self.url),
        }
    }
}

/// An HTTP client that trusts the system's authorities or those of a file; plain HTTP needs none.
fn http(
    url: &Url,
    timeout: u16,
    ca_file: Option<PathBuf>,
) -> Result<reqwest::Client, OperatorError> {
    // An error only says that the process has a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .timeout(Duration::from_secs(timeout.into()))
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("budget-authority/", env!("CARGO_PKG_VERSION")));
    if let Some(path) = ca_file {
        let refused = |reason: String| {
            OperatorError::Usage(format!("--ca-file {}: {reason}", path.display()))
        };
        let pem = std::fs::read(&path).map_err(|error| refused(error.to_string()))?;
        let authorities =
            Certificate::from_pem_bundle(&pem).map_err(|error| refused(error.to_string()))?;
        builder = builder.tls_certs_only(authorities);
    } else if url.scheme() == "http" {
        builder = builder.tls_certs_only([]);
    }
    let refused = |error| {
        OperatorError::Usage(format!(
            "{}; name authorities with --ca-file",
            deepest_cause(&error)
        ))
    };
    builder.build().map_err(refused)
}

/// The address without credentials and without a slash at its end.
fn printable(url: &Url) -> String {
    let mut url = url.clone();
    let _ = (url.set_username(""), url.set_password(None));
    url.as_str().trim_end_matches('/').to_owned()
}

/// The deepest cause, which is the most precise one.
fn deepest_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_name_the_version_or_not() {
        for text in [
            "http://host:1",
            "http://host:1/",
            "http://host:1/v1",
            "http://host:1/v1/",
        ] {
            assert_eq!(base(text).expect(text).as_str(), "http://host:1/");
        }
        assert_eq!(
            base("https://host/budget/v1").expect("a URL").as_str(),
            "https://host/budget"
        );
        assert!(base("127.0.0.1:7878").is_err());
        assert!(base("ftp://host").is_err());
    }
}

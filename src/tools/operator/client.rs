//! Calls the service.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reqwest::header::HeaderValue;
use reqwest::{Certificate, Method, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use uuid::Uuid;

use super::error::{Again, OperatorError, Refusal};

/// Rows asked for at a time; the service gives no more.
const PAGE: usize = 100;

/// Where the service is and who asks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct Connection {
    /// Where the admin plane is
    #[arg(long, global = true, env = "BUDGET_URL", value_name = "URL", default_value = "http://127.0.0.1:7878", value_parser = base)]
    url: Url,
    /// A key of the admin plane
    #[arg(
        long,
        global = true,
        env = "BUDGET_ADMIN_KEY",
        value_name = "KEY",
        hide_env_values = true
    )]
    admin_key: Option<SecretString>,
    /// PEM file of the authorities that may sign the service's certificate, instead of the system's
    #[arg(long, global = true, env = "BUDGET_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// How long to wait for an answer, in seconds
    #[arg(long, global = true, value_name = "SECONDS", default_value = "30", value_parser = clap::value_parser!(u16).range(1..))]
    timeout: u16,
}

/// Accepts the address with or without `/v1`.
fn base(text: &str) -> Result<Url, String> {
    let plain = text.trim_end_matches('/');
    let plain = plain.strip_suffix("/v1").unwrap_or(plain);
    let url = Url::parse(plain).map_err(|_| "not a URL; write http://host:port".to_owned())?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        _ => Err("not a URL of a service; write http://host:port or https://host".to_owned()),
    }
}

/// One request.
#[derive(Debug)]
pub(super) struct Call {
    method: Method,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    body: Option<Value>,
    again: Again,
}

impl Call {
    /// `path` is what follows `/v1`; its segments are encoded.
    pub fn new(method: Method, path: &[&str]) -> Self {
        let again = match method {
            Method::GET => Again::Read,
            _ => Again::Settled,
        };
        Self {
            method,
            path: path.iter().map(ToString::to_string).collect(),
            query: Vec::new(),
            body: None,
            again,
        }
    }

    pub fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path)
    }

    /// Adds a parameter, if there is a value.
    pub fn with(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query
            .extend(value.map(|value| (name, value.to_string())));
        self
    }

    pub fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Makes the request safe to repeat: under the operator's key, or one made up for it.
    pub fn once(mut self, key: Option<String>) -> Self {
        self.again = Again::Keyed(key.unwrap_or_else(|| Uuid::new_v4().to_string()));
        self
    }

    /// Says what to do when the answer is lost, where a second request would do it twice.
    pub fn never_twice(mut self, advice: String) -> Self {
        self.again = Again::Never(advice);
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

    /// Sends one request; its answer's body.
    ///
    /// # Errors
    /// Every one but [`OperatorError::Output`].
    pub async fn send(&self, call: Call) -> Result<Value, OperatorError> {
        // A path would lose such a segment, and be that of another operation.
        if let Some(id) = call
            .path
            .iter()
            .find(|segment| ["", ".", ".."].contains(&segment.as_str()))
        {
            return Err(OperatorError::Usage(format!("`{id}` is no id")));
        }
        let mut url = self.url.clone();
        url.path_segments_mut()
            .expect("a URL with a host")
            .pop_if_empty()
            .push("v1")
            .extend(&call.path);
        let mut request = self
            .http
            .request(call.method, url)
            .query(&call.query)
            .header("X-Admin-API-Key", self.key.clone());
        if let Again::Keyed(key) = &call.again {
            request = request.header("X-Idempotency-Key", key);
        }
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Err(self.unanswered(&error, call.again)),
        };
        let status = response.status();
        let text = match response.text().await {
            Ok(text) => text,
            Err(error) => return Err(self.unanswered(&error, call.again)),
        };
        self.judge(status, &text, call.again)
    }

    /// Sends a list's request page after page, until there are `limit` rows or no more.
    ///
    /// # Errors
    /// Those of [`Self::send`].
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
            let mut answer = self.send(call).await?;
            let Some(Value::Array(found)) = answer.get_mut(member).map(Value::take) else {
                return Err(self.unreadable());
            };
            rows.extend(found);
            match (answer["has_more"].as_bool(), answer["next_cursor"].as_str()) {
                (Some(true), Some(next)) => cursor = Some(next.to_owned()),
                _ => break,
            }
        }
        rows.truncate(limit);
        Ok(rows)
    }

    fn judge(&self, status: StatusCode, text: &str, again: Again) -> Result<Value, OperatorError> {
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
                url: shown(&self.url),
                status: status.as_u16(),
                message: body
                    .as_ref()
                    .and_then(|body| body["message"].as_str())
                    .unwrap_or("no message")
                    .to_owned(),
                again,
            }),
            _ => Err(self.unreadable()),
        }
    }

    fn unanswered(&self, error: &reqwest::Error, again: Again) -> OperatorError {
        let (url, reason) = (shown(&self.url), causes(error));
        match error.is_connect() || error.is_builder() {
            true => OperatorError::Unreachable { url, reason },
            false => OperatorError::Lost { url, reason, again },
        }
    }

    fn unreadable(&self) -> OperatorError {
        OperatorError::Unreadable {
            url: shown(&self.url),
        }
    }
}

/// A client that believes the system's authorities, those of a file, or, where nothing is encrypted, needs none.
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
    let refused = |error| OperatorError::Usage(format!("{}; --ca-file names some", causes(&error)));
    builder.build().map_err(refused)
}

/// The address without credentials and without a slash at its end.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = (url.set_username(""), url.set_password(None));
    url.as_str().trim_end_matches('/').to_owned()
}

/// The deepest cause, which says what happened.
fn causes(error: &reqwest::Error) -> String {
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

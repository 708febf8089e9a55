//! Single requests with JSON bodies, for the tools that prepare and check a service.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::header::{HeaderMap, HeaderName};
use hyper::{Method, Request, StatusCode};
use secrecy::SecretString;
use serde_json::Value;
use tokio::time::sleep;
use url::Url;

use super::http::{Connection, NoResponse, base_path, headers};
use crate::api::operations::OperationId;

/// Reads are repeated for this long, because a service that failed may come back.
const READ_LIMIT: Duration = Duration::from_secs(15);

/// Why a step of a tool failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The key cannot be sent.
    #[error("a key holds characters that a header must not hold")]
    Key,
    /// There is no response.
    #[error("{step}: the service cannot be reached")]
    Unreachable {
        /// What was requested.
        step: &'static str,
        /// The failure of the connection.
        #[source]
        source: NoResponse,
    },
    /// The response is an error.
    #[error("{step}: the service responded {status} {code}: {message}")]
    Refused {
        /// What was requested.
        step: &'static str,
        /// The HTTP status.
        status: StatusCode,
        /// The member `error` of the response.
        code: String,
        /// The member `message` of the response.
        message: String,
    },
    /// The response lacks a member.
    #[error("{step}: the response is not what the protocol requires")]
    Unreadable {
        /// What was requested.
        step: &'static str,
    },
}

/// Sends single requests under one key.
pub(super) struct JsonClient {
    url: Arc<Url>,
    connection: Connection,
    headers: HeaderMap,
}

impl JsonClient {
    /// A client of the service at `url`, with `key` in the header `key_header`.
    ///
    /// # Errors
    /// [`CallError::Key`].
    pub fn new(
        url: Arc<Url>,
        key_header: &HeaderName,
        key: &SecretString,
    ) -> Result<Self, CallError> {
        Ok(Self {
            connection: Connection::new(Arc::clone(&url)),
            url,
            headers: headers(key_header, key).map_err(|_| CallError::Key)?,
        })
    }

    /// Whether the service responds and reaches its store.
    pub async fn is_ready(&mut self) -> bool {
        let ready = self.send(Method::GET, "/ready", None).await;
        matches!(ready, Ok((StatusCode::OK, _)))
    }

    /// Posts once and returns the body of the response.
    ///
    /// # Errors
    /// [`CallError`], also for a response that is no success.
    pub async fn post(
        &mut self,
        step: &'static str,
        operation: OperationId,
        body: &Value,
    ) -> Result<Value, CallError> {
        let sent = self.send(Method::POST, operation.path(), Some(body)).await;
        let (status, body) = sent.map_err(|source| CallError::Unreachable { step, source })?;
        match status.is_success() {
            true => Ok(body),
            false => Err(refused(step, status, &body)),
        }
    }

    /// Reads, and repeats the request for at most [`READ_LIMIT`] while there is no response or a 5xx.
    ///
    /// # Errors
    /// [`CallError`], also for a response other than 200.
    pub async fn get(&mut self, step: &'static str, path: &str) -> Result<Value, CallError> {
        let deadline = Instant::now() + READ_LIMIT;
        loop {
            let (failure, is_final) = match self.send(Method::GET, path, None).await {
                Ok((StatusCode::OK, body)) => return Ok(body),
                Ok((status, body)) => (refused(step, status, &body), !status.is_server_error()),
                Err(source) => (CallError::Unreachable { step, source }, false),
            };
            if is_final || Instant::now() >= deadline {
                return Err(failure);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Sends one request and returns status and JSON body; null where the body is no JSON.
    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), NoResponse> {
        let path = format!("{}{path}", base_path(&self.url));
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = path
            .parse()
            .map_err(|error| NoResponse::NotConnected(io::Error::other(error)))?;
        *request.headers_mut() = self.headers.clone();
        let response = self.connection.send(request).await?;
        let body = serde_json::from_slice(&response.body).unwrap_or_default();
        Ok((response.status, body))
    }
}

fn refused(step: &'static str, status: StatusCode, body: &Value) -> CallError {
    let text = |name: &str| body[name].as_str().unwrap_or("").to_owned();
    CallError::Refused {
        step,
        status,
        code: text("error"),
        message: text("message"),
    }
}

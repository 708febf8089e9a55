//! Calls operations of the API inside the process, for the holder of a session.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use url::form_urlencoded::byte_serialize;

use super::forms::query_of;
use crate::api::context::{Context, SignedIn};
use crate::api::dialect::headers;
use crate::api::operation::{Callers, Plane};
use crate::api::operations::OperationId;
use crate::domain::caller::Caller;
use crate::domain::dialect::Dialect;

/// The largest response that a page reads.
const BODY_MAX: usize = 16 << 20;

/// Says from where the reader's request came.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Names and values of a query.
pub(super) type Query<'a> = &'a [(&'a str, &'a str)];

/// What calls operations for one request of a page's reader.
pub(super) struct Operations {
    router: Router,
    dialect: Dialect,
    context: Context,
    headers: HeaderMap,
    caller: Option<SignedIn>,
}

/// Why an operation did not do what it was called for.
#[derive(Debug)]
pub(super) struct Refused {
    pub status: StatusCode,
    /// For people.
    pub message: String,
}

impl Operations {
    /// For the request `parts`; each call is one of `caller`, or else of whom its headers name.
    pub fn new(router: Router, dialect: Dialect, parts: &Parts, caller: Option<Caller>) -> Self {
        let context = parts.extensions.get::<Context>();
        let kept = [header::HOST, FORWARDED_FOR, headers::TRACEPARENT];
        let lines = parts.headers.iter().filter(|(name, _)| kept.contains(name));
        Self {
            router,
            dialect,
            context: Context {
                peer: context.and_then(|context| context.peer),
                ..Context::default()
            },
            headers: lines
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            caller: caller.map(SignedIn),
        }
    }

    /// Sends this header with every call.
    pub fn header(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = value.parse() {
            self.headers.insert(name, value);
        }
    }

    /// Reads: an operation whose path has at most one parameter, `id`.
    pub async fn get(
        &self,
        operation: OperationId,
        id: &str,
        query: Query<'_>,
    ) -> Result<Value, Refused> {
        self.call(operation, id, query, ("", Body::empty())).await
    }

    /// Reads a report as CSV: the response as it is.
    pub async fn csv(&self, operation: OperationId, query: Query<'_>) -> Result<Response, Refused> {
        self.respond(operation, "", query, ("", Body::empty()), "text/csv")
            .await
    }

    /// Changes something, under an idempotency key. `body`: `null` for none.
    pub async fn send(
        &self,
        operation: OperationId,
        id: &str,
        query: Query<'_>,
        (key, mut body): (&str, Value),
    ) -> Result<Value, Refused> {
        // Requests of the admin plane take it as the header.
        if operation.operation().plane == Plane::Runtime {
            body["idempotency_key"] = key.into();
        }
        let body = match body {
            Value::Null => Body::empty(),
            body => Body::from(body.to_string()),
        };
        self.call(operation, id, query, (key, body)).await
    }

    /// As [`Operations::get`], for a part of a page that the rest can do without: instead of a refusal, `{"message"}`.
    pub async fn part(&self, operation: OperationId, id: &str, query: Query<'_>) -> Value {
        let found = self.get(operation, id, query).await;
        found.unwrap_or_else(|refused| json!({"message": refused.message}))
    }

    async fn call(
        &self,
        operation: OperationId,
        id: &str,
        query: Query<'_>,
        sent: (&str, Body),
    ) -> Result<Value, Refused> {
        let response = self
            .respond(operation, id, query, sent, "application/json")
            .await?;
        read(response).await
    }

    /// The response in a media type. `sent`: an idempotency key, and a body.
    async fn respond(
        &self,
        operation: OperationId,
        id: &str,
        query: Query<'_>,
        (key, body): (&str, Body),
        accept: &str,
    ) -> Result<Response, Refused> {
        let operation = operation.operation();
        let is_tenant = |caller: &SignedIn| caller.0.as_tenant().is_some();
        if operation.callers == Callers::Admin && self.caller.as_ref().is_some_and(is_tenant) {
            return Err(for_operators());
        }
        let path = operation.path_in(self.dialect);
        let id: String = byte_serialize(id.as_bytes()).collect();
        let path = match path.split_once('{') {
            Some((start, rest)) => {
                let end = rest.split_once('}').map_or("", |(_, end)| end);
                format!("{start}{id}{end}")
            }
            None => path.into_owned(),
        };
        let mut request = Request::builder()
            .method(operation.method.clone())
            .uri(format!("{path}?{}", query_of(query)))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept)
            .header(headers::IDEMPOTENCY_KEY, key)
            .body(body)
            .map_err(|error| failed(&error))?;
        request.headers_mut().extend(self.headers.clone());
        request.extensions_mut().insert(self.context.clone());
        if let Some(caller) = &self.caller {
            request.extensions_mut().insert(caller.clone());
        }
        let Ok(response) = self.router.clone().oneshot(request).await;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = read(response).await?;
        let message = body["message"].as_str().unwrap_or("no reason is given");
        Err(Refused {
            status,
            message: message.to_owned(),
        })
    }
}

/// What the holder of an API key gets where a page needs an admin key.
pub(super) fn for_operators() -> Refused {
    Refused {
        status: StatusCode::FORBIDDEN,
        message: "This page is for operators.".to_owned(),
    }
}

/// The JSON of a response.
async fn read(response: Response) -> Result<Value, Refused> {
    let body = to_bytes(response.into_body(), BODY_MAX).await;
    let body = body.map_err(|error| failed(&error))?;
    if body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&body).map_err(|error| failed(&error))
}

fn failed(error: &dyn std::fmt::Display) -> Refused {
    Refused {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        message: error.to_string(),
    }
}

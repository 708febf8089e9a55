//! The body that every error has.
//!
//! A handler returns an [`ApiError`]. It travels to the outermost layer in the response's extensions; there the ids of
//! the request are known, and the body is written (see [`super::trace`]). So no error can miss them.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::api::dialect::headers::RATE_LIMIT_RESET;
use crate::domain::evidence::{self, EvidenceRef};
use crate::domain::fields::{Problems, object};
use crate::domain::ids::{RequestId, TRACE_ID_PATTERN, TenantId, TraceId};
use crate::domain::json::JsonError;
use crate::domain::printable::printable_up_to;
use crate::domain::refusal::{BadCredential, EvaluatedCode, MESSAGE_CHARS_MAX};
use crate::domain::words::words;
use crate::telemetry::RefusedLimit;

words! {
    /// Error code that clients branch on. Those from `TENANT_NOT_FOUND` on are of the admin plane only.
    #[expect(missing_docs, reason = "the words are the documentation")]
    Code as "ErrorCode": "SCREAMING_SNAKE_CASE" {
        InvalidRequest,
        Unauthorized,
        Forbidden,
        NotFound,
        BudgetExceeded,
        BudgetFrozen,
        BudgetClosed,
        ReservationExpired,
        ReservationFinalized,
        IdempotencyMismatch,
        UnitMismatch,
        OverdraftLimitExceeded,
        DebtOutstanding,
        MaxExtensionsExceeded,
        LimitExceeded,
        TenantClosed,
        InternalError,
        TenantNotFound,
        TenantSuspended,
        BudgetNotFound,
        PolicyViolation,
        InsufficientPermissions,
        KeyRevoked,
        KeyExpired,
        DuplicateResource,
        WebhookNotFound,
        WebhookUrlInvalid,
        EventNotFound,
        ReplayInProgress,
        CountMismatch,
    }
}

impl From<EvaluatedCode> for Code {
    fn from(code: EvaluatedCode) -> Self {
        Self::parse(code.as_str()).expect("every code of evidence is a code of the API")
    }
}

/// A refusal or a failure on its way to the client.
#[derive(Debug, Clone)]
pub struct ApiError {
    status: StatusCode,
    code: Code,
    message: String,
    extras: Box<Extras>,
}

/// Rare parts of an error, boxed so that an error is small to return.
#[derive(Debug, Clone, Default)]
struct Extras {
    details: Option<Value>,
    evidence: Option<EvidenceRef>,
    credential: Option<BadCredential>,
    limit: Option<RefusedLimit>,
    caller_checked: bool,
    tenant: Option<TenantId>,
    headers: HeaderMap,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl ApiError {
    /// Any refusal. The message names the cause first, then the value at fault.
    pub fn new(status: StatusCode, code: Code, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            extras: Box::default(),
        }
    }

    /// 400: the request itself is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidRequest, message)
    }

    /// 401: no valid credential.
    pub fn unauthorized(credential: BadCredential) -> Self {
        let message = credential.to_string();
        let mut error = Self::new(StatusCode::UNAUTHORIZED, Code::Unauthorized, message);
        error.extras.credential = Some(credential);
        error
    }

    /// Names the header of the credential.
    pub fn name_header(&mut self, header: &str) {
        self.message = format!("{} (header {header})", self.message);
    }

    /// 404: not found.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, Code::NotFound, message)
    }

    /// 429: too many, for so long.
    pub fn limited(message: impl Into<String>, wait: Duration) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, Code::LimitExceeded, message).retry_after(wait)
    }

    /// 500: a bug or a corrupt record. The cause is logged and never sent.
    pub fn internal(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(status, Code::InternalError, "An internal error occurred").with_cause(source)
    }

    /// 503: the store is unavailable; a retry after this many seconds may help. The cause is logged and never sent.
    pub fn unavailable(
        source: impl Into<Box<dyn Error + Send + Sync>>,
        retry_after_s: u64,
    ) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            Code::InternalError,
            "The service is temporarily unavailable; retry with the same idempotency key",
        )
        .with_header(header::RETRY_AFTER, HeaderValue::from(retry_after_s))
        .with_cause(source)
    }

    /// With facts for programs.
    pub fn with_details(mut self, details: Value) -> Self {
        self.extras.details = Some(details);
        self
    }

    /// With the reference to signed evidence of it.
    pub fn with_evidence(mut self, evidence: EvidenceRef) -> Self {
        self.extras.evidence = Some(evidence);
        self
    }

    /// Above a limit, with both numbers for programs. The metric counts it under `label`: the setting that sets the limit, or the
    /// name of a constant one.
    pub fn beyond(self, label: &'static str, limit: i64, present: i64) -> Self {
        self.counted_as(label)
            .with_details(json!({"limit": limit, "present": present}))
    }

    /// Makes the metric count it, as [`ApiError::beyond`] does.
    pub fn counted_as(mut self, label: &'static str) -> Self {
        self.extras.limit = Some(RefusedLimit(label));
        self
    }

    /// With the headers that say how long to wait, in whole seconds, and until when.
    pub fn retry_after(self, wait: Duration) -> Self {
        let seconds = (wait.as_millis() as u64).div_ceil(1000).max(1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let until = now.unwrap_or_default() + wait;
        self.with_header(header::RETRY_AFTER, HeaderValue::from(seconds))
            .with_header(RATE_LIMIT_RESET, HeaderValue::from(until.as_secs()))
    }

    /// With a response header.
    pub fn with_header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.extras.headers.insert(name, value);
        self
    }

    /// Marks a refusal or failure that came after a script had checked the API key; without the mark, the key is checked
    /// before the client learns of it.
    pub fn after_check(mut self) -> Self {
        self.extras.caller_checked = true;
        self
    }

    /// With the tenant that the request is about, for the audit entry.
    pub fn about(mut self, tenant: Option<TenantId>) -> Self {
        self.extras.tenant = tenant;
        self
    }

    fn with_cause(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.extras.source = Some(Arc::from(source.into()));
        self
    }

    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The word for programs.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The sentence for people, fit for a terminal.
    pub fn message(&self) -> String {
        printable_up_to(&self.message, MESSAGE_CHARS_MAX)
    }

    /// The problem with the credential, for status 401.
    pub fn bad_credential(&self) -> Option<BadCredential> {
        self.extras.credential
    }

    /// Whether a script has checked the API key before.
    pub fn caller_checked(&self) -> bool {
        self.extras.caller_checked
    }

    /// The tenant that the request is about, if the handler knew it.
    pub fn tenant(&self) -> Option<&TenantId> {
        self.extras.tenant.as_ref()
    }

    /// The cause, for the log.
    pub fn cause(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.extras.source.as_deref()
    }

    /// The error for a bare status of the router, such as 405 for a document, with a sentence for people. A layer that returns
    /// 401, 403, 429 or 503 makes an error of its own.
    pub(super) fn of_status(status: StatusCode) -> Self {
        let (code, message) = match status.as_u16() {
            404 => (Code::NotFound, "No such path"),
            405 => (Code::InvalidRequest, "The path does not have this method"),
            413 => (Code::InvalidRequest, "The request body is too large"),
            415 => (
                Code::InvalidRequest,
                "The request body must be application/json in UTF-8",
            ),
            400..=499 => (Code::InvalidRequest, "The request cannot be processed"),
            _ => (Code::InternalError, "An internal error occurred"),
        };
        Self::new(status, code, message)
    }

    /// The body, with the ids of the request.
    pub(super) fn body(&self, request_id: &RequestId, trace_id: &TraceId) -> String {
        let body = ErrorResponse {
            error: self.code,
            message: self.message(),
            request_id: request_id.to_string(),
            trace_id: trace_id.to_string(),
            details: self.extras.details.clone(),
            evidence: self.extras.evidence.clone(),
        };
        serde_json::to_string(&body).expect("strings and JSON values serialize")
    }
}

impl IntoResponse for ApiError {
    fn into_response(mut self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        *response.headers_mut() = std::mem::take(&mut self.extras.headers);
        if let Some(limit) = self.extras.limit {
            response.extensions_mut().insert(limit);
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Problems> for ApiError {
    fn from(problems: Problems) -> Self {
        Self::invalid(problems.to_string())
    }
}

impl From<JsonError> for ApiError {
    fn from(error: JsonError) -> Self {
        Self::invalid(format!("Malformed request body: {error}"))
    }
}

object! {
    /// The body of every error.
    #[derive(Debug)]
    pub struct ErrorResponse: Serialize + Open {
        /// Error code, for programs.
        error: Code,
        /// Message, for people.
        message: String,
        /// Id of the request, as in the header `X-Request-Id`.
        request_id: String,
        /// Trace of the request.
        trace_id: String { required: false, keyword: TRACE_ID_PATTERN },
        /// Facts for programs; their names depend on `error`.
        details: Option<Value>,
        /// Where the signed evidence of it can be read.
        evidence: Option<EvidenceRef> { described: false, named_by: evidence::member_name },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Json;

    fn body(error: &ApiError) -> String {
        let request_id = RequestId::parse("req_1").unwrap();
        error.body(&request_id, &TraceId::parse(&"a".repeat(32)).unwrap())
    }

    #[test]
    fn a_body_has_code_message_and_both_ids() {
        assert_eq!(
            body(&ApiError::not_found("Resource not found: r1")),
            r#"{"error":"NOT_FOUND","message":"Resource not found: r1","request_id":"req_1","trace_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}"#
        );
        let error = ApiError::new(StatusCode::CONFLICT, Code::BudgetExceeded, "m")
            .with_details(json!({"requested": i64::MAX}));
        assert!(body(&error).ends_with(r#","details":{"requested":9223372036854775807}}"#));
    }

    #[test]
    fn a_body_that_cannot_be_read_is_refused_with_the_reason() {
        let empty = ApiError::from(Json::parse(b"").unwrap_err());
        assert_eq!(empty.message(), "Malformed request body: the body is empty");
        let problem = ApiError::from(Problems::one("x", "is no object"));
        assert_eq!(problem.message(), "Validation failed: x: is no object");
    }

    #[test]
    fn the_error_of_a_bare_status_says_what_would_be_right() {
        for (status, message) in [
            (413, "The request body is too large"),
            (415, "The request body must be application/json in UTF-8"),
            (418, "The request cannot be processed"),
        ] {
            let error = ApiError::of_status(StatusCode::from_u16(status).unwrap());
            assert_eq!(
                (error.message().as_str(), error.code()),
                (message, Code::InvalidRequest)
            );
        }
    }

    #[test]
    fn every_code_of_evidence_is_a_code_of_the_api() {
        for &code in EvaluatedCode::ALL {
            assert_eq!(Code::from(code).as_str(), code.as_str());
        }
    }

    #[test]
    fn messages_never_carry_control_characters() {
        let message = ApiError::invalid("a\r\nb\u{1b}[0m\0").message();
        assert!(!message.chars().any(char::is_control), "{message:?}");
    }

    #[test]
    fn a_response_does_not_show_the_cause_of_a_failure() {
        let error = ApiError::internal(std::io::Error::other("redis://secret@host"));
        assert!(!body(&error).contains("secret"));
        assert!(error.cause().is_some());
    }
}

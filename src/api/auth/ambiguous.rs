//! Requests that say twice, or not at all, what everybody on their way must read alike: whom they are for, and who sends them.

use axum::http::request::Parts;
use axum::http::{HeaderName, Version, header};

use crate::api::dialect::{Dialect, HeaderNames, headers};
use crate::api::errors::ApiError;

/// Why a request is refused for its headers alone.
pub(super) fn ambiguity(parts: &Parts) -> Option<ApiError> {
    let lines = |name: &HeaderName| parts.headers.get_all(name).iter().count();
    let hosts = lines(&header::HOST);
    if hosts > 1 {
        return Some(ApiError::invalid("The header Host is sent more than once"));
    }
    // HTTP/1.0 does not know it.
    if hosts == 0 && parts.version == Version::HTTP_11 {
        return Some(ApiError::invalid("The header Host is missing"));
    }
    let api_keys = Dialect::ALL.map(|dialect| {
        let names = dialect.header_names();
        (&names.api_key, dialect.words().api_key_header)
    });
    let admin_key = (&headers::ADMIN_KEY, HeaderNames::ADMIN_KEY);
    let mut keys = api_keys.into_iter().chain([admin_key]);
    let (_, name) = keys.find(|(name, _)| lines(name) > 1)?;
    let message = format!("The header {name} is sent more than once");
    Some(ApiError::invalid(message))
}

//! The handler of all lists.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::on;

use super::{List, ListRequest, ListResponse, PageOf, parameters};
use crate::api::admin::extract::PathId;
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, Operation};
use crate::api::response::CheckedJson;
use crate::api::state::AppState;
use crate::domain::caller::{Caller, RuntimeCaller};
use crate::domain::moment::Moment;
use crate::domain::refusal::BadCredential;
use crate::listing::ListQuery;

/// The result of [`List::page`].
pub type ReturnsPage<L> = Result<PageOf<L>, ApiError>;

/// A call of a list.
pub struct ListCall<L: List> {
    /// The services.
    pub state: AppState,
    /// Operation.
    pub operation: &'static Operation,
    /// Caller.
    pub caller: Caller,
    /// The id in the path, as it was sent.
    pub path_id: String,
    /// The parsed query string.
    pub list: ListRequest<L>,
}

impl<L: List> ListCall<L> {
    /// The query, once everything that cursors depend on is bound.
    ///
    /// # Errors
    /// As [`ListRequest::query`].
    pub async fn query(&self) -> Result<ListQuery<L::Filter, L::Sort>, ApiError> {
        let query = self.list.query(self.state.store.secret().await?)?;
        let caller = self.caller.as_tenant();
        Ok(ListQuery {
            limits: caller.map(|it| (self.state.list_limits.clone(), it.tenant.clone())),
            ..query
        })
    }

    /// The holder of an API key.
    ///
    /// # Errors
    /// 401 for the admin key.
    pub fn tenant_caller(&self) -> Result<&RuntimeCaller, ApiError> {
        let refused = || ApiError::unauthorized(BadCredential::NoKey);
        self.caller.as_tenant().ok_or_else(refused)
    }
}

/// Declares a list by its summary and what its response holds.
pub const fn list<L: List>(summary: &'static str, page: &'static str) -> Declaration {
    Declaration::new(summary, |method| on(method, respond::<L>))
        .query(parameters::<L>)
        .returns::<L::Response>(200, page)
}

/// The handler of a list.
///
/// # Errors
/// Refusals, and failures of the store.
pub async fn respond<L: List>(
    State(state): State<AppState>,
    operation: &'static Operation,
    caller: Caller,
    PathId(path_id): PathId,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let mut call = ListCall {
        state,
        operation,
        caller,
        path_id,
        list: ListRequest::<L>::parse(&query.unwrap_or_default())?,
    };
    let page = L::page(&mut call).await?;
    let secret = call.state.store.secret().await?;
    let next = call.list.next_cursor(&page, secret);
    let as_of = as_of(&call.state, page.as_of_ms);
    let response = L::Response::new(page.rows, next).covering(page.coverage);
    let response = CheckedJson::ok(response);
    Ok((as_of, response).into_response())
}

/// The header of a list over all tenants: the time up to which it is complete.
fn as_of(state: &AppState, as_of_ms: Option<i64>) -> Option<[(HeaderName, HeaderValue); 1]> {
    let as_of = as_of_ms.and_then(Moment::from_ms)?;
    let value = HeaderValue::from_str(&as_of.to_string()).ok()?;
    Some([(state.access.dialect().header_names().as_of.clone(), value)])
}

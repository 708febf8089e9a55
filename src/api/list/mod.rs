//! Lists over HTTP. A list declares its filters once: from that follow the reading of its query string, the parameters of
//! the description, and what its cursors are bound to. One handler serves all lists.
//!
//! ```ignore
//! struct Tenants;
//!
//! impl List for Tenants {
//!     const NAME: &'static str = "tenants";
//!     type Filter = TenantFilter;
//!     type Sort = TenantSort;
//!     type Response = TenantListResponse;
//!
//!     fn filter(parameters: &mut Parameters<'_>) -> Result<TenantFilter, ApiError> {
//!         Ok(TenantFilter {
//!             status: parameters.word("status", "Status of the tenants.")?,
//!             search: parameters.search("Text that id or name must contain.")?,
//!         })
//!     }
//! }
//! ```
//!
//! Of `?status=ACTIVE&sort_by=name`, `ListRequest::<Tenants>::parse` makes the filter, the order and the binding
//! `[("status", "ACTIVE"), ("search", "")]`. `parameters::<Tenants>()` runs the same declaration without a query string and
//! keeps name, description and schema of each parameter, then those of `sort_by`, `sort_dir`, `limit` and `cursor`.

mod cursor;
mod operation;
mod parameters;

use serde::Serialize;
use serde_json::Value;

use crate::api::errors::ApiError;
use crate::api::operation::Plane;
use crate::domain::fields::Field;
use crate::domain::ids::DeploymentSecret;
use crate::domain::words::Word;
use crate::listing::{Coverage, ListQuery, Page, Sort, SortKey};
use cursor::{Binding, CursorError};
pub use operation::{ListCall, ReturnsPage, list, respond};
pub use parameters::{Limit, Parameters};

/// The body of a list's response.
pub trait ListResponse: Serialize + Field<Rules = ()> {
    /// The items of the list.
    type Row: Send;

    /// With a cursor there is more; without one there is not.
    fn new(rows: Vec<Self::Row>, next_cursor: Option<String>) -> Self;

    /// The same of a report, which says what it covers.
    #[must_use]
    fn covering(self, _: Option<Coverage>) -> Self {
        self
    }
}

/// Declares the response of a list: the rows, where the next page starts, and whether there is one.
///
/// `list_response! { /// Doc. Name: Open { /// Doc. rows: Row, has_more {} } }` makes an object that is serialized as
/// `{"rows": […], "next_cursor"?: "…", "has_more": …}`, and is a [`ListResponse`]. The braces hold options of the member
/// `has_more`; `Open` is as in [`object!`](crate::domain::fields::object).
macro_rules! list_response {
    ($(#[doc = $doc:expr])* $name:ident $(: $role:ident)? {
        $(#[doc = $rows_doc:expr])* $rows:ident: $row:ty, has_more { $($options:tt)* }
    }) => {
        $crate::domain::fields::object! {
            $(#[doc = $doc])*
            #[derive(Debug)]
            pub struct $name: Serialize $(+ $role)? {
                $(#[doc = $rows_doc])*
                pub $rows: Vec<$row>,
                /// Cursor of the next page. Absent on the last page.
                pub next_cursor: Option<String>,
                /// Whether there is a next page; it may be empty.
                pub has_more: bool { $($options)* },
            }
        }

        impl $crate::api::list::ListResponse for $name {
            type Row = $row;

            fn new($rows: Vec<$row>, next_cursor: Option<String>) -> Self {
                Self {
                    $rows,
                    has_more: next_cursor.is_some(),
                    next_cursor,
                }
            }
        }
    };
}
pub(crate) use list_response;

/// A page of a list.
pub type PageOf<L> = Page<<<L as List>::Response as ListResponse>::Row, <L as List>::Sort>;

/// A list of the API: an operation.
pub trait List: Sized + 'static {
    /// Names the list in its cursors.
    const NAME: &'static str;
    /// How its refusals are worded.
    const PLANE: Plane = Plane::Admin;
    /// How many rows a page may have.
    const LIMIT: Limit = Limit::CutTo(100);
    /// Whether a request may choose the order.
    const SORTABLE: bool = Self::Sort::WORDS.len() > 1;
    /// Describes `sort_by`.
    const ABOUT_SORT: &'static str = "Order of the rows.";
    /// The requested rows.
    type Filter: Clone + Send + Sync;
    /// The sorts of the rows.
    type Sort: SortKey;
    /// The body of its response.
    type Response: ListResponse;

    /// Declares the parameters that select rows, and reads them.
    ///
    /// # Errors
    /// 400 naming the parameter.
    fn filter(parameters: &mut Parameters<'_>) -> Result<Self::Filter, ApiError>;

    /// Binds cursors to what the query string does not say, and reads a page.
    ///
    /// # Errors
    /// Refusals, and failures of the store.
    fn page(call: &mut ListCall<Self>) -> impl Future<Output = ReturnsPage<Self>> + Send;
}

/// A parsed list request.
pub struct ListRequest<L: List> {
    /// The filter.
    pub filter: L::Filter,
    limit: usize,
    by: Option<L::Sort>,
    descending: Option<bool>,
    cursor: Option<String>,
    binding: Binding,
}

impl<L: List> ListRequest<L> {
    /// Reads a query string. Parameters that the list does not have are ignored; a blank one is as good as absent.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        Self::read(&mut Parameters::reading(query, L::PLANE))
    }

    fn read(parameters: &mut Parameters<'_>) -> Result<Self, ApiError> {
        let filter = L::filter(parameters)?;
        let (by, descending) = match L::SORTABLE {
            true => parameters.order(L::ABOUT_SORT)?,
            false => (None, None),
        };
        Ok(Self {
            filter,
            limit: parameters.limit(L::LIMIT)?,
            by,
            descending,
            cursor: parameters.cursor()?,
            binding: Binding {
                list: L::NAME,
                filters: parameters.bound(),
            },
        })
    }

    /// Binds cursors to something that the query string does not say, such as the caller's own tenant.
    pub fn bind(&mut self, name: &'static str, value: impl ToString) {
        self.binding.filters.push((name, value.to_string()));
    }

    /// The query. What the request does not say about the order comes from its cursor; without one, from the default.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this list, these filters and this order.
    pub fn query(
        &self,
        secret: &DeploymentSecret,
    ) -> Result<ListQuery<L::Filter, L::Sort>, ApiError> {
        let mut query = ListQuery::new(
            self.filter.clone(),
            self.by.unwrap_or(L::Sort::DEFAULT),
            self.descending.unwrap_or(true),
            self.limit,
        );
        query.any_order = self.by.is_none();
        if let Some(cursor) = &self.cursor {
            let (sort, after) = self.binding.open::<L::Sort>(cursor, secret)?;
            let is_same = self.by.is_none_or(|by| by == sort.by)
                && self
                    .descending
                    .is_none_or(|descending| descending == sort.descending);
            if !is_same {
                return Err(CursorError::Stale.into());
            }
            (query.sort, query.after) = (sort, Some(after));
        }
        Ok(query)
    }

    /// The page of a list that has no row.
    pub fn empty_page(&self) -> PageOf<L> {
        let (by, descending) = (L::Sort::DEFAULT, true);
        Page::new(Vec::new(), Sort { by, descending }, None)
    }

    /// The cursor of the page after this one, `None` after the last.
    pub fn next_cursor<T>(
        &self,
        page: &Page<T, L::Sort>,
        secret: &DeploymentSecret,
    ) -> Option<String> {
        let next = page.next.as_ref()?;
        Some(self.binding.seal(page.sort, next, secret))
    }
}

/// The parameters of a list, as the description of the API has them.
pub fn parameters<L: List>() -> Vec<Value> {
    let mut parameters = Parameters::describing(L::PLANE);
    let read = ListRequest::<L>::read(&mut parameters);
    debug_assert!(read.is_ok());
    parameters.described()
}

/// The query of a query string, for tests.
#[cfg(test)]
pub fn query_of<L: List>(query: &str) -> Result<ListQuery<L::Filter, L::Sort>, ApiError> {
    ListRequest::<L>::parse(query)?.query(&DeploymentSecret::generate())
}

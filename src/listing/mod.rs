//! Lists: what is asked of one, and the page that is the response.
//!
//! Along an index, a page costs in proportion to its rows ([`page_along`]). Any other order gathers all rows that match,
//! within bounds, and sorts them ([`gather`]). A list gives its [`Walk`], which takes steps along an index, reads the records
//! and says which of them match; and its [`RowOrder`], which gives each row its position.
//!
//! ```ignore
//! impl Walk for TenantWalk<'_> {
//!     type Row = Tenant;
//!     type Error = StoreError;
//!
//!     async fn step(&mut self) -> Result<Step<Tenant>, StoreError> {
//!         let ids = self.store.directory_page(self.after.as_deref(), self.descending, self.rows).await?;
//!         let complete = ids.len() < self.rows;
//!         self.after = ids.last().cloned();
//!         let rows = self.read(&ids).await?; // `None` for a record that is gone, damaged or does not match.
//!         let entry = |(id, row)| Entry { position: Position::of_id(id), row };
//!         Ok(Step::new(ids.into_iter().zip(rows).map(entry).collect(), complete))
//!     }
//! }
//!
//! orders! {
//!     TenantSort of tenant: Tenant {
//!         rows: "tenants", advice: "narrow the filters, or sort by tenant_id",
//!         id: tenant.tenant_id, default: Name
//!     }
//!     TenantId = "tenant_id": SortValue::Absent,
//!     Name = "name": tenant.name.as_str(),
//! }
//!
//! match query.sort.by {
//!     TenantSort::TenantId => page_along(&mut walk, query, TenantSort::TenantId, bounds).await,
//!     TenantSort::Name => gather(&mut walk, query, bounds).await,
//! }
//! ```

mod gathering;
mod position;
mod sorted;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt::Display;

use tracing::error;

use crate::domain::refusal::TooManyGather;
use gathering::Place;

pub use gathering::{GatherPlaces, OwnPlaces};
pub(crate) use position::orders;
pub use position::{OneOrder, Position, RowOrder, Sort, SortKey, SortValue};
pub use sorted::{GATHER_ROWS, Sorted, gather};
pub use walk::{Bounds, Entry, STEP_ROWS, Step, Walk, each, page_along};

/// A query of a list.
#[derive(Debug, Clone)]
pub struct ListQuery<F, K> {
    /// The filter.
    pub filter: F,
    /// In which order.
    pub sort: Sort<K>,
    /// Whether an order with an index may replace a sort of too many rows.
    pub any_order: bool,
    /// Where the last page ended, in the same order; `None` for the first page.
    pub after: Option<Position>,
    /// Rows on the page at most, at least 1.
    pub limit: usize,
    /// Where it gathers, if it must; `None`: anywhere.
    pub places: Option<OwnPlaces>,
}

impl<F, K: SortKey> ListQuery<F, K> {
    /// The first page in one order.
    pub fn new(filter: F, by: K, descending: bool, limit: usize) -> Self {
        Self {
            filter,
            sort: Sort { by, descending },
            any_order: false,
            after: None,
            limit,
            places: None,
        }
    }

    /// Takes a place for gathering, until it is dropped.
    ///
    /// # Errors
    /// [`TooManyGather`] where too many lists of the same owner gather.
    pub async fn place<T>(&self) -> Result<Option<Place<'_>>, TooManyGather>
    where
        K: RowOrder<T>,
    {
        let Some(places) = &self.places else {
            return Ok(None);
        };
        let refusal = |limit| TooManyGather {
            owner: places.owner.clone(),
            limit,
            advice: K::ADVICE,
        };
        places.take().await.map(Some).map_err(refusal)
    }

    /// Whether an order with an index may replace this one. Later pages keep the order of the first.
    pub fn may_fall_back(&self) -> bool {
        self.any_order && self.after.is_none()
    }

    /// Entries that the first step along an index should read: one more than the page where every entry comes onto it, to
    /// know whether another page follows; else `rows`.
    pub fn first_step(&self, filtered: bool, rows: usize) -> usize {
        match filtered {
            true => rows,
            false => rows.min(self.limit + 1),
        }
    }

    /// The page without any row.
    pub fn empty_page<T>(&self) -> Page<T, K> {
        Page::new(Vec::new(), self.sort, None)
    }
}

/// A part of a list.
#[derive(Debug, Clone)]
pub struct Page<T, K> {
    /// In order.
    pub rows: Vec<T>,
    /// Their order.
    pub sort: Sort<K>,
    /// After which position the next page starts; `None` on the last page. The next page may turn out to be empty.
    pub next: Option<Position>,
    /// For a list that is taken from a view: all that happened before this time, in milliseconds, could be shown.
    pub as_of_ms: Option<i64>,
}

impl<T, K> Page<T, K> {
    /// A page that is not taken from a view.
    pub fn new(rows: Vec<T>, sort: Sort<K>, next: Option<Position>) -> Self {
        Self {
            rows,
            sort,
            next,
            as_of_ms: None,
        }
    }

    /// The same page of other rows; rows without a counterpart are left out.
    pub fn filter_map<U>(self, row: impl FnMut(T) -> Option<U>) -> Page<U, K> {
        Page {
            rows: self.rows.into_iter().filter_map(row).collect(),
            sort: self.sort,
            next: self.next,
            as_of_ms: self.as_of_ms,
        }
    }
}

/// The value that was read, or `None` for a damaged one: it is logged and left out, so that the rest of the list is shown.
pub fn readable<T>(kind: &str, id: &str, read: Result<T, impl Display>) -> Option<T> {
    let left_out = |damage: &_| {
        error!(
            record.kind = kind, record.id = id, error = %damage,
            "the {kind} `{id}` is left out: {damage}"
        );
    };
    read.inspect_err(left_out).ok()
}

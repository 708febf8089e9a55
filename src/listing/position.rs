//! The order of a list, and positions in it.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::domain::refusal::TooManyToSort;
use crate::domain::words::{Word, words};

/// The sort value of a row. All rows of a list have a value of the same kind; one that has none comes after all others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SortValue {
    /// Compared as a number.
    Number(i64),
    /// Compared by code point.
    Text(String),
    /// There is none.
    Absent,
}

impl From<i64> for SortValue {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for SortValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl<T: Into<SortValue>> From<Option<T>> for SortValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, T::into)
    }
}

/// The position of a row in the order of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The sort value of this row.
    pub value: SortValue,
    /// Names the row: decides between equal values.
    pub id: String,
}

impl Position {
    /// The position of a row with a value.
    pub fn new(value: impl Into<SortValue>, id: impl ToString) -> Self {
        Self {
            value: value.into(),
            id: id.to_string(),
        }
    }

    /// The position of a row in a list that is sorted by the id alone.
    pub fn of_id(id: impl ToString) -> Self {
        Self::new(SortValue::Absent, id)
    }

    /// The value, if it is a number.
    pub fn number(&self) -> Option<i64> {
        match self.value {
            SortValue::Number(number) => Some(number),
            SortValue::Text(_) | SortValue::Absent => None,
        }
    }

    /// The value, if it is a text.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            SortValue::Text(text) => Some(text),
            SortValue::Number(_) | SortValue::Absent => None,
        }
    }
}

/// The sorts of a list; the words are those of `sort_by`.
pub trait SortKey: Word {
    /// The order of a request that names none; largest first.
    const DEFAULT: Self;
    /// The orders that have an index.
    const INDEXED: &'static [Self];
    /// The order with an index that stands in where there are too many rows for the default.
    const FALLBACK: Option<Self> = None;
    /// Whether rows of equal value are in ascending order of ids in both directions. Otherwise the ids follow the direction.
    const TIES_ASCEND: bool = false;
}

/// An order that rows of type `T` can be sorted into.
pub trait RowOrder<T>: SortKey {
    /// The name of the rows, in the plural.
    const ROWS: &'static str;
    /// How to ask for fewer rows, or for an order that has an index.
    const ADVICE: &'static str;
    /// Whether the list is of the runtime plane.
    const IS_OF_RUNTIME_PLANE: bool = false;

    /// The position of a row in this order.
    fn position(self, row: &T) -> Position;

    /// The refusal of more rows than may be sorted.
    fn too_many(bound: usize) -> TooManyToSort {
        TooManyToSort {
            rows: Self::ROWS,
            bound,
            advice: Self::ADVICE,
            is_of_runtime_plane: Self::IS_OF_RUNTIME_PLANE,
        }
    }
}

/// Declares what the rows of a list can be sorted by: each word, with the value of a row.
///
/// ```ignore
/// orders! {
///     /// Sorts of the list of tenants.
///     TenantSort of tenant: Tenant {
///         rows: "tenants", advice: "narrow the filters, or sort by tenant_id",
///         id: tenant.tenant_id, default: CreatedAt, indexed: [TenantId], fallback: TenantId, ties_ascend: true
///     }
///     /// The time of creation.
///     CreatedAt = "created_at": tenant.created_at.as_ms(),
/// }
/// ```
///
/// From that follow the [`Word`], the [`SortKey`] and the [`RowOrder`].
macro_rules! orders {
    (
        $(#[doc = $doc:expr])*
        $name:ident of $row:ident: $type:ty {
            rows: $rows:literal, advice: $advice:literal,
            id: $id:expr, default: $default:ident, indexed: [$($indexed:ident),*]
            $(, fallback: $fallback:ident)? $(, ties_ascend: $ties:literal)? $(, is_of_runtime_plane: $runtime:literal)?
        }
        $($(#[doc = $order_doc:expr])* $order:ident = $word:literal: $value:expr,)+
    ) => {
        $crate::domain::words::words! {
            $(#[doc = $doc])*
            $name { $($(#[doc = $order_doc])* $order = $word),+ }
        }

        impl $crate::listing::SortKey for $name {
            const DEFAULT: Self = Self::$default;
            const INDEXED: &'static [Self] = &[$(Self::$indexed),*];
            $(const FALLBACK: Option<Self> = Some(Self::$fallback);)?
            $(const TIES_ASCEND: bool = $ties;)?
        }

        impl $crate::listing::RowOrder<$type> for $name {
            const ROWS: &'static str = $rows;
            const ADVICE: &'static str = $advice;
            $(const IS_OF_RUNTIME_PLANE: bool = $runtime;)?

            fn position(self, $row: &$type) -> $crate::listing::Position {
                match self {
                    $(Self::$order => $crate::listing::Position::new($value, &$id),)+
                }
            }
        }
    };
}
pub(crate) use orders;

words! {
    /// The order of a list that has only one.
    OneOrder {
        /// It has no name.
        Only = "",
    }
}

impl SortKey for OneOrder {
    const DEFAULT: Self = Self::Only;
    const INDEXED: &'static [Self] = &[Self::Only];
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort<K> {
    /// By what.
    pub by: K,
    /// Whether the largest come first.
    pub descending: bool,
}

impl<K: SortKey> Sort<K> {
    /// Compares two rows.
    pub fn compare(self, a: &Position, b: &Position) -> Ordering {
        let (values, ids) = (a.value.cmp(&b.value), a.id.cmp(&b.id));
        match (self.descending, K::TIES_ASCEND) {
            (false, _) => values.then(ids),
            (true, true) => values.reverse().then(ids),
            (true, false) => values.then(ids).reverse(),
        }
    }
}

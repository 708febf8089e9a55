//! Reads an index by score while it changes.

use std::collections::HashSet;

use crate::store::tools::verify::READ_ROWS;
use crate::store::{Store, StoreError};

/// Reads an index by score, page by page. Rows that leave it meanwhile do not make it skip others.
pub(super) struct Scan {
    from: i64,
    until: i64,
    /// The members already read of the score `from`.
    seen: HashSet<String>,
}

impl Scan {
    /// A scan from the lowest score to `until`, included.
    pub(super) fn until(until: i64) -> Self {
        Self {
            from: i64::MIN,
            until,
            seen: HashSet::new(),
        }
    }

    /// The next page of members; `None` at the end.
    pub(super) async fn next(
        &mut self,
        store: &Store,
        index: &str,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let rows = READ_ROWS + self.seen.len();
        let mut page = store
            .scores_between(index, self.from, self.until, rows)
            .await?;
        page.retain(|(id, score)| *score != self.from || !self.seen.contains(id));
        page.truncate(READ_ROWS);
        let Some((_, last)) = page.last() else {
            return Ok(None);
        };
        if *last != self.from {
            self.seen.clear();
        }
        self.from = *last;
        let at_last = page.iter().filter(|(_, score)| *score == self.from);
        self.seen.extend(at_last.map(|(id, _)| id.clone()));
        Ok(Some(page.into_iter().map(|(id, _)| id).collect()))
    }
}

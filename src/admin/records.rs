//! What lists of records have in common: an index names the records, and a step reads both.

use crate::domain::record::{Record, RecordError};
use crate::listing::{
    self, Bounds, Entry, ListQuery, Page, Position, RowOrder, Step, Walk, readable,
};
use crate::store::{Store, StoreError};

/// A page of a list. One that is sorted has more time.
///
/// # Errors
/// As [`listing::page`].
pub(super) async fn page<W: Walk<Error = StoreError>, F, K: RowOrder<W::Row>>(
    store: &Store,
    walk: &mut W,
    query: &ListQuery<F, K>,
    bounds: Bounds,
) -> Result<Page<W::Row, K>, StoreError> {
    let page = listing::page(walk, query, bounds);
    match query.has_index() {
        true => page.await,
        false => store.serve_gathering(page).await,
    }
}

/// A step over these entries of an index, whose records it reads. An entry has no row if it names no record, if its record is
/// damaged, or if there is none: indexes are written before records, and cleared after them.
pub(super) async fn step<T>(
    store: &Store,
    kind: &str,
    (entries, complete): (Vec<Position>, bool),
    (key, fields): (impl Fn(&Position) -> Option<String>, &[&str]),
    read: impl Fn(&Position, &Record) -> Result<T, RecordError>,
) -> Result<Step<T>, StoreError> {
    let keys: Vec<_> = entries.iter().map(key).collect();
    let found = keys.iter().flatten().cloned();
    let records = store.records(found, fields).await?;
    let entries = entries.into_iter().zip(keys).collect();
    Ok(Step::new(rows(kind, entries, records, read), complete))
}

/// The entries with their rows. Those with a key have the next of the records.
fn rows<T>(
    kind: &str,
    entries: Vec<(Position, Option<String>)>,
    records: Vec<Result<Record, StoreError>>,
    read: impl Fn(&Position, &Record) -> Result<T, RecordError>,
) -> Vec<Entry<T>> {
    let mut records = records.into_iter();
    let entry = |(position, key): (Position, Option<String>)| {
        let record = key.and_then(|_| records.next());
        let row = record.and_then(|record| {
            let row = record.and_then(|record| match record.is_empty() {
                true => Ok(None),
                false => Ok(Some(read(&position, &record)?)),
            });
            readable(kind, &position.id, row).flatten()
        });
        Entry { position, row }
    };
    entries.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_a_valid_record_shifts_no_others() {
        let entries = ["No Id", "damaged", "gone", "refused", "sound", "?"];
        let key = |id: &str| (!["No Id", "?"].contains(&id)).then(|| id.to_owned());
        let entries = entries.map(|id| (Position::of_id(id), key(id)));
        let record = |name: &str| Record::from_pairs(vec!["name".to_owned(), name.to_owned()]);
        let refused = StoreError::ErrorReply {
            code: "WRONGTYPE".to_owned(),
            detail: String::new(),
        };
        let records = vec![
            Ok(record("")),
            Ok(Record::default()),
            Err(refused),
            Ok(record("x")),
        ];
        let read = |position: &Position, record: &Record| match record.text("name")? {
            "" => Err(RecordError::of("name")),
            name => Ok(format!("{} {name}", position.id)),
        };
        let rows = rows("tenant", entries.to_vec(), records, read);
        let rows: Vec<_> = rows.into_iter().map(|entry| entry.row).collect();
        let sound = Some("sound x".to_owned());
        assert_eq!(rows, [None, None, None, None, sound, None]);
    }
}

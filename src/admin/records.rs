//! Makes rows of a list from the entries of an index and their records.

use crate::domain::record::{Record, RecordError};
use crate::listing::readable;
use crate::store::StoreError;

/// The ids among the entries of an index. An entry may be none.
pub(super) fn ids<E: AsRef<str>, I>(entries: &[E], parse: impl Fn(&str) -> Option<I>) -> Vec<I> {
    let parsed = entries.iter().filter_map(|entry| parse(entry.as_ref()));
    parsed.collect()
}

/// What was read for each entry, from the records of [`ids`]. An entry has no row if it is no id, if its record is damaged, or
/// if there is none: indexes are written before records, and cleared after them.
pub(super) fn rows<E: AsRef<str>, I: AsRef<str>, T>(
    kind: &str,
    entries: &[E],
    ids: &[I],
    records: Vec<Result<Record, StoreError>>,
    read: impl Fn(&I, &Record) -> Result<T, RecordError>,
) -> Vec<Option<T>> {
    let mut records = ids.iter().zip(records).peekable();
    let row = |entry: &E| {
        let (id, record) = records.next_if(|(id, _)| id.as_ref() == entry.as_ref())?;
        let row = record.and_then(|record| {
            let written = (!record.is_empty()).then_some(record);
            Ok(written.map(|record| read(id, &record)).transpose()?)
        });
        readable(kind, id.as_ref(), row).flatten()
    };
    entries.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::TenantId;

    #[test]
    fn an_entry_without_a_valid_record_shifts_no_others() {
        let entries = ["No Id", "damaged", "gone", "refused", "sound", "?"].map(str::to_owned);
        let ids = ids(&entries, TenantId::parse);
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
        let read = |id: &TenantId, record: &Record| match record.text("name")? {
            "" => Err(RecordError::of("name")),
            name => Ok(format!("{id} {name}")),
        };
        let rows = rows("tenant", &entries, &ids, records, read);
        let sound = Some("sound x".to_owned());
        assert_eq!(rows, [None, None, None, None, sound, None]);
    }
}

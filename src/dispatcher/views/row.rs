//! Builds the row of an event in the view over all tenants.

use crate::domain::event::StoredEvent;
use crate::domain::event::types::EventType;
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::record::{Record, RecordError};
use crate::domain::tenant::SYSTEM;
use crate::store::Day;
use crate::store::dispatcher::index_rows::{Denials, NewRow};
use crate::store::dispatcher::outbox::EventRange;
use crate::store::dispatcher::views::{CORRELATION_ID, REQUEST_ID, Row, TRACE_ID, id_digest};

/// Builds the row of an event.
///
/// # Errors
/// [`RecordError`] names the field that is missing or malformed.
pub(super) fn new_row(
    partition: Partition,
    target: &EventRange,
    entry: EntryId,
    facts: &Record,
) -> Result<NewRow, RecordError> {
    let event_type = facts.text("type")?;
    let charset =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
    if event_type.len() > 128 || !event_type.bytes().all(charset) {
        return Err(RecordError::of("type"));
    }
    let at_ms = facts.integer("at_ms")?;
    if Day::of_ms(at_ms) != target.day {
        return Err(RecordError::of("at_ms"));
    }
    let event = StoredEvent {
        partition,
        tenant: &target.tenant,
        entry: &entry.to_string(),
        facts,
    };
    let ids = [
        (CORRELATION_ID, event.correlation_id()?),
        (REQUEST_ID, facts.get("request_id").map(str::to_owned)),
        (TRACE_ID, facts.get("trace_id").map(str::to_owned)),
    ];
    let ids = ids.into_iter();
    let ids = ids.filter_map(|(letter, id)| Some(id_digest(letter, &id?)));
    let category = event_type.split('.').next().unwrap_or_default();
    let mut kinds = vec![event_type.to_owned(), category.to_owned()];
    if target.tenant == SYSTEM {
        kinds.push(SYSTEM.to_owned());
    }
    Ok(NewRow {
        day: target.day,
        at_ms,
        row: Row {
            partition,
            entry,
            tenant: target.tenant.clone(),
            kind: Some(event_type.to_owned()),
        },
        kinds,
        ids: ids.collect(),
        denials: denials(event_type, facts)?,
    })
}

/// The denials that an event reports; `None` for events of other types.
fn denials(event_type: &str, facts: &Record) -> Result<Option<Denials>, RecordError> {
    if event_type != EventType::ReservationDenied.as_str() {
        return Ok(None);
    }
    let reason = facts.text("data.reason_code")?;
    if reason.len() > 64 || !reason.bytes().all(|b| b.is_ascii_uppercase() || b == b'_') {
        return Err(RecordError::of("data.reason_code"));
    }
    Ok(Some(Denials {
        reason: reason.to_owned(),
        count: facts.optional("metadata.count")?.unwrap_or(1),
    }))
}

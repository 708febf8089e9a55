//! Requests as their records have them. What a client sent is attested and nothing else, so a record also says which members
//! with a default were named.

use crate::domain::json::Json;
use crate::domain::record::{Record, RecordError};

/// The request of a reservation. `named`: see [`named_defaults`](crate::domain::evidence::named_defaults).
pub(super) fn create(record: &Record, named: &str) -> Result<Json, RecordError> {
    let subject = parsed("subject", &record.subject()?)?;
    let action = parsed("action_kind", &record.action()?)?;
    let mut members = vec![
        (
            "idempotency_key",
            Json::from(record.text("idempotency_key")?),
        ),
        ("subject", subject),
        ("action", action),
        ("estimate", amount(record, "estimate")?),
    ];
    members.extend(free(record, "metadata", "metadata")?);
    for word in named.split_whitespace() {
        members.push(match word.split_at(1) {
            ("t", lifetime) => {
                let lifetime = lifetime.parse::<i64>();
                let lifetime = lifetime.map_err(|_| RecordError::of("create_inputs"))?;
                ("ttl_ms", Json::from(lifetime))
            }
            ("g", _) => ("grace_period_ms", Json::from(record.integer("grace_ms")?)),
            ("o", _) => ("overage_policy", Json::from(record.text("overage_policy")?)),
            ("d", _) => ("dry_run", Json::Bool(false)),
            _ => return Err(RecordError::of("create_inputs")),
        });
    }
    Ok(members.into_iter().collect())
}

/// The request of a commit.
pub(super) fn commit(record: &Record) -> Result<Json, RecordError> {
    let mut members = vec![
        ("idempotency_key", Json::from(record.text("end_key")?)),
        ("actual", amount(record, "actual")?),
    ];
    members.extend(free(record, "metrics", "metrics")?);
    members.extend(free(record, "committed_metadata", "metadata")?);
    Ok(members.into_iter().collect())
}

/// The request of a release.
pub(super) fn release(record: &Record) -> Result<Json, RecordError> {
    let mut members = vec![("idempotency_key", Json::from(record.text("end_key")?))];
    let reason = record.get("release_reason");
    members.extend(reason.map(|reason| ("reason", Json::from(reason))));
    Ok(members.into_iter().collect())
}

/// An amount in the unit of the reservation.
fn amount(record: &Record, field: &str) -> Result<Json, RecordError> {
    let members = [
        ("unit", Json::from(record.text("unit")?)),
        ("amount", Json::from(record.integer(field)?)),
    ];
    Ok(members.into_iter().collect())
}

/// A member that the record keeps as JSON, if it has it.
fn free(
    record: &Record,
    field: &str,
    member: &'static str,
) -> Result<Option<(&'static str, Json)>, RecordError> {
    let Some(text) = record.get(field) else {
        return Ok(None);
    };
    let json = Json::parse(text.as_bytes()).map_err(|_| RecordError::of(field))?;
    Ok(Some((member, json)))
}

fn parsed(field: &str, value: &impl serde::Serialize) -> Result<Json, RecordError> {
    let text = serde_json::to_vec(value).map_err(|_| RecordError::of(field))?;
    Json::parse(&text).map_err(|_| RecordError::of(field))
}

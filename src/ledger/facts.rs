//! What a record keeps of a request, as names and values; and how it reads back.

use serde_json::value::RawValue;

use crate::domain::action::Action;
use crate::domain::reservation::{Record, RecordError};
use crate::domain::scope::{Level, ScopePath};
use crate::domain::subject::Subject;

/// Names and values.
pub(super) type Facts = Vec<(&'static str, String)>;

/// Action and subject. A subject that its scope path tells whole is not kept a second time.
pub(super) fn of_request(subject: &Subject, action: &Action) -> Facts {
    let mut facts = vec![
        ("action_kind", action.kind.clone()),
        ("action_name", action.name.clone()),
    ];
    if let Some(tags) = &action.tags {
        facts.push(("action_tags", json(tags)));
    }
    let told_by_path = subject.dimensions().is_none()
        && Level::ALL
            .into_iter()
            .filter_map(|level| subject.value(level))
            .all(|value| !value.bytes().any(|b| b.is_ascii_uppercase()));
    if !told_by_path {
        facts.push(("subject", json(subject)));
    }
    facts
}

/// A member that the record keeps when it was sent.
pub(super) fn keep(facts: &mut Facts, name: &'static str, value: Option<&RawValue>) {
    if let Some(value) = value {
        facts.push((name, value.get().to_owned()));
    }
}

/// The subject of a record, as JSON.
pub fn subject_of(record: &Record, path: &ScopePath) -> Result<Box<RawValue>, RecordError> {
    if let Some(subject) = raw(record, "subject")? {
        return Ok(subject);
    }
    let values = path.segments().filter_map(|segment| {
        let (level, value) = segment.split_once(':')?;
        Some((Level::parse(level)?, value.to_owned()))
    });
    let subject = Subject::from_values(values).ok_or_else(|| unreadable("scope_path"))?;
    RawValue::from_string(json(&subject)).map_err(|_| unreadable("scope_path"))
}

/// The tenant of the subject as it was sent; empty where the subject named none.
pub(super) fn subject_tenant(record: &Record) -> Result<String, RecordError> {
    let path = record.scope_path()?;
    let Some(subject) = record.get("subject") else {
        return Ok(path.value(Level::Tenant).unwrap_or_default().to_owned());
    };
    #[derive(serde::Deserialize)]
    struct Named {
        tenant: Option<String>,
    }
    let named: Named = serde_json::from_str(subject).map_err(|_| unreadable("subject"))?;
    Ok(named.tenant.unwrap_or_default())
}

/// A field that holds JSON, if it is there.
pub fn raw(record: &Record, name: &str) -> Result<Option<Box<RawValue>>, RecordError> {
    let Some(text) = record.get(name) else {
        return Ok(None);
    };
    let value = RawValue::from_string(text.to_owned());
    value.map(Some).map_err(|_| unreadable(name))
}

/// The action of a record.
pub fn action_of(record: &Record) -> Result<Action, RecordError> {
    let tags = record
        .get("action_tags")
        .map(serde_json::from_str)
        .transpose();
    Ok(Action {
        kind: record.text("action_kind")?.to_owned(),
        name: record.text("action_name")?.to_owned(),
        tags: tags.map_err(|_| unreadable("action_tags"))?,
    })
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("maps with text keys always serialise")
}

fn unreadable(field: &str) -> RecordError {
    RecordError {
        field: field.to_owned(),
    }
}

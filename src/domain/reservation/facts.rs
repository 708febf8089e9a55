//! The fields of a record that come from the request, and how they are read back.

use crate::domain::fields::Read as _;
use crate::domain::record::{Record, RecordError};
use crate::domain::scope::{Level, ScopePath};
use crate::domain::subject::{Action, Subject};

/// Names and values.
pub(crate) type Facts = Vec<(&'static str, String)>;

/// Action and subject. The subject is stored only if the scope path does not determine it.
pub(crate) fn of_request(subject: &Subject, action: &Action) -> Facts {
    let mut facts = vec![
        ("action_kind", action.kind.clone()),
        ("action_name", action.name.clone()),
    ];
    if let Some(tags) = &action.tags {
        facts.push(("action_tags", tags.to_json()));
    }
    let lower_case = |value: &str| !value.bytes().any(|byte| byte.is_ascii_uppercase());
    let values = || {
        let levels = Level::ALL.iter();
        levels.filter_map(|level| subject.value(*level))
    };
    if subject.dimensions.is_some() || !values().all(lower_case) {
        facts.push(("subject", subject.to_json()));
    }
    facts
}

/// The facts that have a value.
pub(crate) fn present<const N: usize>(facts: [(&'static str, Option<String>); N]) -> Facts {
    let facts = facts.into_iter();
    facts
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

impl Record {
    /// The subject as it was sent.
    pub fn subject(&self) -> Result<Subject, RecordError> {
        let Some(stored) = self.get("subject") else {
            let path: ScopePath = self.read("scope_path")?;
            let values = path.segments().filter_map(|segment| {
                let (level, value) = segment.split_once(':')?;
                Some((Level::parse(level)?, value))
            });
            return Subject::from_values(values).ok_or_else(|| RecordError::of("scope_path"));
        };
        Subject::parse_stored(stored).ok_or_else(|| RecordError::of("subject"))
    }

    /// The action as it was sent.
    pub fn action(&self) -> Result<Action, RecordError> {
        let tags = self.get("action_tags").map(serde_json::from_str);
        Ok(Action {
            kind: self.text("action_kind")?.to_owned(),
            name: self.text("action_name")?.to_owned(),
            tags: tags
                .transpose()
                .map_err(|_| RecordError::of("action_tags"))?,
        })
    }
}

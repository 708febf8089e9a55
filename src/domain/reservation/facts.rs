//! The fields of a record that come from the request, and how they are read back.

use std::borrow::Cow;

use crate::domain::fields::Read as _;
use crate::domain::record::{Record, RecordError};
use crate::domain::scope::{Level, ScopePath};
use crate::domain::subject::{Action, Subject};

/// A name and its value.
pub(crate) type Fact<'a> = (&'static str, Cow<'a, str>);

/// Names and values.
pub(crate) type Facts<'a> = Vec<Fact<'a>>;

/// Action and subject. The subject is stored only if the scope path does not determine it.
pub(crate) fn of_request<'a>(subject: &Subject, action: &'a Action) -> Facts<'a> {
    // Room for what others add.
    let mut facts = Facts::with_capacity(8);
    facts.push(("action_kind", action.kind.as_str().into()));
    facts.push(("action_name", action.name.as_str().into()));
    if let Some(tags) = &action.tags {
        facts.push(("action_tags", tags.to_json().into()));
    }
    let lower_case = |value: &str| !value.bytes().any(|byte| byte.is_ascii_uppercase());
    let values = || {
        let levels = Level::ALL.iter();
        levels.filter_map(|level| subject.value(*level))
    };
    if subject.dimensions.is_some() || !values().all(lower_case) {
        facts.push(("subject", subject.to_json().into()));
    }
    facts
}

/// The facts that have a value.
pub(crate) fn present<'a, T: Into<Cow<'a, str>>, const N: usize>(
    facts: [(&'static str, Option<T>); N],
) -> impl Iterator<Item = Fact<'a>> {
    let facts = facts.into_iter();
    facts.filter_map(|(name, value)| Some((name, value?.into())))
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
            kind: self.text("action_kind")?.into(),
            name: self.text("action_name")?.into(),
            tags: tags
                .transpose()
                .map_err(|_| RecordError::of("action_tags"))?,
        })
    }
}

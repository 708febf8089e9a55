//! An example of each operation: a request, and the response of a running service to it. `tests/it/http/examples` records
//! them in `examples.json`, in the words of the default dialect.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::super::dialect::Dialect;

static RECORDED: LazyLock<[Value; 2]> = LazyLock::new(|| Dialect::ALL.map(in_words_of));

/// The example of an operation: `parameters` by name, `request` if it has a body, `status`, `response` if that has one.
pub(super) struct Example(&'static Map<String, Value>);

impl Example {
    /// That of an operation, by its `operationId`; `None` if none is recorded.
    pub(super) fn of(operation: &str, dialect: Dialect) -> Option<Self> {
        RECORDED[dialect as usize][operation].as_object().map(Self)
    }

    /// The value of a parameter, if the request has it.
    pub(super) fn parameter(&self, name: &str) -> Option<&Value> {
        self.0.get("parameters")?.get(name)
    }

    /// The body of the request.
    pub(super) fn request(&self) -> Option<&Value> {
        self.0.get("request")
    }

    /// The body of the response with a status.
    pub(super) fn response(&self, status: u16) -> Option<&Value> {
        let has_status = self.0.get("status").and_then(Value::as_u64) == Some(status.into());
        self.0.get("response").filter(|_| has_status)
    }
}

/// What was recorded, as a service of this dialect would send it.
fn in_words_of(dialect: Dialect) -> Value {
    let (known, words) = (Dialect::default().words(), dialect.words());
    let text = [
        (known.runtime_source, words.runtime_source),
        (known.admin_source, words.admin_source),
        (known.evidence_schema, words.evidence_schema),
        (known.key_from_member, words.key_from_member),
        (known.key_until_member, words.key_until_member),
    ]
    .into_iter()
    .fold(
        include_str!("examples.json").to_owned(),
        |text, (from, to)| text.replace(&format!("\"{from}\""), &format!("\"{to}\"")),
    );
    let text = text.replace(known.api_key_prefix, words.api_key_prefix);
    serde_json::from_str(&text).expect("a test records them")
}

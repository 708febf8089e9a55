//! An example of each operation: a request, and the response of a running service to it. `tests/it/http/examples` records
//! them in `examples.json`, in the words of the default dialect.

use serde_json::{Map, Value};

use super::super::dialect::Dialect;

/// All examples, in the words of a dialect.
pub(super) struct Examples(Value);

/// The example of an operation: `parameters` by name, `request` if it has a body, `status`, `response` if that has one.
#[derive(Clone, Copy)]
pub(super) struct Example<'a>(&'a Map<String, Value>);

impl Examples {
    /// What was recorded, as a service of this dialect would send it.
    pub(super) fn of(dialect: Dialect) -> Self {
        Self(in_words_of(dialect))
    }

    /// That of an operation, by its `operationId`; `None` if none is recorded.
    pub(super) fn of_operation(&self, name: &str) -> Option<Example<'_>> {
        self.0[name].as_object().map(Example)
    }
}

impl<'a> Example<'a> {
    /// The value of a parameter, if the request has it.
    pub(super) fn parameter(self, name: &str) -> Option<&'a Value> {
        self.0.get("parameters")?.get(name)
    }

    /// The body of the request.
    pub(super) fn request(self) -> Option<&'a Value> {
        self.0.get("request")
    }

    /// The body of the response with a status.
    pub(super) fn response(self, status: u16) -> Option<&'a Value> {
        let has_status = self.0.get("status").and_then(Value::as_u64) == Some(status.into());
        self.0.get("response").filter(|_| has_status)
    }
}

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

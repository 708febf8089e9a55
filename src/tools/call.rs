//! One request of the operations index.

use reqwest::Method;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::client_error::{CallError, Retry};
use crate::api::operations::OperationId;

/// The members of `args` that were given: neither null nor false nor empty.
pub(super) fn given(args: &impl Serialize) -> Map<String, Value> {
    let Ok(Value::Object(mut members)) = serde_json::to_value(args) else {
        return Map::new();
    };
    members.retain(|_, value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(entries) => !entries.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    });
    members
}

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) operation: OperationId,
    /// The parameter of the path.
    pub(super) id: Option<String>,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Option<Value>,
    pub(super) retry: Retry,
}

impl Call {
    /// A request whose path has no parameter.
    pub fn of(operation: OperationId) -> Self {
        let retry = match operation.operation().method {
            Method::GET => Retry::Read,
            _ => Retry::Idempotent,
        };
        Self {
            operation,
            id: None,
            query: Vec::new(),
            body: None,
            retry,
        }
    }

    /// A request about the object `id`.
    pub fn to(operation: OperationId, id: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            ..Self::of(operation)
        }
    }

    /// Adds a parameter, if there is a value.
    pub fn with(mut self, name: &str, value: Option<impl ToString>) -> Self {
        let value = value.map(|value| (name.to_owned(), value.to_string()));
        self.query.extend(value);
        self
    }

    /// Adds the given members of `parameters`.
    pub fn query(mut self, parameters: &impl Serialize) -> Self {
        for (name, value) in given(parameters) {
            let value = match value {
                Value::String(text) => text,
                value => value.to_string(),
            };
            self.query.push((name, value));
        }
        self
    }

    /// Sends the given members of `body`.
    pub fn body(mut self, body: &impl Serialize) -> Self {
        self.body = Some(Value::Object(given(body)));
        self
    }

    /// Clears these members of the body.
    pub fn cleared(mut self, members: &[String]) -> Self {
        let body = self.body.get_or_insert_with(|| Map::new().into());
        for member in members {
            body[member] = Value::Null;
        }
        self
    }

    /// That there is something to change; `command` lists what can be.
    ///
    /// # Errors
    /// [`CallError::Usage`] when the body is empty.
    pub fn that_changes(self, command: &str) -> Result<Self, CallError> {
        let is_empty = |body: &Value| body.as_object().is_none_or(Map::is_empty);
        match self.body.as_ref().is_none_or(is_empty) {
            false => Ok(self),
            true => Err(CallError::Usage(format!(
                "nothing to change; `admin {command} --help` lists what can be"
            ))),
        }
    }

    /// Makes the request safe to repeat, under the operator's idempotency key or a random one.
    pub fn once(mut self, key: Option<String>) -> Self {
        self.retry = Retry::Keyed(key.unwrap_or_else(|| Uuid::new_v4().to_string()));
        self
    }

    /// Says what a second request would do.
    pub fn retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// Creates an API key. Without an idempotency key, because the service stores no secret for a replay: a second request would
    /// create a second key.
    pub fn create_key(tenant: &str, body: &impl Serialize) -> Self {
        let advice = format!(
            "`admin key list --tenant {tenant}` shows such a key, whose secret is lost: revoke it"
        );
        Self {
            retry: Retry::Never(advice),
            ..Self::of(OperationId::CreateApiKey).body(body)
        }
    }
}

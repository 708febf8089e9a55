//! One request of the operations index.

use reqwest::Method;
use serde::Serialize;
use serde_json::Value;

use crate::api::operations::OperationId;

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) operation: OperationId,
    /// The parameter of the path.
    pub(super) id: Option<String>,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Option<Value>,
    /// The idempotency key, which makes the request safe to repeat.
    pub(super) key: Option<String>,
}

impl Call {
    /// A request whose path has no parameter.
    pub fn of(operation: OperationId) -> Self {
        Self {
            operation,
            id: None,
            query: Vec::new(),
            body: None,
            key: None,
        }
    }

    /// A request about the object `id`.
    pub fn to(operation: OperationId, id: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            ..Self::of(operation)
        }
    }

    /// Sets a parameter of the query string, if there is a value.
    pub fn with(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.query.retain(|(known, _)| known != name);
            self.query.push((name.to_owned(), value.to_string()));
        }
        self
    }

    /// Sends this body.
    pub fn body(mut self, body: &impl Serialize) -> Self {
        self.body = serde_json::to_value(body).ok();
        self
    }

    /// What to do when the response is lost.
    pub fn advice(&self) -> String {
        use OperationId as Id;
        let id = self.id.as_deref().unwrap_or_default();
        let advice = match (self.operation, &self.key) {
            // No replay returns the secret, and without an idempotency key a second request creates a second key.
            (Id::CreateApiKey, _) => {
                let body = self.body.as_ref();
                let tenant = body.and_then(|body| body["tenant_id"].as_str());
                format!(
                    "`admin key list --tenant {}` shows such a key, whose secret is lost: revoke it",
                    tenant.unwrap_or("ID")
                )
            }
            (_, Some(key)) => format!(
                "run the command again with --idempotency-key {key}, which changes nothing twice"
            ),
            (Id::CreateWebhookSubscription | Id::CreateTenantWebhook, None) => {
                "`admin webhook list` shows such a subscription, whose secret is lost: delete it"
                    .into()
            }
            (Id::ReplayEvents, None) => {
                format!("`admin webhook deliveries {id}` shows what was queued")
            }
            (id, None) if id.operation().method == Method::GET => return "try again".to_owned(),
            (_, None) => "run the command again, which changes nothing twice".to_owned(),
        };
        format!("it is unknown whether anything was changed; {advice}")
    }
}

//! One request of the operations index, and why it failed.

use std::io;
use std::process::ExitCode;

use reqwest::Method;
use serde::{Deserialize, Serialize};
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
            (Id::ReplayEvents | Id::ReplayTenantEvents, None) => {
                format!("`admin webhook deliveries {id}` shows what was queued")
            }
            (id, None) if id.operation().method == Method::GET => return "try again".to_owned(),
            (_, None) => "run the command again, which changes nothing twice".to_owned(),
        };
        format!("it is unknown whether anything was changed; {advice}")
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// The service refused the request.
    #[error("{}", .0.text())]
    Refused(Refusal),
    /// The service failed or cannot be reached: the same request may succeed later.
    #[error("{0}")]
    Unavailable(String),
    /// The response of this URL lacks what the protocol requires.
    #[error("the response of {0} is not what the protocol requires; is it a budget authority?")]
    Unreadable(String),
    /// The service did what it could, and the output says what failed.
    #[error("{0}")]
    Incomplete(&'static str),
    /// Standard output, or what was typed, failed.
    #[error("the output could not be written: {0}")]
    Output(#[from] io::Error),
}

/// An error response of the service.
#[derive(Debug, Deserialize)]
pub struct Refusal {
    /// The status of the response.
    #[serde(skip)]
    pub status: u16,
    /// Whether the request had an admin key; otherwise it had an API key.
    #[serde(skip)]
    pub(super) used_admin_key: bool,
    #[serde(rename = "error")]
    pub(super) code: String,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) details: Value,
    #[serde(default)]
    pub(super) request_id: String,
}

impl CallError {
    /// Prints an error, and returns the exit code of the process.
    pub fn exit(outcome: Result<(), Self>) -> ExitCode {
        let Err(error) = outcome else {
            return ExitCode::SUCCESS;
        };
        let code = match &error {
            // The reader of a pipe may stop before the end.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return ExitCode::SUCCESS;
            }
            Self::Refused(_) | Self::Incomplete(_) => 1,
            Self::Usage(_) => 2,
            Self::Unavailable(_) | Self::Unreadable(_) | Self::Output(_) => 3,
        };
        eprintln!("{error}");
        ExitCode::from(code)
    }
}

impl Refusal {
    fn text(&self) -> String {
        let mut text = format!("{}: {}", self.code, self.message);
        if self.details.as_object().is_some_and(|all| !all.is_empty()) {
            text += &format!("\ndetails: {}", self.details);
        }
        text.extend(self.advice().into_iter().flat_map(|advice| ["\n", advice]));
        text + &format!("\nrequest {}", self.request_id)
    }

    fn advice(&self) -> Option<&'static str> {
        Some(match (self.status, self.code.as_str()) {
            (401, _) if self.used_admin_key => {
                "the admin key must be one of the service's BUDGET_ADMIN_KEYS: --admin-key, BUDGET_ADMIN_KEY or a profile gives it"
            }
            (401, _) => {
                "the API key of `admin call` comes from --api-key or BUDGET_API_KEY; `admin key list` shows which keys are active"
            }
            (_, "BUDGET_NOT_FOUND") => {
                "`admin budget tree --tenant ID` shows the budgets that exist, each with its unit; `--unit` chooses one"
            }
            (_, "TENANT_NOT_FOUND") => "`admin tenant list` shows the tenants that exist",
            (_, "WEBHOOK_NOT_FOUND") => "`admin webhook list` shows the webhooks that exist",
            (_, "WEBHOOK_URL_INVALID") => {
                "`admin webhook rules show` shows which addresses are allowed, `rules set` sets them"
            }
            (_, "BUDGET_FROZEN") => "`admin budget unfreeze` lifts the freeze",
            _ => return None,
        })
    }
}

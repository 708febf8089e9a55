//! Why a request failed, and what to do about it.

use std::io;

use serde::Deserialize;
use serde_json::Value;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    #[error("{}", .0.text())]
    Refused(Refusal),
    #[error("the service at {url} failed: {status} {message}\n{advice}")]
    Failed {
        url: String,
        status: u16,
        message: String,
        advice: String,
    },
    #[error(
        "the service at {url} cannot be reached: {reason}\n--url, BUDGET_URL or a profile sets where it is"
    )]
    Unreachable { url: String, reason: String },
    #[error("no response from {url}: {reason}\n{advice}")]
    Lost {
        url: String,
        reason: String,
        advice: String,
    },
    #[error("the response of {url} is not what the protocol requires; is it a budget authority?")]
    Unreadable { url: String },
    /// The service did what it could, and the output says what failed.
    #[error("{0}")]
    Incomplete(&'static str),
    #[error("the output could not be written: {0}")]
    Output(#[from] io::Error),
}

/// An error response of the service.
#[derive(Debug, Deserialize)]
pub struct Refusal {
    #[serde(skip)]
    pub status: u16,
    #[serde(rename = "error")]
    pub code: String,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub details: Value,
    #[serde(default)]
    pub request_id: String,
}

impl CallError {
    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Failed { .. } | Self::Unreachable { .. } | Self::Lost { .. }
        )
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Incomplete(_) => 1,
            Self::Usage(_) => 2,
            Self::Failed { .. }
            | Self::Unreachable { .. }
            | Self::Lost { .. }
            | Self::Unreadable { .. }
            | Self::Output(_) => 3,
        }
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
            (401, _) => {
                "the admin key must be one of the service's BUDGET_ADMIN_KEYS: --admin-key, BUDGET_ADMIN_KEY or a profile gives it"
            }
            (_, "BUDGET_NOT_FOUND") => {
                "`admin budget tree --tenant ID` shows the budgets that exist"
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

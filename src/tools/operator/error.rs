//! Why a command came to nothing, and what to do about it.

use std::io;

use serde_json::Value;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum OperatorError {
    /// The command line is wrong in a way that only shows when it is carried out.
    #[error("{0}")]
    Usage(String),
    #[error("{}", .0.text())]
    Refused(Refusal),
    #[error("the service at {url} failed: {status} {message}\n{}", .again.advice())]
    Failed {
        url: String,
        status: u16,
        message: String,
        again: Again,
    },
    #[error(
        "the service at {url} cannot be reached: {reason}\n--url or BUDGET_URL says where it is"
    )]
    Unreachable { url: String, reason: String },
    #[error("no answer from {url}: {reason}\n{}", .again.advice())]
    Lost {
        url: String,
        reason: String,
        again: Again,
    },
    #[error("the answer of {url} is not what the protocol says; is it a budget authority?")]
    Unreadable { url: String },
    #[error("the output could not be written: {0}")]
    Output(#[from] io::Error),
}

/// An error answer of the service.
#[derive(Debug)]
pub(super) struct Refusal {
    pub status: u16,
    pub code: String,
    pub message: String,
    pub details: Value,
    pub request_id: String,
}

impl OperatorError {
    /// Whether the same may be answered later.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Failed { .. } | Self::Unreachable { .. } | Self::Lost { .. }
        )
    }

    /// What the process ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) => 1,
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
        if self
            .details
            .as_object()
            .is_some_and(|details| !details.is_empty())
        {
            text += &format!("\ndetails: {}", self.details);
        }
        if let Some(advice) = self.advice() {
            text += &format!("\n{advice}");
        }
        text + &format!("\nrequest {}", self.request_id)
    }

    fn advice(&self) -> Option<&'static str> {
        Some(match (self.status, self.code.as_str()) {
            (401, _) => {
                "--admin-key or BUDGET_ADMIN_KEY must be one of the service's BUDGET_ADMIN_KEYS"
            }
            (_, "BUDGET_NOT_FOUND") => {
                "`admin budget tree TENANT` shows the budgets that there are"
            }
            (_, "TENANT_NOT_FOUND") => "`admin tenant list` shows the tenants that there are",
            (_, "BUDGET_FROZEN") => "`admin budget unfreeze` lifts the freeze",
            _ => return None,
        })
    }
}

/// What comes of a request that is sent again.
#[derive(Debug)]
pub(super) enum Again {
    /// It only reads.
    Read,
    /// What it sets is set already.
    Settled,
    /// The service knows it by this key.
    Keyed(String),
    /// It would be done twice; what to do instead.
    Never(String),
}

impl Again {
    fn advice(&self) -> String {
        let done = match self {
            Self::Read => return "try again".to_owned(),
            Self::Settled => "run the command again, which does nothing twice",
            Self::Keyed(key) => &format!(
                "run the command again with --idempotency-key {key}, which does nothing twice"
            ),
            Self::Never(advice) => advice,
        };
        format!("it is unknown whether anything was changed; {done}")
    }
}

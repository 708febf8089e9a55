//! `admin key`.

use std::io::Write;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Serialize;

use super::client::Call;
use super::console::{Console, Listing};
use super::error::OperatorError;
use super::output::plain;
use super::time::future;

/// The permissions of an agent.
const AGENT: &[&str] = &[
    "reservations:create",
    "reservations:commit",
    "reservations:release",
    "reservations:extend",
    "reservations:list",
    "balances:read",
];

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make an API key; its secret is shown this once
    Create(Create),
    /// Show API keys, without secrets
    List(List),
    /// End a key at once, for good
    Revoke {
        key_id: String,
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Create {
    /// Whose key it is
    #[serde(rename = "tenant_id")]
    tenant: String,
    /// What it is for
    #[arg(long)]
    name: String,
    /// What it may do, repeated or comma-separated; by default what an agent needs: reservations and balances
    #[arg(long = "permission", value_name = "PERMISSION", value_delimiter = ',')]
    permissions: Vec<String>,
    /// Only requests with such a segment in their scope: agent:writer, or app:*
    #[arg(long = "scope-filter", value_name = "SEGMENT", value_delimiter = ',')]
    scope_filter: Vec<String>,
    /// When it ends: a time, or 30d; 90 days by default
    #[arg(long, value_name = "TIME", value_parser = future)]
    #[serde(rename = "expires_at")]
    expires: Option<String>,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct List {
    /// Only this tenant's
    #[arg(long)]
    #[serde(rename = "tenant_id")]
    tenant: Option<String>,
    /// ACTIVE, REVOKED or EXPIRED
    #[arg(long)]
    status: Option<String>,
    /// Text in the id or the name
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Rows at most
    #[arg(long, value_name = "N")]
    #[serde(skip)]
    limit: Option<usize>,
}

const KEYS: Listing = Listing {
    path: &["admin", "api-keys"],
    member: "keys",
    columns: &[
        ("KEY", "key_id", plain),
        ("TENANT", "tenant_id", plain),
        ("STATUS", "status", plain),
        ("EXPIRES", "expires_at", plain),
        ("BEGINS WITH", "key_prefix", plain),
        ("NAME", "name", plain),
    ],
    nothing: "no API keys; `admin key create TENANT --name NAME` makes one",
};

impl Command {
    pub async fn run(self, console: &mut Console<impl Write>) -> Result<(), OperatorError> {
        match self {
            Self::Create(create) => console.show(create.call()).await,
            Self::List(list) => console.list(&KEYS, &list, list.limit).await,
            Self::Revoke { key_id, reason } => {
                let call = Call::new(Method::DELETE, &["admin", "api-keys", &key_id]);
                console.show(call.with("reason", reason)).await
            }
        }
    }
}

impl Create {
    fn call(mut self) -> Call {
        if self.permissions.is_empty() {
            self.permissions = AGENT.iter().map(ToString::to_string).collect();
        }
        let tenant = &self.tenant;
        let advice = format!(
            "`admin key list --tenant {tenant}` shows such a key, whose secret is lost: revoke it"
        );
        // Without an idempotency key, because the service stores no secret for a replay.
        Call::post(KEYS.path).body(&self).never_twice(advice)
    }
}

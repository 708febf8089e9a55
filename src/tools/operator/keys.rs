//! `admin key`.

use std::io::Write;

use clap::Subcommand;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::json;

use super::client::{Call, Client};
use super::error::OperatorError;
use super::output::{Column, Output, plain};
use super::time::coming;

/// What an agent needs, and nothing of the admin plane.
const AGENT: &[&str] = &[
    "reservations:create",
    "reservations:commit",
    "reservations:release",
    "reservations:extend",
    "reservations:list",
    "balances:read",
];

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Make an API key; its secret is shown this once
    Create {
        /// Whose key it is
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
        #[arg(long, value_name = "TIME", value_parser = coming)]
        expires: Option<Timestamp>,
    },
    /// Show API keys, without secrets
    List {
        /// Only this tenant's
        #[arg(long)]
        tenant: Option<String>,
        /// ACTIVE, REVOKED or EXPIRED
        #[arg(long)]
        status: Option<String>,
        /// Text in the id or the name
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
        /// Rows at most
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// End a key at once, for good
    Revoke {
        key_id: String,
        #[arg(long)]
        reason: Option<String>,
    },
}

const COLUMNS: &[Column] = &[
    ("KEY", |row| plain(&row["key_id"])),
    ("TENANT", |row| plain(&row["tenant_id"])),
    ("STATUS", |row| plain(&row["status"])),
    ("EXPIRES", |row| plain(&row["expires_at"])),
    ("BEGINS WITH", |row| plain(&row["key_prefix"])),
    ("NAME", |row| plain(&row["name"])),
];

impl Verb {
    pub async fn run(
        self,
        client: &Client,
        output: &mut Output<impl Write>,
    ) -> Result<(), OperatorError> {
        match self {
            Self::Create {
                tenant,
                name,
                permissions,
                scope_filter,
                expires,
            } => {
                let permissions = match permissions.is_empty() {
                    true => AGENT.iter().map(ToString::to_string).collect(),
                    false => permissions,
                };
                let mut body =
                    json!({"tenant_id": tenant, "name": name, "permissions": permissions});
                if !scope_filter.is_empty() {
                    body["scope_filter"] = json!(scope_filter);
                }
                if let Some(expires) = expires {
                    body["expires_at"] = json!(expires.to_string());
                }
                // Without an idempotency key: the service keeps no secret for the sake of a repetition it may not seal.
                let call = Call::new(Method::POST, &["admin", "api-keys"])
                    .body(body)
                    .never_twice(format!(
                        "`admin key list --tenant {tenant}` shows such a key, whose secret is lost: revoke it"
                    ));
                output.object(&client.send(call).await?)
            }
            Self::List {
                tenant,
                status,
                search,
                limit,
            } => {
                let page = || {
                    Call::get(&["admin", "api-keys"])
                        .with("tenant_id", tenant.as_ref())
                        .with("status", status.as_ref())
                        .with("search", search.as_ref())
                };
                let rows = client.rows(page, "keys", limit).await?;
                output.table(
                    COLUMNS,
                    &rows,
                    "no API keys; `admin key create TENANT --name NAME` makes one",
                )
            }
            Self::Revoke { key_id, reason } => {
                let call = Call::new(Method::DELETE, &["admin", "api-keys", &key_id])
                    .with("reason", reason);
                output.object(&client.send(call).await?)
            }
        }
    }
}

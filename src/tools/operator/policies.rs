//! `admin policy`.

use std::io::Write;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::client::Call;
use super::console::{Console, Listing};
use super::error::OperatorError;
use super::output::plain;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make a policy
    Create(Box<Create>),
    /// Show a tenant's policies
    List(List),
    /// Take a policy out
    Disable { policy_id: String },
    /// Put a policy back
    Enable { policy_id: String },
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Create {
    /// Whose requests it is for
    #[serde(rename = "tenant_id")]
    tenant: String,
    #[arg(long)]
    name: String,
    /// tenant:acme, tenant:acme/* or tenant:acme/agent:*
    #[arg(long, value_name = "PATTERN")]
    scope_pattern: String,
    /// The highest wins
    #[arg(long, value_name = "N")]
    priority: Option<i64>,
    /// REJECT, ALLOW_IF_AVAILABLE or ALLOW_WITH_OVERDRAFT
    #[arg(long, value_name = "POLICY")]
    #[serde(rename = "commit_overage_policy")]
    overage_policy: Option<String>,
    #[command(flatten)]
    #[serde(rename = "reservation_ttl_override")]
    ttl: Ttl,
    #[command(flatten)]
    rate_limits: RateLimits,
    /// What comes with each decision: {"max_tokens":4000}
    #[arg(long, value_name = "JSON", value_parser = object)]
    caps: Option<Value>,
}

#[derive(Debug, Args, Serialize)]
struct Ttl {
    /// Life of a hold that names none
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "MS")]
    default_ttl_ms: Option<i64>,
    /// Longest life of a hold
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "MS")]
    max_ttl_ms: Option<i64>,
    /// How often a hold may be extended
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "N")]
    max_extensions: Option<i64>,
}

#[derive(Debug, Args, Serialize)]
struct RateLimits {
    /// Reservations per scope and minute
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "N")]
    max_reservations_per_minute: Option<i64>,
    /// Commits per scope and minute, beyond which no reservation is made
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "N")]
    max_commits_per_minute: Option<i64>,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct List {
    #[serde(rename = "tenant_id")]
    tenant: String,
    /// ACTIVE or DISABLED
    #[arg(long)]
    status: Option<String>,
    /// Rows at most
    #[arg(long, value_name = "N")]
    #[serde(skip)]
    limit: Option<usize>,
}

fn object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("not a JSON object".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

const POLICIES: Listing = Listing {
    path: &["admin", "policies"],
    member: "policies",
    columns: &[
        ("POLICY", "policy_id", plain),
        ("STATUS", "status", plain),
        ("PRIORITY", "priority", plain),
        ("PATTERN", "scope_pattern", plain),
        ("NAME", "name", plain),
    ],
    nothing: "no policies",
};

impl Command {
    pub async fn run(self, console: &mut Console<impl Write>) -> Result<(), OperatorError> {
        match self {
            Self::Create(create) => console.show(Call::post(POLICIES.path).body(&create)).await,
            Self::List(list) => console.list(&POLICIES, &list, list.limit).await,
            Self::Disable { policy_id } => console.show(set_status(&policy_id, "DISABLED")).await,
            Self::Enable { policy_id } => console.show(set_status(&policy_id, "ACTIVE")).await,
        }
    }
}

fn set_status(policy_id: &str, status: &str) -> Call {
    let call = Call::new(Method::PATCH, &["admin", "policies", policy_id]);
    call.body(&json!({"status": status}))
}

//! `admin policy`.

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::console::{Action, List};
use super::time::future;
use crate::api::operations::OperationId;
use crate::tools::call::Call;
use crate::tools::client_error::CallError;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create a policy
    Create(Box<Create>),
    /// List a tenant's policies
    List(Filters),
    /// Change a policy
    Update(Box<Update>),
    /// Stop applying a policy
    Disable { policy_id: String },
    /// Apply a disabled policy again
    Enable { policy_id: String },
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Create {
    /// Tenant whose requests it applies to
    #[arg(long)]
    #[serde(rename = "tenant_id")]
    tenant: String,
    #[arg(long)]
    name: String,
    /// tenant:acme, tenant:acme/* or tenant:acme/agent:*
    #[arg(long, value_name = "PATTERN")]
    scope_pattern: String,
    #[command(flatten)]
    #[serde(flatten)]
    settings: Settings,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Update {
    #[serde(skip)]
    policy_id: String,
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    settings: Settings,
    /// Removes these settings; repeated or comma-separated
    #[arg(long, value_name = "SETTING", value_delimiter = ',', value_parser = CLEARABLE)]
    #[serde(skip)]
    clear: Vec<String>,
}

/// What `--clear` removes.
const CLEARABLE: [&str; 8] = [
    "description",
    "priority",
    "caps",
    "commit_overage_policy",
    "reservation_ttl_override",
    "rate_limits",
    "effective_from",
    "effective_until",
];

/// What creating and changing a policy have in common.
#[derive(Debug, Args, Serialize)]
struct Settings {
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
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
    /// Caps of each decision: {"max_tokens":4000}
    #[arg(long, value_name = "JSON", value_parser = object)]
    caps: Option<Map<String, Value>>,
    /// Since when it applies: a time, or 7d from now
    #[arg(long, value_name = "TIME", value_parser = future)]
    effective_from: Option<String>,
    /// Until when it applies
    #[arg(long, value_name = "TIME", value_parser = future)]
    effective_until: Option<String>,
}

#[derive(Debug, Args, Serialize)]
struct Ttl {
    /// Lifetime of a reservation that sets none
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "MS")]
    default_ttl_ms: Option<i64>,
    /// Longest lifetime of a reservation
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "MS")]
    max_ttl_ms: Option<i64>,
    /// How often a reservation may be extended
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
    /// Commits per scope and minute; beyond them reservations are refused
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "N")]
    max_commits_per_minute: Option<i64>,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Filters {
    /// Whose policies
    #[arg(long)]
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

fn object(text: &str) -> serde_json::Result<Map<String, Value>> {
    serde_json::from_str(text)
}

const POLICIES: List = List {
    operation: OperationId::ListPolicies,
    member: "policies",
    columns: "POLICY=policy_id, NAME=name, STATUS=status, PRIORITY=priority:number, PATTERN=scope_pattern",
    nothing: "no policies; `admin policy create --tenant ID --name NAME --scope-pattern PATTERN` creates one",
};

impl Command {
    pub fn action(self) -> Result<Action, CallError> {
        Ok(Action::Show(match self {
            Self::Create(create) => Call::of(OperationId::CreatePolicy).body(&create),
            Self::List(filters) => {
                return Ok(Action::list(&POLICIES, &filters, filters.limit));
            }
            Self::Update(update) => {
                let call = Call::to(OperationId::UpdatePolicy, &update.policy_id).body(&update);
                call.cleared(&update.clear).that_changes("policy update")?
            }
            Self::Disable { policy_id } => set_status(policy_id, "DISABLED"),
            Self::Enable { policy_id } => set_status(policy_id, "ACTIVE"),
        }))
    }
}

fn set_status(policy_id: String, status: &str) -> Call {
    Call::to(OperationId::UpdatePolicy, policy_id).body(&json!({"status": status}))
}

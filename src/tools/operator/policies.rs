//! `admin policy`.

use std::io::Write;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::client::{Call, Client};
use super::error::OperatorError;
use super::output::{Column, Output, plain};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Make a policy
    Create(Box<Create>),
    /// Show a tenant's policies
    List {
        tenant: String,
        /// ACTIVE or DISABLED
        #[arg(long)]
        status: Option<String>,
        /// Rows at most
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Take a policy out
    Disable { policy_id: String },
    /// Put a policy back
    Enable { policy_id: String },
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// Whose requests it is for
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
    overage_policy: Option<String>,
    /// Life of a hold that names none
    #[arg(long, value_name = "MS")]
    default_ttl_ms: Option<i64>,
    /// Longest life of a hold
    #[arg(long, value_name = "MS")]
    max_ttl_ms: Option<i64>,
    /// How often a hold may be extended
    #[arg(long, value_name = "N")]
    max_extensions: Option<i64>,
    /// Reservations per scope and minute
    #[arg(long, value_name = "N")]
    max_reservations_per_minute: Option<i64>,
    /// Commits per scope and minute, beyond which no reservation is made
    #[arg(long, value_name = "N")]
    max_commits_per_minute: Option<i64>,
    /// What comes with each decision: {"max_tokens":4000}
    #[arg(long, value_name = "JSON", value_parser = object)]
    caps: Option<Value>,
}

fn object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("not a JSON object".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// An object of what is given; none where nothing is.
fn group(members: &[(&str, Option<i64>)]) -> Option<Value> {
    let given = members
        .iter()
        .filter_map(|(name, value)| Some(((*name).to_owned(), json!((*value)?))));
    let given: Map<_, _> = given.collect();
    (!given.is_empty()).then_some(Value::Object(given))
}

impl Create {
    fn body(self) -> Value {
        let ttl = group(&[
            ("default_ttl_ms", self.default_ttl_ms),
            ("max_ttl_ms", self.max_ttl_ms),
            ("max_extensions", self.max_extensions),
        ]);
        let rates = group(&[
            (
                "max_reservations_per_minute",
                self.max_reservations_per_minute,
            ),
            ("max_commits_per_minute", self.max_commits_per_minute),
        ]);
        let members = [
            ("tenant_id", Some(json!(self.tenant))),
            ("name", Some(json!(self.name))),
            ("scope_pattern", Some(json!(self.scope_pattern))),
            ("priority", self.priority.map(Value::from)),
            (
                "commit_overage_policy",
                self.overage_policy.map(Value::from),
            ),
            ("reservation_ttl_override", ttl),
            ("rate_limits", rates),
            ("caps", self.caps),
        ];
        let given = members
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(given.collect())
    }
}

const COLUMNS: &[Column] = &[
    ("POLICY", |row| plain(&row["policy_id"])),
    ("STATUS", |row| plain(&row["status"])),
    ("PRIORITY", |row| plain(&row["priority"])),
    ("PATTERN", |row| plain(&row["scope_pattern"])),
    ("NAME", |row| plain(&row["name"])),
];

impl Verb {
    pub async fn run(
        self,
        client: &Client,
        output: &mut Output<impl Write>,
    ) -> Result<(), OperatorError> {
        match self {
            Self::Create(create) => {
                let call = Call::new(Method::POST, &["admin", "policies"]).body(create.body());
                output.object(&client.send(call).await?)
            }
            Self::List {
                tenant,
                status,
                limit,
            } => {
                let page = || {
                    Call::get(&["admin", "policies"])
                        .with("tenant_id", Some(&tenant))
                        .with("status", status.as_ref())
                };
                let rows = client.rows(page, "policies", limit).await?;
                output.table(COLUMNS, &rows, &format!("no policies of {tenant}"))
            }
            Self::Disable { policy_id } => status(client, output, &policy_id, "DISABLED").await,
            Self::Enable { policy_id } => status(client, output, &policy_id, "ACTIVE").await,
        }
    }
}

async fn status(
    client: &Client,
    output: &mut Output<impl Write>,
    policy_id: &str,
    status: &str,
) -> Result<(), OperatorError> {
    let call = Call::new(Method::PATCH, &["admin", "policies", policy_id]);
    let call = call.body(json!({"status": status}));
    output.object(&client.send(call).await?)
}

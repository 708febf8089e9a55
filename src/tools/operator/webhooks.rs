//! `admin webhook`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::bulk::{BulkCall, Confirmed};
use super::console::{Action, List};
use super::replay::Replay;
use super::time::past;
use super::webhook_rules::Rules;
use crate::api::operations::OperationId;
use crate::tools::call::{Call, given};
use crate::tools::client_error::{CallError, Retry};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Subscribe a receiver to events; only this shows its signing secret
    Create(Box<Create>),
    /// List subscriptions
    List(Filters),
    /// Show one subscription
    Show { subscription_id: String },
    /// Change a subscription
    Update(Box<Update>),
    /// Send no events until it is resumed, but for tests; what waits fails. A replay can send what happens meanwhile
    Pause { subscription_id: String },
    /// Send again, after a pause or after failures, the events from now on
    Resume { subscription_id: String },
    /// Delete a subscription
    Delete { subscription_id: String },
    /// Send a test event now, and show how the receiver responded
    Test { subscription_id: String },
    /// List deliveries with their outcome, the newest first
    Deliveries(Deliveries),
    /// Send past events once more, and wait until the first attempts have ended
    Replay(Replay),
    /// Pause, resume or delete all subscriptions that the filters select
    Bulk(Bulk),
    /// The addresses that receivers may have
    #[command(subcommand)]
    Rules(Rules),
}

/// What creating and changing a subscription have in common.
#[derive(Debug, Args, Serialize)]
struct Settings {
    /// Name of the subscription
    #[arg(long)]
    name: Option<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Event types to send, such as budget.exhausted; repeated or comma-separated
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    event_types: Vec<String>,
    /// Categories of events to send besides: budget, reservation or tenant; for the operator also api_key, policy, webhook,
    /// system. A new subscription needs a type too
    #[arg(long = "category", value_name = "CATEGORY", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    event_categories: Vec<String>,
    /// Only events of this scope, tenant:acme/app:chat; with /* at its end, of those below it
    #[arg(long = "scope", value_name = "SCOPE")]
    scope_filter: Option<String>,
    /// A header of each request, such as Authorization=…; repeated. Its value is never shown again
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    #[serde(skip)]
    headers: Vec<(String, String)>,
    /// Signs with the secret in this file; a new subscription without it gets a random one
    #[arg(long, value_name = "PATH")]
    #[serde(skip)]
    secret_file: Option<PathBuf>,
    /// Disable the subscription after so many deliveries in a row have failed for good; 10 by default
    #[arg(long, value_name = "N")]
    disable_after_failures: Option<i64>,
    /// Further attempts of a delivery; 5 by default
    #[arg(long, value_name = "N")]
    #[serde(skip)]
    max_retries: Option<i64>,
    /// Utilizations that budget.threshold_crossed is sent for, such as 0.5,0.9; comma-separated
    #[arg(long = "utilization", value_name = "SHARE", value_delimiter = ',')]
    #[serde(skip)]
    utilization: Vec<f64>,
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// URL of the receiver
    receiver: String,
    /// Whose events; without it those of all tenants, for the operator
    #[arg(long)]
    tenant: Option<String>,
    #[command(flatten)]
    settings: Settings,
    /// Makes the command safe to repeat
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Update {
    subscription_id: String,
    /// Where to send the events
    #[arg(long, value_name = "URL")]
    receiver: Option<String>,
    #[command(flatten)]
    settings: Settings,
    /// Removes these settings; repeated or comma-separated
    #[arg(long, value_name = "SETTING", value_delimiter = ',', value_parser = CLEARABLE)]
    clear: Vec<String>,
}

/// What `--clear` removes.
const CLEARABLE: [&str; 8] = [
    "name",
    "description",
    "event_categories",
    "scope_filter",
    "thresholds",
    "headers",
    "retry_policy",
    "disable_after_failures",
];

#[derive(Debug, Args)]
pub(super) struct Bulk {
    /// What to do
    #[arg(value_parser = ["pause", "resume", "delete"])]
    action: String,
    #[command(flatten)]
    filter: Which,
    #[command(flatten)]
    confirmed: Confirmed,
}

/// What selects webhooks.
#[derive(Debug, Args, Serialize)]
struct Which {
    /// Only of this tenant; __system__ for those of the operator
    #[arg(long)]
    #[serde(rename = "tenant_id")]
    tenant: Option<String>,
    /// ACTIVE, PAUSED or DISABLED
    #[arg(long)]
    status: Option<String>,
    /// Only those that name this event type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Text in the id or the URL
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Filters {
    #[command(flatten)]
    #[serde(flatten)]
    which: Which,
    /// Rows at most
    #[arg(long, value_name = "N")]
    #[serde(skip)]
    limit: Option<usize>,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Deliveries {
    #[serde(skip)]
    subscription_id: String,
    /// PENDING, RETRYING, SUCCESS or FAILED
    #[arg(long)]
    status: Option<String>,
    /// Only since then: a time, or 15m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = past)]
    #[serde(rename = "from")]
    since: Option<String>,
    /// Only until then
    #[arg(long, value_name = "TIME", value_parser = past)]
    #[serde(rename = "to")]
    until: Option<String>,
    /// Rows at most
    #[arg(long, value_name = "N", default_value = "50")]
    #[serde(skip)]
    limit: usize,
}

const SUBSCRIPTIONS: List = List {
    operation: OperationId::ListWebhookSubscriptions,
    member: "subscriptions",
    columns: "SUBSCRIPTION=subscription_id, TENANT=tenant_id, STATUS=status, FAILURES=consecutive_failures:number, URL=url, \
        TYPES=event_types, CATEGORIES=event_categories",
    nothing: "no webhooks; `admin webhook create URL --type TYPE` creates one",
};

const DELIVERIES: List = List {
    operation: OperationId::ListWebhookDeliveries,
    member: "deliveries",
    columns: "QUEUED=attempted_at, STATUS=status, ATTEMPTS=attempts:number, RESPONSE=response_status:number, MS=response_time_ms:number, TYPE=event_type, \
        EVENT=event_id, NEXT=next_retry_at, ERROR=error_message",
    nothing: "no deliveries",
};

impl Command {
    pub fn action(self) -> Result<Action, CallError> {
        use OperationId as Id;
        Ok(Action::Show(match self {
            Self::Create(create) => create.call()?,
            Self::List(filters) => {
                return Ok(Action::list(&SUBSCRIPTIONS, &filters, filters.limit));
            }
            Self::Show { subscription_id } => Call::to(Id::GetWebhookSubscription, subscription_id),
            Self::Update(update) => update.call()?,
            Self::Pause { subscription_id } => set_status(subscription_id, "PAUSED"),
            Self::Resume { subscription_id } => set_status(subscription_id, "ACTIVE"),
            Self::Delete { subscription_id } => {
                Call::to(Id::DeleteWebhookSubscription, subscription_id)
            }
            Self::Test { subscription_id } => {
                let call = Call::to(Id::TestWebhookSubscription, subscription_id);
                return Ok(Action::TestWebhook(call));
            }
            Self::Deliveries(wanted) => {
                let (filters, limit) = (given(&wanted), Some(wanted.limit));
                return Ok(Action::ListOf(
                    wanted.subscription_id,
                    &DELIVERIES,
                    filters,
                    limit,
                ));
            }
            Self::Bulk(Bulk {
                action,
                filter,
                confirmed,
            }) => {
                let operation = Id::BulkActionWebhooks;
                let bulk = BulkCall::new(operation, &action, &filter, Value::Null, confirmed)?;
                return Ok(Action::Bulk(bulk));
            }
            Self::Replay(replay) => return Ok(Action::Replay(replay)),
            Self::Rules(rules) => rules.call(),
        }))
    }
}

fn set_status(id: String, status: &str) -> Call {
    Call::to(OperationId::UpdateWebhookSubscription, id).body(&json!({"status": status}))
}

impl Create {
    fn call(self) -> Result<Call, CallError> {
        let mut body = self.settings.body()?;
        body.insert("url".to_owned(), self.receiver.into());
        let call = Call::of(OperationId::CreateWebhookSubscription)
            .with("tenant_id", self.tenant)
            .body(&body);
        Ok(match self.idempotency_key {
            Some(key) => call.once(Some(key)),
            None => call.retry(Retry::Never(
                "`admin webhook list` shows such a subscription, whose secret is lost: delete it"
                    .to_owned(),
            )),
        })
    }
}

impl Update {
    fn call(self) -> Result<Call, CallError> {
        let mut body = self.settings.body()?;
        body.extend(self.receiver.map(|url| ("url".to_owned(), url.into())));
        let call = Call::to(OperationId::UpdateWebhookSubscription, self.subscription_id);
        let call = call.body(&body).cleared(&self.clear);
        call.that_changes("webhook update")
    }
}

impl Settings {
    fn body(&self) -> Result<Map<String, Value>, CallError> {
        let mut body = given(self);
        let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
        if !self.headers.is_empty() {
            let headers: BTreeMap<_, _> = self.headers.iter().cloned().collect();
            set("headers", json!(headers));
        }
        if let Some(path) = &self.secret_file {
            let secret = std::fs::read_to_string(path).map_err(|error| {
                CallError::Usage(format!("--secret-file {}: {error}", path.display()))
            })?;
            if secret.trim_end().is_empty() {
                let text = format!("--secret-file {} is empty", path.display());
                return Err(CallError::Usage(text));
            }
            set("signing_secret", secret.trim_end().into());
        }
        if let Some(retries) = self.max_retries {
            set("retry_policy", json!({"max_retries": retries}));
        }
        if !self.utilization.is_empty() {
            set(
                "thresholds",
                json!({"budget_utilization": self.utilization}),
            );
        }
        Ok(body)
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a header is NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

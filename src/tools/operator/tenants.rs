//! `admin tenant`.

use std::io::Write;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::client::{Call, Client};
use super::error::OperatorError;
use super::output::{Column, Output, plain};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Make a tenant; one that exists under the same name is shown as it is
    Create {
        /// Its id, 3 to 64 of a-z, 0-9 and -
        tenant: String,
        /// Its name; the id by default
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Show tenants
    List {
        /// ACTIVE, SUSPENDED or CLOSED
        #[arg(long)]
        status: Option<String>,
        /// Text in the id or the name
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
        /// Rows at most
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Show one tenant
    Show { tenant: String },
    /// Change name and settings
    Update {
        tenant: String,
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Refuse new reservations; what runs may end
    Suspend { tenant: String },
    /// Lift a suspension
    Reactivate { tenant: String },
    /// Close a tenant for good: its holds are released, its budgets close, its keys and webhooks end
    Close {
        tenant: String,
        /// It cannot be undone
        #[arg(long)]
        yes: bool,
    },
}

/// What reservations of the tenant are made under.
#[derive(Debug, Args)]
pub(super) struct Settings {
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
}

impl Settings {
    fn body(self, mut body: Map<String, Value>) -> Value {
        let members = [
            (
                "default_commit_overage_policy",
                self.overage_policy.map(Value::from),
            ),
            (
                "default_reservation_ttl_ms",
                self.default_ttl_ms.map(Value::from),
            ),
            ("max_reservation_ttl_ms", self.max_ttl_ms.map(Value::from)),
            (
                "max_reservation_extensions",
                self.max_extensions.map(Value::from),
            ),
        ];
        let given = members
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        body.extend(given);
        Value::Object(body)
    }
}

const COLUMNS: &[Column] = &[
    ("TENANT", |row| plain(&row["tenant_id"])),
    ("STATUS", |row| plain(&row["status"])),
    ("CREATED", |row| plain(&row["created_at"])),
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
                settings,
            } => {
                let mut body = Map::new();
                body.insert("name".to_owned(), json!(name.as_ref().unwrap_or(&tenant)));
                body.insert("tenant_id".to_owned(), json!(tenant));
                let call = Call::new(Method::POST, &["admin", "tenants"]).body(settings.body(body));
                output.object(&client.send(call).await?)
            }
            Self::List {
                status,
                search,
                limit,
            } => {
                let page = || {
                    Call::get(&["admin", "tenants"])
                        .with("status", status.as_ref())
                        .with("search", search.as_ref())
                };
                let rows = client.rows(page, "tenants", limit).await?;
                output.table(
                    COLUMNS,
                    &rows,
                    "no tenants; `admin tenant create ID` makes one",
                )
            }
            Self::Show { tenant } => {
                let tenant = client
                    .send(Call::get(&["admin", "tenants", &tenant]))
                    .await?;
                output.object(&tenant)
            }
            Self::Update {
                tenant,
                name,
                settings,
            } => {
                let mut body = Map::new();
                body.extend(name.map(|name| ("name".to_owned(), json!(name))));
                output.object(&patch(client, &tenant, settings.body(body)).await?)
            }
            Self::Suspend { tenant } => status(client, output, &tenant, "SUSPENDED").await,
            Self::Reactivate { tenant } => status(client, output, &tenant, "ACTIVE").await,
            Self::Close { tenant, yes: false } => Err(OperatorError::Usage(format!(
                "closing {tenant} releases its holds, closes its budgets and revokes its keys, for good; say --yes to do it"
            ))),
            Self::Close { tenant, yes: true } => status(client, output, &tenant, "CLOSED").await,
        }
    }
}

async fn status(
    client: &Client,
    output: &mut Output<impl Write>,
    tenant: &str,
    status: &str,
) -> Result<(), OperatorError> {
    output.object(&patch(client, tenant, json!({"status": status})).await?)
}

async fn patch(client: &Client, tenant: &str, body: Value) -> Result<Value, OperatorError> {
    let call = Call::new(Method::PATCH, &["admin", "tenants", tenant]).body(body);
    client.send(call).await
}

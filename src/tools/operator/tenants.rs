//! `admin tenant`.

use std::io::Write;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Serialize;
use serde_json::json;

use super::client::Call;
use super::console::{Console, Listing};
use super::error::OperatorError;
use super::output::plain;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make a tenant; one that exists under the same name is shown as it is
    Create(Create),
    /// Show tenants
    List(List),
    /// Show one tenant
    Show { tenant: String },
    /// Change name and settings
    Update(Update),
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

#[derive(Debug, Args, Serialize)]
pub(super) struct Create {
    /// Its id, 3 to 64 of a-z, 0-9 and -
    #[serde(rename = "tenant_id")]
    tenant: String,
    /// Its name; the id by default
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    settings: Settings,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Update {
    #[serde(skip)]
    tenant: String,
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    settings: Settings,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct List {
    /// ACTIVE, SUSPENDED or CLOSED
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

/// Settings of the tenant's reservations.
#[derive(Debug, Args, Serialize)]
pub(super) struct Settings {
    /// REJECT, ALLOW_IF_AVAILABLE or ALLOW_WITH_OVERDRAFT
    #[arg(long, value_name = "POLICY")]
    #[serde(rename = "default_commit_overage_policy")]
    overage_policy: Option<String>,
    /// Life of a hold that names none
    #[arg(long, value_name = "MS")]
    #[serde(rename = "default_reservation_ttl_ms")]
    default_ttl_ms: Option<i64>,
    /// Longest life of a hold
    #[arg(long, value_name = "MS")]
    #[serde(rename = "max_reservation_ttl_ms")]
    max_ttl_ms: Option<i64>,
    /// How often a hold may be extended
    #[arg(long, value_name = "N")]
    #[serde(rename = "max_reservation_extensions")]
    max_extensions: Option<i64>,
}

const TENANTS: Listing = Listing {
    path: &["admin", "tenants"],
    member: "tenants",
    columns: &[
        ("TENANT", "tenant_id", plain),
        ("STATUS", "status", plain),
        ("CREATED", "created_at", plain),
        ("NAME", "name", plain),
    ],
    nothing: "no tenants; `admin tenant create ID` makes one",
};

impl Command {
    pub async fn run(self, console: &mut Console<impl Write>) -> Result<(), OperatorError> {
        match self {
            Self::Create(mut create) => {
                create.name.get_or_insert_with(|| create.tenant.clone());
                console.show(Call::post(TENANTS.path).body(&create)).await
            }
            Self::List(list) => console.list(&TENANTS, &list, list.limit).await,
            Self::Show { tenant } => {
                console
                    .show(Call::get(&["admin", "tenants", &tenant]))
                    .await
            }
            Self::Update(update) => console.show(patch(&update.tenant, &update)).await,
            Self::Suspend { tenant } => console.show(set_status(&tenant, "SUSPENDED")).await,
            Self::Reactivate { tenant } => console.show(set_status(&tenant, "ACTIVE")).await,
            Self::Close { tenant, yes: false } => Err(OperatorError::Usage(format!(
                "closing {tenant} releases its holds, closes its budgets and revokes its keys, for good; confirm with --yes"
            ))),
            Self::Close { tenant, yes: true } => console.show(set_status(&tenant, "CLOSED")).await,
        }
    }
}

fn patch(tenant: &str, body: &impl Serialize) -> Call {
    Call::new(Method::PATCH, &["admin", "tenants", tenant]).body(body)
}

fn set_status(tenant: &str, status: &str) -> Call {
    patch(tenant, &json!({"status": status}))
}

//! `admin tenant`.

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};

use super::bulk::{BulkCall, Confirmed};
use super::console::{Action, List};
use crate::api::operations::OperationId;
use crate::tools::call::Call;
use crate::tools::client_error::CallError;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create a tenant; shows a tenant that exists under the same name
    Create(Create),
    /// List tenants
    List(Filters),
    /// Show one tenant
    Show { tenant: String },
    /// Change name and settings
    Update {
        tenant: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Refuse new reservations; existing ones may end
    Suspend { tenant: String },
    /// Lift a suspension
    Reactivate { tenant: String },
    /// Close a tenant for good: release its holds, close its budgets, end its keys and webhooks
    Close {
        tenant: String,
        /// Confirm, because it cannot be undone
        #[arg(long)]
        yes: bool,
    },
    /// Suspend, reactivate or close all tenants that the filters select
    Bulk(Bulk),
}

#[derive(Debug, Args)]
pub(super) struct Bulk {
    /// What to do
    #[arg(value_parser = ["suspend", "reactivate", "close"])]
    action: String,
    #[command(flatten)]
    filter: BulkFilter,
    #[command(flatten)]
    confirmed: Confirmed,
}

#[derive(Debug, Args, Serialize)]
struct BulkFilter {
    /// ACTIVE, SUSPENDED or CLOSED
    #[arg(long)]
    status: Option<String>,
    /// Only tenants of this parent
    #[arg(long, value_name = "ID")]
    #[serde(rename = "parent_tenant_id")]
    parent: Option<String>,
    /// Text in the id or the name
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Create {
    /// Its id, 3 to 64 of a-z, 0-9 and -
    #[serde(rename = "tenant_id")]
    tenant: String,
    #[command(flatten)]
    #[serde(flatten)]
    settings: Settings,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Filters {
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

/// Name of the tenant, and settings of its reservations.
#[derive(Debug, Args, Serialize)]
pub(super) struct Settings {
    /// Its name; a new tenant has its id by default
    #[arg(long)]
    name: Option<String>,
    /// REJECT, ALLOW_IF_AVAILABLE or ALLOW_WITH_OVERDRAFT
    #[arg(long, value_name = "POLICY")]
    #[serde(rename = "default_commit_overage_policy")]
    overage_policy: Option<String>,
    /// Lifetime of a reservation that sets none
    #[arg(long, value_name = "MS")]
    #[serde(rename = "default_reservation_ttl_ms")]
    default_ttl_ms: Option<i64>,
    /// Longest lifetime of a reservation
    #[arg(long, value_name = "MS")]
    #[serde(rename = "max_reservation_ttl_ms")]
    max_ttl_ms: Option<i64>,
    /// How often a reservation may be extended
    #[arg(long, value_name = "N")]
    #[serde(rename = "max_reservation_extensions")]
    max_extensions: Option<i64>,
}

const TENANTS: List = List {
    operation: OperationId::ListTenants,
    member: "tenants",
    columns: "TENANT=tenant_id, NAME=name, STATUS=status, CREATED=created_at",
    nothing: "no tenants; `admin tenant create ID` creates one",
};

impl Command {
    pub fn action(self) -> Result<Action, CallError> {
        Ok(Action::Show(match self {
            Self::Create(mut create) => {
                let name = &mut create.settings.name;
                name.get_or_insert_with(|| create.tenant.clone());
                Call::of(OperationId::CreateTenant).body(&create)
            }
            Self::List(filters) => return Ok(Action::list(&TENANTS, &filters, filters.limit)),
            Self::Show { tenant } => Call::to(OperationId::GetTenant, tenant),
            Self::Update { tenant, settings } => {
                Call::to(OperationId::UpdateTenant, tenant).body(&settings)
            }
            Self::Bulk(Bulk {
                action,
                filter,
                confirmed,
            }) => {
                let operation = OperationId::BulkActionTenants;
                let bulk = BulkCall::new(operation, &action, &filter, Value::Null, confirmed)?;
                return Ok(Action::Bulk(bulk));
            }
            Self::Suspend { tenant } => set_status(tenant, "SUSPENDED"),
            Self::Reactivate { tenant } => set_status(tenant, "ACTIVE"),
            Self::Close { tenant, yes: true } => set_status(tenant, "CLOSED"),
            Self::Close { tenant, yes: false } => {
                return Err(CallError::Usage(format!(
                    "closing {tenant} releases its holds, closes its budgets and revokes its keys, for good; confirm with --yes"
                )));
            }
        }))
    }
}

fn set_status(tenant: String, status: &str) -> Call {
    Call::to(OperationId::UpdateTenant, tenant).body(&json!({"status": status}))
}

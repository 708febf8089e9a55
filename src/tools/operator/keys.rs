//! `admin key`.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::console::Action;
use super::key_list::KeyQuery;
use super::time::future;
use crate::api::operations::OperationId;
use crate::tools::call::{Call, given};
use crate::tools::client_error::CallError;

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
    /// Create an API key; its secret is shown only once
    Create(Create),
    /// List API keys, without secrets
    List(Filters),
    /// Change name, description, permissions and scopes of a key
    Update(Update),
    /// Revoke a key at once, for good
    Revoke {
        key_id: String,
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Create {
    /// Its tenant
    #[arg(long)]
    #[serde(rename = "tenant_id")]
    tenant: String,
    /// What it is for
    #[arg(long)]
    name: String,
    /// What it may do, repeated or comma-separated; by default what an agent needs: reservations and balances
    #[arg(long = "permission", value_name = "PERMISSION", value_delimiter = ',')]
    permissions: Vec<String>,
    /// Allows only this scope and those below it: tenant:acme/app:chat/agent:writer. A single segment, agent:writer or
    /// agent:*, allows it anywhere, which keeps no agent under its budget
    #[arg(
        long = "scope",
        alias = "scope-filter",
        value_name = "SCOPE",
        value_delimiter = ','
    )]
    scope_filter: Vec<String>,
    /// When it ends: a time, or 30d; 90 days by default
    #[arg(long, value_name = "TIME", value_parser = future)]
    #[serde(rename = "expires_at")]
    expires: Option<String>,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Update {
    #[serde(skip)]
    key_id: String,
    /// What it is for
    #[arg(long)]
    name: Option<String>,
    /// More about it
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// What it may do from now on, all of it; repeated or comma-separated
    #[arg(long = "permission", value_name = "PERMISSION", value_delimiter = ',')]
    permissions: Vec<String>,
    /// Allows only these scopes from now on, and those below them; `none` allows all of its tenant
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',')]
    #[serde(skip)]
    scopes: Vec<String>,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Filters {
    /// Only keys of this tenant
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

impl Command {
    pub fn action(self) -> Result<Action, CallError> {
        Ok(match self {
            Self::Create(create) => Action::MakeKey(create.scope_filter.clone(), create.call()),
            Self::List(filters) => {
                let query = KeyQuery {
                    filters: given(&filters),
                    tenant: filters.tenant,
                    limit: filters.limit,
                };
                Action::Keys(query)
            }
            Self::Update(update) => Action::Show(update.call()?),
            Self::Revoke { key_id, reason } => {
                let call = Call::to(OperationId::RevokeApiKey, key_id);
                Action::Show(call.with("reason", reason))
            }
        })
    }
}

impl Update {
    fn call(self) -> Result<Call, CallError> {
        let mut body = given(&self);
        if !self.scopes.is_empty() {
            let scopes = self.scopes.into_iter().filter(|scope| scope != "none");
            body.insert("scope_filter".to_owned(), scopes.collect());
        }
        let mut call = Call::to(OperationId::UpdateApiKey, self.key_id);
        // As it is: an empty list is not an absent one.
        call.body = Some(body.into());
        call.that_changes("key update")
    }
}

impl Create {
    fn call(mut self) -> Call {
        if self.permissions.is_empty() {
            self.permissions = AGENT.iter().map(ToString::to_string).collect();
        }
        Call::create_key(&self.tenant, &self)
    }
}

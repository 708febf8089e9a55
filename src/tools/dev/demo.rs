//! The demo tenant: a tree of budgets, in tokens and in money, and a key, made through the admin API.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::header::HeaderName;
use secrecy::SecretString;
use serde_json::{Value, json};

use super::DevError;
use super::folder::Folder;
use crate::api::dialect::headers::ADMIN_KEY;
use crate::api::operations::OperationId;
use crate::domain::dialect::Dialect;
use crate::tools::call::{Call, CallError};
use crate::tools::client::{Client, base_url};
use crate::tools::setup::{create_budget, create_key, create_tenant};

/// How long the API may take to become ready.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The demo tenant's id.
pub(super) const TENANT: &str = "demo";
/// The scope of the demo tenant's agent.
pub(super) const HELPER: &str = "tenant:demo/app:chat/agent:helper";

/// Other agents of the same application get a budget each when they come.
const AGENTS: &str = "tenant:demo/app:chat/agent:*";

/// Its tokens are those of a month, and some of an hour.
const CHAT: &str = "tenant:demo/app:chat";

/// Scope of each budget, tokens, and money: the unit of the published clients, ten US dollars for all.
const BUDGETS: [(&str, i64, i64); 3] = [
    ("tenant:demo", 1_000_000, 1_000_000_000),
    (CHAT, 250_000, 250_000_000),
    (HELPER, 50_000, 50_000_000),
];

const MONEY: &str = "USD_MICROCENTS";

/// The file of the demo tenant's key.
const KEY_FILE: &str = "demo-key";

/// Makes the missing parts of the demo tenant and returns its key: the one that an earlier start kept in the folder, if it
/// still works, else a new one.
pub(super) async fn prepare(
    address: SocketAddr,
    dialect: Dialect,
    admin_key: &SecretString,
    folder: Option<&Folder>,
) -> Result<SecretString, DevError> {
    if let Some(key) = folder.and_then(|folder| folder.read(KEY_FILE)) {
        let runtime = client(address, &dialect.header_names().api_key, &key)?;
        let balances = Call::of(OperationId::GetBalances).with("tenant", Some(TENANT));
        match runtime.read(&balances).await {
            // The data of an earlier release may have tokens alone.
            Ok(balances) if balances.to_string().contains(MONEY) => return Ok(key),
            Ok(_) => {
                create_budgets(&client(address, &ADMIN_KEY, admin_key)?).await?;
                return Ok(key);
            }
            Err(CallError::Refused(refusal)) if [401, 403].contains(&refusal.status) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let admin = client(address, &ADMIN_KEY, admin_key)?;
    create_tenant(&admin, TENANT, "Demo").await?;
    create_budgets(&admin).await?;
    let key = create_key(&admin, TENANT, "demo key").await?;
    if let Some(folder) = folder {
        folder.write(KEY_FILE, &key)?;
    }
    Ok(key)
}

/// Creates the budgets that are not there, and the policy that makes those of unknown agents.
async fn create_budgets(admin: &Client) -> Result<(), CallError> {
    let template = json!({
        "unit": "TOKENS", "allocated": {"unit": "TOKENS", "amount": 20_000}, "period": {"every": "P1D"},
    });
    let policy = json!({
        "tenant_id": TENANT, "name": "agents of chat", "scope_pattern": AGENTS, "budget_templates": [template],
    });
    let policy = Call::of(OperationId::CreatePolicy).body(&policy);
    match admin.send(&policy).await {
        Err(CallError::Refused(refusal)) if refusal.status == 409 => {}
        made => drop(made?),
    }
    for (scope, tokens, money) in BUDGETS {
        for (unit, amount) in [("TOKENS", tokens), (MONEY, money)] {
            let more = match (scope, unit) {
                (CHAT, "TOKENS") => json!({
                    "period": {"every": "P1M"},
                    "limits": [{"every": "PT1H", "amount": {"unit": unit, "amount": 100_000}}],
                }),
                _ => Value::Null,
            };
            match create_budget(admin, TENANT, scope, unit, amount, more).await {
                Err(CallError::Refused(refusal)) if refusal.status == 409 => {}
                made => made?,
            }
        }
    }
    Ok(())
}

/// Waits until the API is ready, at most [`START_LIMIT`].
pub(super) async fn wait_until_ready(
    address: SocketAddr,
    admin_key: &SecretString,
) -> Result<(), DevError> {
    let admin = client(address, &ADMIN_KEY, admin_key)?;
    match admin.is_ready_within(START_LIMIT).await? {
        true => Ok(()),
        false => Err(DevError::NotReady(START_LIMIT)),
    }
}

/// A client of the API on this machine.
fn client(
    address: SocketAddr,
    key_header: &HeaderName,
    key: &SecretString,
) -> Result<Client, CallError> {
    let url = base_url(&format!("http://{address}")).expect("an address makes a URL");
    Client::new(url, key_header, key)
}

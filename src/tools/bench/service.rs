//! The service under test: makes a tenant through the admin plane, and reads its ledgers afterwards.

use secrecy::SecretString;
use serde_json::{Value, json};
use url::Url;

use super::BenchError;
use super::ledger::{ALLOCATED, Change, Difference, expected, figures};
use crate::api::dialect::headers::ADMIN_KEY;
use crate::api::operations::OperationId;
use crate::domain::dialect::Dialect;
use crate::tools::call::Call;
use crate::tools::client::Client;
use crate::tools::client_error::CallError;
use crate::tools::setup::{UNIT, create_budget, create_key, create_tenant};

/// Name of the tenant and of its key.
const NAME: &str = "load generator";

/// The levels below the tenant, root first, with the names that the load gives them.
const LEVELS: [(&str, &str); 5] = [
    ("workspace", "prod"),
    ("app", "chat"),
    ("workflow", "answer"),
    ("agent", "helper"),
    ("toolset", "search"),
];

/// Where the service is, and its admin key.
#[derive(Debug, Clone)]
pub(super) struct Service {
    pub runtime: Url,
    pub admin: Url,
    pub admin_key: SecretString,
    pub dialect: Dialect,
}

/// A tenant of the benchmark, with one key and one budget per scope.
#[derive(Debug, Clone)]
pub(super) struct Tenant {
    pub id: String,
    pub key: SecretString,
    /// The subject of all requests.
    pub subject: Value,
    /// Full paths of its scopes, root first.
    pub scopes: Vec<String>,
}

impl Service {
    /// Makes a tenant with a random id, its key and its budgets. They stay after the run.
    pub async fn provision(&self, scopes: u8) -> Result<Tenant, BenchError> {
        let admin = self.admin()?;
        let id = format!("bench-{:012x}", rand::random::<u64>() >> 16);
        create_tenant(&admin, &id, NAME).await?;
        let (mut subject, mut path) = (json!({"tenant": id}), format!("tenant:{id}"));
        let mut paths = vec![path.clone()];
        for (level, name) in LEVELS.iter().take(usize::from(scopes) - 1) {
            subject[level] = (*name).into();
            path += &format!("/{level}:{name}");
            paths.push(path.clone());
        }
        for scope in &paths {
            create_budget(&admin, &id, scope, UNIT, ALLOCATED).await?;
        }
        Ok(Tenant {
            key: create_key(&admin, &id, NAME).await?,
            subject,
            scopes: paths,
            id,
        })
    }

    /// A client of the admin plane.
    pub fn admin(&self) -> Result<Client, CallError> {
        Client::new(self.admin.clone(), &ADMIN_KEY, &self.admin_key)
    }

    /// Reads every ledger on both planes and compares it with what the responses say.
    pub async fn check(
        &self,
        tenant: &Tenant,
        change: Change,
    ) -> Result<Vec<Difference>, BenchError> {
        let key_header = &self.dialect.header_names().api_key;
        let runtime = Client::new(self.runtime.clone(), key_header, &tenant.key)?;
        let call = Call::of(OperationId::GetBalances).with("tenant", Some(&tenant.id));
        let page = runtime.read(&call.with("limit", Some(200))).await?;
        let balances = page["balances"].as_array().map_or(&[][..], Vec::as_slice);
        let (admin, expected) = (self.admin()?, expected(change));
        let mut differences = Vec::new();
        for scope in &tenant.scopes {
            let call = Call::of(OperationId::LookupBudget).with("scope", Some(scope));
            let budget = admin.read(&call.with("unit", Some(UNIT))).await?;
            let mut balances = balances.iter();
            let balance = balances.find(|balance| balance["scope_path"] == **scope);
            for (operation, ledger) in [
                (OperationId::GetBalances, balance),
                (OperationId::LookupBudget, Some(&budget)),
            ] {
                let found = ledger.map(figures);
                if found.as_ref() != Some(&expected) {
                    differences.push(Difference {
                        scope: scope.clone(),
                        source: operation.path(),
                        expected: expected.clone(),
                        found,
                    });
                }
            }
        }
        Ok(differences)
    }
}

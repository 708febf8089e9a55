//! The service under test: makes a tenant through the admin plane, and compares its ledgers with the responses, to the unit.

use secrecy::SecretString;
use serde_json::{Value, json};
use url::Url;

use super::BenchError;
use crate::api::operations::OperationId;
use crate::domain::dialect::Dialect;
use crate::domain::scope::Level;
use crate::tools::call::Call;
use crate::tools::client::Client;
use crate::tools::setup::{UNIT, create_budget, create_key, create_tenant};

/// Name of the tenant and of its key.
const NAME: &str = "load generator";

/// The allocation of each budget: ample, and exact in 15 digits.
const ALLOCATED: i64 = 900_000_000_000_000;

/// The addresses of a service.
pub(super) struct Service {
    pub runtime: Url,
    pub admin: Client,
    pub dialect: Dialect,
}

/// A tenant of the benchmark, with one key and one budget per scope.
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
        let admin = &self.admin;
        let id = format!("bench-{:012x}", rand::random::<u64>() >> 16);
        create_tenant(admin, &id, NAME).await?;
        let (mut subject, mut path) = (json!({"tenant": id}), format!("tenant:{id}"));
        let mut paths = vec![path.clone()];
        for level in &Level::WORDS[1..usize::from(scopes)] {
            subject[*level] = "bench".into();
            path += &format!("/{level}:bench");
            paths.push(path.clone());
        }
        for scope in &paths {
            create_budget(admin, &id, scope, UNIT, ALLOCATED, Value::Null).await?;
        }
        Ok(Tenant {
            key: create_key(admin, &id, NAME).await?,
            subject,
            scopes: paths,
            id,
        })
    }

    /// Reads every ledger on both planes, and returns those whose figures are not what the responses say.
    pub async fn check(&self, tenant: &Tenant, change: Change) -> Result<Vec<Value>, BenchError> {
        let key_header = &self.dialect.header_names().api_key;
        let runtime = Client::new(self.runtime.clone(), key_header, &tenant.key)?;
        let call = Call::of(OperationId::GetBalances).with("tenant", Some(&tenant.id));
        let page = runtime.read(&call).await?;
        let balances = || page["balances"].as_array().into_iter().flatten();
        let (expected, mut differences) = (change.expected(), Vec::new());
        for scope in &tenant.scopes {
            let call = Call::of(OperationId::LookupBudget).with("scope", Some(scope));
            let budget = self.admin.read(&call.with("unit", Some(UNIT))).await?;
            let balance = balances().find(|balance| balance["scope_path"] == **scope);
            for (operation, ledger) in [
                (OperationId::GetBalances, balance),
                (OperationId::LookupBudget, Some(&budget)),
            ] {
                let found = ledger.map(figures);
                if found.as_ref() != Some(&expected) {
                    differences.push(json!({
                        "scope": scope, "source": operation.path(), "expected": expected, "found": found,
                    }));
                }
            }
        }
        Ok(differences)
    }
}

/// The change of one or many operations. All name the same subject, so the change is the same for each ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub reserved: i64,
    pub spent: i64,
}

impl Change {
    pub fn add(&mut self, other: Self) {
        self.reserved += other.reserved;
        self.spent += other.spent;
    }

    /// The figures of a new ledger after the change. Budgets are ample and nothing is charged beyond its hold, so there is no
    /// debt.
    pub fn expected(self) -> Value {
        json!({
            "allocated": ALLOCATED,
            "remaining": ALLOCATED - self.reserved - self.spent,
            "reserved": self.reserved,
            "spent": self.spent,
            "debt": 0,
        })
    }
}

/// The figures of a ledger as either plane returns it; absent ones are 0.
fn figures(ledger: &Value) -> Value {
    let names = ["allocated", "remaining", "reserved", "spent", "debt"];
    let figure = |name: &'static str| (name, ledger[name]["amount"].as_i64().unwrap_or(0));
    names.into_iter().map(figure).collect()
}

/// The ledgers that disagree with the responses; nothing when all agree.
pub(super) fn disagreement(ledger: &str, differences: &[Value]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    let mut text = format!("{ledger}: does NOT agree with the responses\n");
    for difference in differences {
        let [scope, source, expected, found] =
            ["scope", "source", "expected", "found"].map(|name| &difference[name]);
        text += &format!("  {scope}, {source}: expected {expected}, found {found}\n");
    }
    text
}

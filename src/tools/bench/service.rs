//! The service under test: makes a tenant through the admin plane, and reads its ledgers afterwards.

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use secrecy::SecretString;
use url::Url;

use super::error::BenchError;
use super::ledger::{Difference, Totals, differences};
use super::requests::scope_paths;
use crate::api::dialect::headers::ADMIN_KEY;
use crate::api::operations::OperationId;
use crate::domain::dialect::Dialect;
use crate::tools::call::Call;
use crate::tools::client::{Client, header_value};
use crate::tools::client_error::CallError;
use crate::tools::setup::{UNIT, create_budget, create_key, create_tenant};

/// The allocation of each budget: ample, and exact in 15 digits.
pub(super) const ALLOCATED: i64 = 900_000_000_000_000;

/// Name of the tenant and of its key.
const NAME: &str = "load generator";

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
    /// Full paths, root first.
    pub scopes: Vec<String>,
}

impl Service {
    /// Makes a tenant with a random name, its key and its budgets. They stay after the run.
    pub async fn provision(&self, scopes: u8) -> Result<Tenant, BenchError> {
        let admin = self.admin()?;
        let id = make_tenant(&admin).await?;
        let scopes = scope_paths(&id, scopes);
        for scope in &scopes {
            create_budget(&admin, &id, scope, ALLOCATED).await?;
        }
        let key = create_key(&admin, &id, NAME).await?;
        Ok(Tenant { id, key, scopes })
    }

    /// A client of the admin plane.
    pub fn admin(&self) -> Result<Client, CallError> {
        Client::new(self.admin.clone(), &ADMIN_KEY, &self.admin_key)
    }

    /// A client of the runtime plane with the tenant's key.
    pub fn runtime(&self, tenant: &Tenant) -> Result<Client, CallError> {
        let key_header = &self.dialect.header_names().api_key;
        Client::new(self.runtime.clone(), key_header, &tenant.key)
    }

    /// The headers of the tenant's requests.
    pub fn headers(&self, tenant: &Tenant) -> Result<HeaderMap, CallError> {
        let json = HeaderValue::from_static("application/json");
        let key_header = self.dialect.header_names().api_key.clone();
        let headers = [
            (CONTENT_TYPE, json),
            (key_header, header_value(&tenant.key)?),
        ];
        Ok(headers.into_iter().collect())
    }

    /// Reads every ledger on both planes and compares it with the totals of the responses.
    pub async fn check(
        &self,
        tenant: &Tenant,
        totals: &Totals,
    ) -> Result<Vec<Difference>, BenchError> {
        let (expected, scopes) = (totals.expected(ALLOCATED), &tenant.scopes);
        let balances = Call::of(OperationId::GetBalances).with("tenant", Some(&tenant.id));
        let balances = balances.with("limit", Some(200));
        let page = self.runtime(tenant)?.read(&balances).await?;
        let balances = page["balances"].as_array().map_or(&[][..], Vec::as_slice);
        let mut found = differences(OperationId::GetBalances, scopes, expected, balances);

        let admin = self.admin()?;
        let mut ledgers = Vec::new();
        for scope in scopes {
            let lookup = Call::of(OperationId::LookupBudget).with("scope", Some(scope));
            let lookup = lookup.with("unit", Some(UNIT));
            ledgers.push(admin.read(&lookup).await?);
        }
        found.extend(differences(
            OperationId::LookupBudget,
            scopes,
            expected,
            &ledgers,
        ));
        Ok(found)
    }
}

/// Makes a tenant with a random id, and returns the id.
pub(super) async fn make_tenant(admin: &Client) -> Result<String, CallError> {
    let id = format!("bench-{:012x}", rand::random::<u64>() >> 16);
    create_tenant(admin, &id, NAME).await?;
    Ok(id)
}

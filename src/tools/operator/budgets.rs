//! `admin budget`.

use clap::{ArgGroup, Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};

use super::bulk::{BulkCall, Confirmed};
use super::console::{Action, List};
use crate::api::operations::OperationId;
use crate::tools::call::{Call, given};
use crate::tools::client_error::CallError;

/// One ledger.
#[derive(Debug, Args, Serialize)]
pub(super) struct Ledger {
    /// Its scope: tenant:acme/agent:writer
    scope: String,
    /// USD_MICROCENTS, TOKENS, CREDITS or RISK_POINTS
    #[arg(long, env = "BUDGET_UNIT", default_value = "USD_MICROCENTS")]
    unit: String,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create a budget
    Create(Create),
    /// Show one budget
    Show(Ledger),
    /// List budgets
    List(Filters),
    /// Show a tenant's budgets as a tree, each with its use
    Tree(TreeFilters),
    /// Change the figures of a budget
    Fund(Fund),
    /// Change overdraft and overage policy of a budget
    Update(Update),
    /// Fund all budgets of a tenant that the filters select
    Bulk(Box<Bulk>),
    /// Refuse new reservations and funding; existing reservations may end
    Freeze(Transition),
    /// Lift a freeze
    Unfreeze(Transition),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    #[command(flatten)]
    ledger: Ledger,
    /// Amount that may be spent
    #[arg(long, value_name = "AMOUNT")]
    allocated: i64,
    /// Debt that is allowed
    #[arg(long, value_name = "AMOUNT")]
    overdraft_limit: Option<i64>,
    /// REJECT, ALLOW_IF_AVAILABLE or ALLOW_WITH_OVERDRAFT
    #[arg(long, value_name = "POLICY")]
    overage_policy: Option<String>,
    /// Makes the command safe to repeat
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

/// What selects budgets, of one tenant or of all.
#[derive(Debug, Args, Serialize)]
struct Which {
    /// ACTIVE, FROZEN or CLOSED
    #[arg(long)]
    status: Option<String>,
    /// Beginning of the scope
    #[arg(long, value_name = "TEXT")]
    scope_prefix: Option<String>,
    /// Only budgets whose debt is above their overdraft limit
    #[arg(long)]
    over_limit: bool,
    /// Only budgets with debt
    #[arg(long)]
    has_debt: bool,
    /// Only budgets of which at least this share is spent, 0 to 1
    #[arg(long, value_name = "SHARE")]
    utilization_min: Option<f64>,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Filters {
    /// Only this tenant; without it all, where the service allows such a list
    #[arg(long)]
    #[serde(rename = "tenant_id")]
    tenant: Option<String>,
    #[arg(long)]
    unit: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    which: Which,
    /// Rows at most
    #[arg(long, value_name = "N")]
    #[serde(skip)]
    limit: Option<usize>,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct TreeFilters {
    /// Whose budgets
    #[arg(long)]
    #[serde(rename = "tenant_id")]
    tenant: String,
    /// Only this unit
    #[arg(long)]
    unit: Option<String>,
    #[arg(skip = "scope")]
    sort_by: &'static str,
    #[arg(skip = "asc")]
    sort_dir: &'static str,
}

#[derive(Debug, Args)]
pub(super) struct Transition {
    #[command(flatten)]
    ledger: Ledger,
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Update {
    #[command(flatten)]
    ledger: Ledger,
    /// Debt that is allowed
    #[arg(long, value_name = "AMOUNT")]
    overdraft_limit: Option<i64>,
    /// REJECT, ALLOW_IF_AVAILABLE or ALLOW_WITH_OVERDRAFT; `none` for that of policies and the tenant
    #[arg(long, value_name = "POLICY")]
    overage_policy: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Bulk {
    #[command(flatten)]
    filter: BulkFilter,
    #[command(flatten)]
    funding: Funding,
    #[command(flatten)]
    confirmed: Confirmed,
}

#[derive(Debug, Args, Serialize)]
struct BulkFilter {
    /// Whose budgets
    #[arg(long)]
    #[serde(rename = "tenant_id")]
    tenant: String,
    /// Only this unit, which is that of the amount
    #[arg(long, env = "BUDGET_UNIT", default_value = "USD_MICROCENTS")]
    unit: String,
    #[command(flatten)]
    #[serde(flatten)]
    which: Which,
    /// Only budgets of which at most this share is spent
    #[arg(long, value_name = "SHARE")]
    utilization_max: Option<f64>,
    /// Text in the scope
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Fund {
    #[command(flatten)]
    ledger: Ledger,
    #[command(flatten)]
    funding: Funding,
    /// Makes the command safe to repeat
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

/// What to do with the figures.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("operation").required(true))]
struct Funding {
    /// Add to the allocation
    #[arg(long, value_name = "AMOUNT", group = "operation")]
    credit: Option<i64>,
    /// Take from the part of the allocation that is not used
    #[arg(long, value_name = "AMOUNT", group = "operation")]
    debit: Option<i64>,
    /// Set the allocation
    #[arg(long, value_name = "AMOUNT", group = "operation")]
    reset: Option<i64>,
    /// Begin a new period with this allocation and nothing spent
    #[arg(long, value_name = "AMOUNT", group = "operation")]
    reset_spent: Option<i64>,
    /// Repay debt; the rest is added to the allocation
    #[arg(long, value_name = "AMOUNT", group = "operation")]
    repay_debt: Option<i64>,
    /// With --reset-spent: amount that the new period begins with as spent
    #[arg(long, value_name = "AMOUNT")]
    spent: Option<i64>,
    #[arg(long)]
    reason: Option<String>,
}

const BUDGETS: List = List {
    operation: OperationId::ListBudgets,
    member: "ledgers",
    columns: "SCOPE=scope, UNIT=unit, STATUS=status, ALLOCATED=allocated:amount, REMAINING=remaining:amount, \
        RESERVED=reserved:amount, SPENT=spent:amount, DEBT=debt:amount",
    nothing: "no budgets; `admin budget create SCOPE --allocated N` creates one",
};

impl Ledger {
    /// The tenant that the scope names.
    fn tenant(&self) -> Result<&str, CallError> {
        let first = self.scope.split('/').next().unwrap_or_default();
        let tenant = first.strip_prefix("tenant:").unwrap_or_default();
        match tenant {
            "" => Err(CallError::Usage(format!(
                "the scope `{}` must begin with tenant:ID",
                self.scope
            ))),
            tenant => Ok(tenant),
        }
    }

    fn call(&self, operation: OperationId) -> Call {
        Call::of(operation).query(self)
    }

    fn amount(&self, amount: i64) -> Value {
        amount_of(&self.unit, amount)
    }
}

fn amount_of(unit: &str, amount: i64) -> Value {
    json!({"unit": unit, "amount": amount})
}

impl Command {
    pub fn action(self) -> Result<Action, CallError> {
        Ok(Action::Show(match self {
            Self::Create(create) => create.call()?,
            Self::Show(ledger) => ledger.call(OperationId::LookupBudget),
            Self::List(filters) => return Ok(Action::list(&BUDGETS, &filters, filters.limit)),
            Self::Tree(filters) => return Ok(Action::Tree(&BUDGETS, given(&filters))),
            Self::Fund(fund) => fund.call()?,
            Self::Update(update) => update.call()?,
            Self::Bulk(bulk) => return Ok(Action::Bulk(bulk.call()?)),
            Self::Freeze(freeze) => freeze.call(OperationId::FreezeBudget),
            Self::Unfreeze(unfreeze) => unfreeze.call(OperationId::UnfreezeBudget),
        }))
    }
}

impl Create {
    fn call(self) -> Result<Call, CallError> {
        let ledger = &self.ledger;
        let limit = self.overdraft_limit.map(|limit| ledger.amount(limit));
        let body = json!({
            "tenant_id": ledger.tenant()?, "scope": ledger.scope, "unit": ledger.unit,
            "allocated": ledger.amount(self.allocated), "overdraft_limit": limit,
            "commit_overage_policy": self.overage_policy,
        });
        let call = Call::of(OperationId::CreateBudget).body(&body);
        Ok(call.once(self.idempotency_key))
    }
}

impl Transition {
    fn call(self, operation: OperationId) -> Call {
        let body = json!({"reason": self.reason});
        self.ledger.call(operation).body(&body)
    }
}

impl Update {
    fn call(self) -> Result<Call, CallError> {
        let limit = self.overdraft_limit.map(|limit| self.ledger.amount(limit));
        let is_cleared = self.overage_policy.as_deref() == Some("none");
        let policy = self.overage_policy.filter(|_| !is_cleared);
        let body = json!({"overdraft_limit": limit, "commit_overage_policy": policy});
        let call = self.ledger.call(OperationId::UpdateBudget).body(&body);
        let cleared = is_cleared.then(|| "commit_overage_policy".to_owned());
        call.cleared(cleared.as_slice())
            .that_changes("budget update")
    }
}

impl Bulk {
    fn call(self) -> Result<BulkCall, CallError> {
        let (action, body) = self.funding.body(&self.filter.unit)?;
        let operation = OperationId::BulkActionBudgets;
        BulkCall::new(operation, action, &self.filter, body, self.confirmed)
    }
}

impl Fund {
    fn call(self) -> Result<Call, CallError> {
        let ledger = &self.ledger;
        let (operation, mut body) = self.funding.body(&ledger.unit)?;
        body["operation"] = operation.into();
        let call = ledger.call(OperationId::FundBudget).body(&body);
        let call = call.with("tenant_id", Some(ledger.tenant()?));
        Ok(call.once(self.idempotency_key))
    }
}

impl Funding {
    /// The operation, and what goes with it.
    fn body(&self, unit: &str) -> Result<(&'static str, Value), CallError> {
        let operations = [
            ("CREDIT", self.credit),
            ("DEBIT", self.debit),
            ("RESET", self.reset),
            ("RESET_SPENT", self.reset_spent),
            ("REPAY_DEBT", self.repay_debt),
        ];
        let (operation, amount) = operations
            .into_iter()
            .find_map(|(operation, amount)| Some((operation, amount?)))
            .expect("clap requires one of the group");
        if self.spent.is_some() && self.reset_spent.is_none() {
            let text = "--spent requires --reset-spent".to_owned();
            return Err(CallError::Usage(text));
        }
        let spent = self.spent.map(|spent| amount_of(unit, spent));
        let body =
            json!({"amount": amount_of(unit, amount), "spent": spent, "reason": self.reason});
        Ok((operation, body))
    }
}

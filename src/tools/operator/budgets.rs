//! `admin budget`.

use std::io::Write;

use clap::{ArgGroup, Args, Subcommand};
use reqwest::Method;
use serde::Serialize;
use serde_json::json;

use super::client::Call;
use super::console::{Console, Listing};
use super::error::OperatorError;
use super::output::{number, plain};
use super::tree::Tree;

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
    /// Make a budget
    Create(Create),
    /// Show one budget
    Show(Ledger),
    /// Show budgets as a list
    List(List),
    /// Show a tenant's budgets as a tree, each with what is used of it
    Tree(TreeArgs),
    /// Change what a budget has
    Fund(Fund),
    /// Stop new reservations and funding; what runs may end
    Freeze(Transition),
    /// Lift a freeze
    Unfreeze(Transition),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    #[command(flatten)]
    ledger: Ledger,
    /// What may be spent
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

#[derive(Debug, Args, Serialize)]
pub(super) struct List {
    /// Whose; all tenants' where the service allows such a list
    #[arg(long)]
    #[serde(rename = "tenant_id")]
    tenant: Option<String>,
    #[arg(long)]
    unit: Option<String>,
    /// ACTIVE, FROZEN or CLOSED
    #[arg(long)]
    status: Option<String>,
    /// What the scope begins with
    #[arg(long, value_name = "TEXT")]
    scope_prefix: Option<String>,
    /// Only budgets whose debt is above their overdraft limit
    #[arg(long)]
    over_limit: bool,
    /// Only budgets with debt
    #[arg(long)]
    has_debt: bool,
    /// Only budgets of which this share is spent, 0 to 1
    #[arg(long, value_name = "SHARE")]
    utilization_min: Option<f64>,
    /// Rows at most
    #[arg(long, value_name = "N")]
    #[serde(skip)]
    limit: Option<usize>,
}

#[derive(Debug, Args, Serialize)]
pub(super) struct TreeArgs {
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
#[command(group = ArgGroup::new("operation").required(true))]
pub(super) struct Fund {
    #[command(flatten)]
    ledger: Ledger,
    /// Add to what is allocated
    #[arg(long, value_name = "AMOUNT", group = "operation")]
    credit: Option<i64>,
    /// Take from what is allocated and not used
    #[arg(long, value_name = "AMOUNT", group = "operation")]
    debit: Option<i64>,
    /// Set what is allocated
    #[arg(long, value_name = "AMOUNT", group = "operation")]
    reset: Option<i64>,
    /// Begin a new period with this allocation, and nothing spent
    #[arg(long, value_name = "AMOUNT", group = "operation")]
    reset_spent: Option<i64>,
    /// Pay back debt; what is left is added to what is allocated
    #[arg(long, value_name = "AMOUNT", group = "operation")]
    repay_debt: Option<i64>,
    /// With --reset-spent: what the new period begins with as spent
    #[arg(long, value_name = "AMOUNT")]
    spent: Option<i64>,
    #[arg(long)]
    reason: Option<String>,
    /// Makes the command safe to repeat
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

const BUDGETS: Listing = Listing {
    path: &["admin", "budgets"],
    member: "ledgers",
    columns: &[
        ("SCOPE", "scope", plain),
        ("UNIT", "unit", plain),
        ("STATUS", "status", plain),
        ("ALLOCATED", "allocated", number),
        ("REMAINING", "remaining", number),
        ("RESERVED", "reserved", number),
        ("SPENT", "spent", number),
        ("DEBT", "debt", number),
    ],
    nothing: "no budgets; `admin budget create SCOPE --allocated N` makes one",
};

impl Ledger {
    /// The tenant that the scope names.
    fn tenant(&self) -> Result<&str, OperatorError> {
        let first = self.scope.split('/').next().unwrap_or_default();
        let tenant = first.strip_prefix("tenant:").unwrap_or_default();
        match tenant {
            "" => Err(OperatorError::Usage(format!(
                "the scope `{}` must begin with tenant:ID",
                self.scope
            ))),
            tenant => Ok(tenant),
        }
    }

    fn call(&self, method: Method, operation: &str) -> Call {
        Call::new(method, &["admin", "budgets", operation]).query(self)
    }
}

impl Command {
    pub async fn run(self, console: &mut Console<impl Write>) -> Result<(), OperatorError> {
        match self {
            Self::Create(create) => create.run(console).await,
            Self::Show(ledger) => console.show(ledger.call(Method::GET, "lookup")).await,
            Self::List(list) => console.list(&BUDGETS, &list, list.limit).await,
            Self::Tree(tree) => tree.show(console).await,
            Self::Fund(fund) => fund.run(console).await,
            Self::Freeze(args) => args.run("freeze", console).await,
            Self::Unfreeze(args) => args.run("unfreeze", console).await,
        }
    }
}

impl Create {
    async fn run(self, console: &mut Console<impl Write>) -> Result<(), OperatorError> {
        let Ledger { scope, unit } = &self.ledger;
        let amount = |amount: i64| json!({"unit": unit, "amount": amount});
        let body = json!({
            "tenant_id": self.ledger.tenant()?, "scope": scope, "unit": unit, "allocated": amount(self.allocated),
            "overdraft_limit": self.overdraft_limit.map(amount), "commit_overage_policy": self.overage_policy,
        });
        let call = Call::post(BUDGETS.path).body(&body);
        console.show(call.once(self.idempotency_key)).await
    }
}

impl TreeArgs {
    async fn show(self, console: &mut Console<impl Write>) -> Result<(), OperatorError> {
        let rows = console.rows(&BUDGETS, &self, None).await?;
        if console.output.is_json() || rows.is_empty() {
            return console
                .output
                .table(BUDGETS.columns, &rows, BUDGETS.nothing);
        }
        let lines = Tree::of(&rows).lines();
        lines.iter().try_for_each(|line| console.output.line(line))
    }
}

impl Transition {
    async fn run(
        self,
        operation: &str,
        console: &mut Console<impl Write>,
    ) -> Result<(), OperatorError> {
        let call = self.ledger.call(Method::POST, operation);
        let body = json!({"reason": self.reason});
        console.show(call.body(&body)).await
    }
}

impl Fund {
    async fn run(self, console: &mut Console<impl Write>) -> Result<(), OperatorError> {
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
            return Err(OperatorError::Usage(text));
        }
        let value = |amount: i64| json!({"unit": self.ledger.unit, "amount": amount});
        let body = json!({
            "operation": operation, "amount": value(amount), "spent": self.spent.map(value), "reason": self.reason,
        });
        let call = self.ledger.call(Method::POST, "fund");
        let call = call.with("tenant_id", Some(self.ledger.tenant()?));
        console
            .show(call.body(&body).once(self.idempotency_key))
            .await
    }
}

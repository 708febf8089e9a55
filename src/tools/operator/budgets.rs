//! `admin budget`.

use std::io::Write;

use clap::{ArgGroup, Args, Subcommand};
use reqwest::Method;
use serde_json::json;

use super::client::{Call, Client};
use super::error::OperatorError;
use super::output::{Column, Output, number, plain};
use super::tree::Tree;

/// One ledger.
#[derive(Debug, Args)]
pub(super) struct Ledger {
    /// Its scope: tenant:acme/agent:writer
    scope: String,
    /// USD_MICROCENTS, TOKENS, CREDITS or RISK_POINTS
    #[arg(long, env = "BUDGET_UNIT", default_value = "USD_MICROCENTS")]
    unit: String,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Make a budget
    Create {
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
    },
    /// Show one budget
    Show {
        #[command(flatten)]
        ledger: Ledger,
    },
    /// Show budgets as a list
    List(List),
    /// Show a tenant's budgets as a tree, each with what is used of it
    Tree {
        tenant: String,
        /// Only this unit
        #[arg(long)]
        unit: Option<String>,
    },
    /// Change what a budget has
    Fund(Fund),
    /// Stop new reservations and funding; what runs may end
    Freeze {
        #[command(flatten)]
        ledger: Ledger,
        #[arg(long)]
        reason: Option<String>,
    },
    /// Lift a freeze
    Unfreeze {
        #[command(flatten)]
        ledger: Ledger,
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Whose; all tenants' where the service allows such a list
    #[arg(long)]
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
    limit: Option<usize>,
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

const COLUMNS: &[Column] = &[
    ("SCOPE", |row| plain(&row["scope"])),
    ("UNIT", |row| plain(&row["unit"])),
    ("STATUS", |row| plain(&row["status"])),
    ("ALLOCATED", |row| number(&row["allocated"])),
    ("REMAINING", |row| number(&row["remaining"])),
    ("RESERVED", |row| number(&row["reserved"])),
    ("SPENT", |row| number(&row["spent"])),
    ("DEBT", |row| number(&row["debt"])),
];

impl Ledger {
    /// The tenant that the scope names.
    fn tenant(&self) -> Result<String, OperatorError> {
        let first = self.scope.split('/').next().unwrap_or_default();
        let tenant = first
            .strip_prefix("tenant:")
            .filter(|tenant| !tenant.is_empty());
        tenant.map(str::to_owned).ok_or_else(|| {
            OperatorError::Usage(format!(
                "the scope `{}` must begin with tenant:ID",
                self.scope
            ))
        })
    }

    fn call(self, method: Method, verb: &str) -> Call {
        Call::new(method, &["admin", "budgets", verb])
            .with("scope", Some(self.scope))
            .with("unit", Some(self.unit))
    }

    async fn transition(
        self,
        verb: &str,
        reason: Option<String>,
        client: &Client,
        output: &mut Output<impl Write>,
    ) -> Result<(), OperatorError> {
        let body = reason.map_or_else(|| json!({}), |reason| json!({"reason": reason}));
        let call = self.call(Method::POST, verb).body(body);
        output.object(&client.send(call).await?)
    }
}

impl Verb {
    pub async fn run(
        self,
        client: &Client,
        output: &mut Output<impl Write>,
    ) -> Result<(), OperatorError> {
        match self {
            Self::Create {
                ledger,
                allocated,
                overdraft_limit,
                overage_policy,
                idempotency_key,
            } => {
                let amount = |amount: i64| json!({"unit": ledger.unit, "amount": amount});
                let mut body = json!({
                    "tenant_id": ledger.tenant()?, "scope": ledger.scope, "unit": ledger.unit,
                    "allocated": amount(allocated),
                });
                if let Some(limit) = overdraft_limit {
                    body["overdraft_limit"] = amount(limit);
                }
                if let Some(policy) = overage_policy {
                    body["commit_overage_policy"] = json!(policy);
                }
                let call = Call::new(Method::POST, &["admin", "budgets"]).body(body);
                output.object(&client.send(call.once(idempotency_key)).await?)
            }
            Self::Show { ledger } => {
                output.object(&client.send(ledger.call(Method::GET, "lookup")).await?)
            }
            Self::List(list) => list.show(client, output).await,
            Self::Tree { tenant, unit } => {
                show_tree(&tenant, unit.as_deref(), client, output).await
            }
            Self::Fund(fund) => fund.run(client, output).await,
            Self::Freeze { ledger, reason } => {
                ledger.transition("freeze", reason, client, output).await
            }
            Self::Unfreeze { ledger, reason } => {
                ledger.transition("unfreeze", reason, client, output).await
            }
        }
    }
}

impl List {
    async fn show(
        &self,
        client: &Client,
        output: &mut Output<impl Write>,
    ) -> Result<(), OperatorError> {
        let page = || {
            Call::get(&["admin", "budgets"])
                .with("tenant_id", self.tenant.as_ref())
                .with("unit", self.unit.as_ref())
                .with("status", self.status.as_ref())
                .with("scope_prefix", self.scope_prefix.as_ref())
                .with("over_limit", self.over_limit.then_some(true))
                .with("has_debt", self.has_debt.then_some(true))
                .with("utilization_min", self.utilization_min)
        };
        let rows = client.rows(page, "ledgers", self.limit).await?;
        output.table(COLUMNS, &rows, "no budgets")
    }
}

async fn show_tree(
    tenant: &str,
    unit: Option<&str>,
    client: &Client,
    output: &mut Output<impl Write>,
) -> Result<(), OperatorError> {
    let page = || {
        Call::get(&["admin", "budgets"])
            .with("tenant_id", Some(tenant))
            .with("unit", unit)
            .with("sort_by", Some("scope"))
            .with("sort_dir", Some("asc"))
    };
    let rows = client.rows(page, "ledgers", None).await?;
    if output.is_json() || rows.is_empty() {
        let nothing =
            format!("no budgets of {tenant}; `admin budget create SCOPE --allocated N` makes one");
        return output.table(COLUMNS, &rows, &nothing);
    }
    for line in Tree::of(&rows).lines() {
        output.line(&line)?;
    }
    Ok(())
}

impl Fund {
    async fn run(
        self,
        client: &Client,
        output: &mut Output<impl Write>,
    ) -> Result<(), OperatorError> {
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
            let text = "--spent goes with --reset-spent alone".to_owned();
            return Err(OperatorError::Usage(text));
        }
        let value = |amount: i64| json!({"unit": self.ledger.unit, "amount": amount});
        let mut body = json!({"operation": operation, "amount": value(amount)});
        if let Some(spent) = self.spent {
            body["spent"] = value(spent);
        }
        if let Some(reason) = self.reason {
            body["reason"] = json!(reason);
        }
        let tenant = self.ledger.tenant()?;
        let call = self
            .ledger
            .call(Method::POST, "fund")
            .with("tenant_id", Some(tenant));
        output.object(
            &client
                .send(call.body(body).once(self.idempotency_key))
                .await?,
        )
    }
}

//! The HTTP operations on temporary increases of budgets.

use super::requests::{BudgetTarget, check_amounts};
use super::{mismatched, target_parameters};
use crate::api::admin::extract::{Change, ChangeBody, ChangeTarget, NoBody};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::amount::Amount;
use crate::domain::budget::increase::{BudgetIncrease, BudgetIncreaseRequest};
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::caller::Caller;
use crate::domain::event::EventActor;
use crate::domain::fields::object;
use crate::domain::ids::IdempotencyKey;
use crate::domain::moment::Moment;
use crate::domain::scope::Level;

object! {
    /// A temporary increase, and the budget with it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetIncreaseResponse: Serialize {
        /// Id of the increase.
        pub increase_id: String,
        /// By how much.
        pub amount: Amount,
        /// When it ends.
        pub until: Moment,
        /// Why it was made.
        pub reason: String,
        /// When it was made.
        pub created_at: Moment,
        /// The actor that made it.
        pub actor: EventActor { inline: true },
        /// The budget as it is now.
        pub budget: BudgetLedger,
    }
}

impl BudgetIncreaseResponse {
    fn new(increase: BudgetIncrease, budget: BudgetLedger) -> Self {
        let BudgetIncrease {
            increase_id,
            amount,
            until,
            reason,
            created_at,
            actor,
        } = increase;
        Self {
            increase_id,
            amount,
            until,
            reason,
            created_at,
            actor,
            budget,
        }
    }
}

impl ChangeBody for BudgetIncreaseRequest {
    const HAS_KEY: bool = true;

    fn idempotency_key(&self) -> Option<&IdempotencyKey> {
        self.idempotency_key.as_ref()
    }
}

pub(in crate::api) const CREATE: Declaration = declare!(
    increase_budget,
    "Raises what is allocated to a budget, for a time"
)
.query(target_parameters)
.takes_change::<BudgetIncreaseRequest>()
.returns::<BudgetIncreaseResponse>(201, "The increase.")
.refuses(&[404, 409]);

async fn increase_budget(
    change: Change<BudgetIncreaseRequest, BudgetTarget>,
) -> Returns<BudgetIncreaseResponse> {
    let (BudgetTarget { scope, unit, .. }, new) = (&change.target, &change.body);
    let path = scope.path();
    if let Err(mismatch) = check_amounts([("amount", Some(new.amount))], *unit, path.as_str()) {
        let owner = path.value(Level::Tenant).unwrap_or_default();
        return Err(mismatched(&change, mismatch, path.as_str(), owner).await?);
    }
    let (admin, request) = (&change.state.admin, change.request());
    let made = admin.increase_budget(&change.caller, (scope, *unit), new, &request);
    let (increase, budget) = made.await?;
    let response = BudgetIncreaseResponse::new(increase, budget);
    Ok(CheckedJson::created(response))
}

pub(in crate::api) const END: Declaration =
    declare!(end_increase, "Ends a temporary increase of a budget now")
        .query(target_parameters)
        .idempotent()
        .returns::<BudgetLedger>(200, "The budget as it is now.")
        .refuses(&[404, 409]);

/// An increase, and the budget that has it.
#[derive(Debug)]
struct IncreaseTarget {
    increase_id: String,
    budget: BudgetTarget,
}

impl ChangeTarget for IncreaseTarget {
    fn read(id: String, query: &str, _: &Caller) -> Result<Self, ApiError> {
        let budget = BudgetTarget::parse(query)?;
        Ok(Self {
            increase_id: id,
            budget,
        })
    }

    fn selected(&self) -> Vec<(&'static str, &str)> {
        let mut selected = self.budget.selected();
        selected.push(("id", &self.increase_id));
        selected
    }
}

async fn end_increase(change: Change<NoBody, IncreaseTarget>) -> Returns<BudgetLedger> {
    let IncreaseTarget {
        increase_id,
        budget,
    } = &change.target;
    let (admin, request) = (&change.state.admin, change.request());
    let target = (&budget.scope, budget.unit);
    let ledger = admin.end_increase(&change.caller, target, increase_id, &request);
    Ok(CheckedJson::ok(ledger.await?))
}

//! The list of budgets and the overview.

use crate::api::admin::budgets::list::{BudgetListResponse, Budgets};
use crate::api::admin::overview::AdminOverviewResponse;
use crate::api::list;
use crate::api::openapi::operation::{Key, Operation, schema_of};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            method: "get",
            path: "/v1/admin/budgets",
            id: "listBudgets",
            summary: "Lists budgets",
            keys: &[Key::Api, Key::Admin],
            parameters: list::parameters::<Budgets>(),
            request: None,
            answers: &[(200, "A page of budgets.", schema_of::<BudgetListResponse>)],
            errors: &[400],
        },
        Operation {
            method: "get",
            path: "/v1/admin/overview",
            id: "getAdminOverview",
            summary: "Shows counts of all that there is, what needs care, and what happened in the last hour; a few seconds old at most",
            keys: &[Key::Admin],
            parameters: Vec::new(),
            request: None,
            answers: &[(200, "The overview.", schema_of::<AdminOverviewResponse>)],
            errors: &[400],
        },
    ]
}

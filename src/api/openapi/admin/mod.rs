//! The operations of the admin plane.

mod api_keys;
mod budgets;
mod bulk_actions;
mod policies;

use serde_json::Value;

use super::operation::{Key, Operation, path, query, required_query, schema_of, text, words};
use crate::api::admin::budgets::states::{BudgetStatusTransitionRequest, BudgetUpdateRequest};
use crate::api::admin::budgets::{
    BudgetCreateRequest, BudgetFundingRequest, BudgetFundingResponse, BudgetLedger,
};
use crate::api::admin::tenants::update::TenantUpdateRequest;
use crate::api::admin::tenants::{Tenant, TenantCreateRequest, TenantListResponse, Tenants};
use crate::api::list;
use crate::domain::amount::Unit;

pub(super) fn operations() -> Vec<Operation> {
    let mut operations = own_operations();
    operations.extend(api_keys::operations());
    operations.extend(budgets::operations());
    operations.extend(policies::operations());
    operations.extend(bulk_actions::operations());
    operations
}

fn own_operations() -> Vec<Operation> {
    vec![
        Operation {
            method: "post",
            path: "/v1/admin/tenants",
            id: "createTenant",
            summary: "Makes a tenant",
            keys: &[Key::Admin],
            parameters: vec![idempotency_header()],
            request: Some(schema_of::<TenantCreateRequest>),
            answers: &[
                (
                    200,
                    "The tenant of that id and name, which was there already.",
                    schema_of::<Tenant>,
                ),
                (201, "The new tenant.", schema_of::<Tenant>),
            ],
            errors: &[400, 409, 413, 415],
        },
        Operation {
            method: "get",
            path: "/v1/admin/tenants",
            id: "listTenants",
            summary: "Lists tenants",
            keys: &[Key::Admin],
            parameters: list::parameters::<Tenants>(),
            request: None,
            answers: &[(200, "A page of tenants.", schema_of::<TenantListResponse>)],
            errors: &[400],
        },
        Operation {
            method: "get",
            path: "/v1/admin/tenants/{tenant_id}",
            id: "getTenant",
            summary: "Shows a tenant",
            keys: &[Key::Admin],
            parameters: vec![path("tenant_id", "Names the tenant.", text())],
            request: None,
            answers: &[(200, "The tenant.", schema_of::<Tenant>)],
            errors: &[400, 404],
        },
        Operation {
            method: "patch",
            path: "/v1/admin/tenants/{tenant_id}",
            id: "updateTenant",
            summary: "Changes, suspends or closes a tenant",
            keys: &[Key::Admin],
            parameters: vec![
                path("tenant_id", "Names the tenant.", text()),
                idempotency_header(),
            ],
            request: Some(schema_of::<TenantUpdateRequest>),
            answers: &[(200, "The tenant as it is now.", schema_of::<Tenant>)],
            errors: &[400, 404, 409, 413, 415],
        },
        Operation {
            method: "patch",
            path: "/v1/admin/budgets",
            id: "updateBudget",
            summary: "Changes what an operator set on a budget",
            keys: &[Key::Admin],
            parameters: state_parameters(),
            request: Some(schema_of::<BudgetUpdateRequest>),
            answers: &[(200, "The budget as it is now.", schema_of::<BudgetLedger>)],
            errors: &[400, 404, 409, 413, 415],
        },
        Operation {
            method: "post",
            path: "/v1/admin/budgets/freeze",
            id: "freezeBudget",
            summary: "Freezes a budget: nothing new is reserved, posted or funded",
            keys: &[Key::Admin],
            parameters: state_parameters(),
            request: Some(schema_of::<BudgetStatusTransitionRequest>),
            answers: &[(200, "The frozen budget.", schema_of::<BudgetLedger>)],
            errors: &[400, 404, 409, 413, 415],
        },
        Operation {
            method: "post",
            path: "/v1/admin/budgets/unfreeze",
            id: "unfreezeBudget",
            summary: "Ends the freeze of a budget",
            keys: &[Key::Admin],
            parameters: state_parameters(),
            request: Some(schema_of::<BudgetStatusTransitionRequest>),
            answers: &[(200, "The budget as it is now.", schema_of::<BudgetLedger>)],
            errors: &[400, 404, 409, 413, 415],
        },
        Operation {
            method: "post",
            path: "/v1/admin/budgets",
            id: "createBudget",
            summary: "Makes a budget at a scope",
            keys: &[Key::Api, Key::Admin],
            parameters: vec![idempotency_header()],
            request: Some(schema_of::<BudgetCreateRequest>),
            answers: &[(201, "The new budget.", schema_of::<BudgetLedger>)],
            errors: &[400, 409, 413, 415],
        },
        Operation {
            method: "get",
            path: "/v1/admin/budgets/lookup",
            id: "lookupBudget",
            summary: "Shows the budget of a scope and unit",
            keys: &[Key::Api, Key::Admin],
            parameters: target_parameters(),
            request: None,
            answers: &[(200, "The budget.", schema_of::<BudgetLedger>)],
            errors: &[400, 404],
        },
        Operation {
            method: "post",
            path: "/v1/admin/budgets/fund",
            id: "fundBudget",
            summary: "Changes what a budget has",
            keys: &[Key::Api, Key::Admin],
            parameters: fund_parameters(),
            request: Some(schema_of::<BudgetFundingRequest>),
            answers: &[(
                200,
                "The figures before and after.",
                schema_of::<BudgetFundingResponse>,
            )],
            errors: &[400, 404, 409, 413, 415],
        },
    ]
}

/// The admin plane's header stands for a member that most of its bodies do not have.
pub(super) fn idempotency_header() -> Value {
    let mut header = super::operation::idempotency_header();
    header["description"] =
        "Names this attempt: repeating it under the same key changes once. Where the body has an \
        `idempotency_key` too, the two must be equal."
            .into();
    header
}

fn target_parameters() -> Vec<Value> {
    vec![
        required_query(
            "scope",
            "Where the budget hangs, whatever the case.",
            text(),
        ),
        required_query("unit", "What the budget counts.", words(Unit::WORDS)),
    ]
}

fn state_parameters() -> Vec<Value> {
    let mut parameters = target_parameters();
    parameters.push(idempotency_header());
    parameters
}

fn fund_parameters() -> Vec<Value> {
    let mut parameters = target_parameters();
    parameters.extend([
        query(
            "tenant_id",
            "Whose budget it is. Required with the admin key; without effect with an API key.",
            text(),
        ),
        idempotency_header(),
    ]);
    parameters
}

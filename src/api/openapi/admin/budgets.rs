//! The list of budgets and the overview.

use serde_json::{Value, json};

use super::page_limit;
use crate::admin::BudgetSort;
use crate::api::admin::budgets::list::BudgetListResponse;
use crate::api::admin::overview::AdminOverviewResponse;
use crate::api::openapi::operation::{
    Key, Operation, cursor, query, schema_of, text, words, words_or,
};
use crate::api::query::SEARCH_CHARS_MAX;
use crate::domain::amount::Unit;
use crate::domain::budget::funding::BudgetStatus;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            method: "get",
            path: "/v1/admin/budgets",
            id: "listBudgets",
            summary: "Lists budgets",
            keys: &[Key::Api, Key::Admin],
            parameters: list_parameters(),
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

fn list_parameters() -> Vec<Value> {
    let flag = || json!({"type": "boolean"});
    let fraction = || json!({"type": "number", "format": "double", "minimum": 0, "maximum": 1});
    vec![
        query(
            "tenant_id",
            "Whose budgets. Required with the admin key, unless the service is set to list those of all tenants; without \
             effect with an API key.",
            text(),
        ),
        query(
            "scope_prefix",
            "What their scope starts with, in lower case.",
            text(),
        ),
        query("unit", "What they count.", words(Unit::WORDS)),
        query(
            "status",
            "Whether they may be used.",
            words(BudgetStatus::WORDS),
        ),
        query(
            "over_limit",
            "Whether new reservations are refused until they are funded.",
            flag(),
        ),
        query("has_debt", "Whether they owe something.", flag()),
        query(
            "utilization_min",
            "Least of what was spent as a fraction of what was allocated; 0 where nothing was allocated.",
            fraction(),
        ),
        query(
            "utilization_max",
            "The greatest; what is above 1 never matches.",
            fraction(),
        ),
        query(
            "search",
            "What tenant or scope must contain, whatever the case.",
            json!({"type": "string", "maxLength": SEARCH_CHARS_MAX}),
        ),
        query(
            "sort_by",
            "What the rows are sorted by. `scope` and `tenant_id` have an index; any other is refused where there are more \
             than 10000 budgets, and where none is asked for, `scope` stands in.",
            words_or(BudgetSort::WORDS, "utilization"),
        ),
        query(
            "sort_dir",
            "Which come first.",
            words_or(&["asc", "desc"], "desc"),
        ),
        page_limit(),
        cursor(),
    ]
}

//! The bulk actions.

use super::{Key, Operation, idempotency_header, schema_of};
use crate::api::admin::bulk_actions::{
    BudgetBulkActionRequest, BudgetBulkActionResponse, TenantBulkActionRequest,
    TenantBulkActionResponse, WebhookBulkActionRequest, WebhookBulkActionResponse,
};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            method: "post",
            path: "/v1/admin/tenants/bulk-action",
            id: "bulkActionTenants",
            summary: "Suspends, reactivates or closes up to 500 tenants",
            keys: &[Key::Admin],
            parameters: vec![idempotency_header()],
            request: Some(schema_of::<TenantBulkActionRequest>),
            answers: &[(
                200,
                "What became of each tenant.",
                schema_of::<TenantBulkActionResponse>,
            )],
            errors: &[400, 409, 413, 415],
        },
        Operation {
            method: "post",
            path: "/v1/admin/webhooks/bulk-action",
            id: "bulkActionWebhooks",
            summary: "Pauses, resumes or deletes up to 500 webhook subscriptions",
            keys: &[Key::Admin],
            parameters: vec![idempotency_header()],
            request: Some(schema_of::<WebhookBulkActionRequest>),
            answers: &[(
                200,
                "What became of each subscription.",
                schema_of::<WebhookBulkActionResponse>,
            )],
            errors: &[400, 409, 413, 415],
        },
        Operation {
            method: "post",
            path: "/v1/admin/budgets/bulk-action",
            id: "bulkActionBudgets",
            summary: "Funds up to 500 budgets of a tenant",
            keys: &[Key::Admin],
            parameters: vec![idempotency_header()],
            request: Some(schema_of::<BudgetBulkActionRequest>),
            answers: &[(
                200,
                "What became of each budget.",
                schema_of::<BudgetBulkActionResponse>,
            )],
            errors: &[400, 404, 409, 413, 415],
        },
    ]
}

//! The operations on webhook subscriptions, on both planes.

use serde_json::Value;

use super::operation::{Key, Operation, no_content, path, query, schema_of, text};
use crate::api::admin::webhooks::queries::{AllWebhooks, Deliveries, TenantWebhooks};
use crate::api::admin::webhooks::requests::WebhookReplay;
use crate::api::admin::webhooks::security::WebhookSecurityConfig;
use crate::api::admin::webhooks::{
    ReplayResponse, WebhookCreateResponse, WebhookDeliveryListResponse, WebhookListResponse,
    WebhookSubscription, WebhookTestResponse,
};
use crate::api::list;
use crate::domain::webhook::{WebhookCreateRequest, WebhookUpdateRequest};

pub(super) fn operations() -> Vec<Operation> {
    let mut operations = of_admin();
    operations.extend(of_tenants());
    operations
}

fn of_admin() -> Vec<Operation> {
    const KEYS: &[Key] = &[Key::Admin];
    let one = "/v1/admin/webhooks/{subscription_id}";
    vec![
        Operation {
            method: "post",
            path: "/v1/admin/webhooks",
            id: "createWebhookSubscription",
            summary: "Makes a webhook subscription; the answer is the only one that shows its signing secret",
            keys: KEYS,
            parameters: vec![
                query(
                    "tenant_id",
                    "Whose it is. Absent: the operator's own, for events of all tenants.",
                    text(),
                ),
                super::admin::idempotency_header(),
            ],
            request: Some(schema_of::<WebhookCreateRequest>),
            answers: &[(
                201,
                "The new subscription.",
                schema_of::<WebhookCreateResponse>,
            )],
            errors: &[400, 404, 409, 413, 415],
        },
        Operation {
            method: "get",
            path: "/v1/admin/webhooks",
            id: "listWebhookSubscriptions",
            summary: "Lists webhook subscriptions",
            keys: KEYS,
            parameters: list::parameters::<AllWebhooks>(),
            request: None,
            answers: &[(
                200,
                "A page of subscriptions.",
                schema_of::<WebhookListResponse>,
            )],
            errors: &[400],
        },
        get(one, "getWebhookSubscription", KEYS),
        update(one, "updateWebhookSubscription", KEYS),
        delete(one, "deleteWebhookSubscription", KEYS),
        test(
            "/v1/admin/webhooks/{subscription_id}/test",
            "testWebhookSubscription",
            KEYS,
        ),
        deliveries(
            "/v1/admin/webhooks/{subscription_id}/deliveries",
            "listWebhookDeliveries",
            KEYS,
        ),
        Operation {
            method: "post",
            path: "/v1/admin/webhooks/{subscription_id}/replay",
            id: "replayEvents",
            summary: "Queues past events for delivery once more",
            keys: KEYS,
            parameters: vec![id()],
            request: Some(schema_of::<WebhookReplay>),
            answers: &[(202, "What was queued.", schema_of::<ReplayResponse>)],
            errors: &[400, 404, 409, 413, 415],
        },
        Operation {
            method: "get",
            path: "/v1/admin/config/webhook-security",
            id: "getWebhookSecurityConfig",
            summary: "Shows the rules for addresses of webhooks",
            keys: KEYS,
            parameters: Vec::new(),
            request: None,
            answers: &[(200, "The rules.", schema_of::<WebhookSecurityConfig>)],
            errors: &[400],
        },
        Operation {
            method: "put",
            path: "/v1/admin/config/webhook-security",
            id: "updateWebhookSecurityConfig",
            summary: "Replaces the rules for addresses of webhooks; what is left out has its default",
            keys: KEYS,
            parameters: Vec::new(),
            request: Some(schema_of::<WebhookSecurityConfig>),
            answers: &[(200, "The rules.", schema_of::<WebhookSecurityConfig>)],
            errors: &[400, 413, 415],
        },
    ]
}

fn of_tenants() -> Vec<Operation> {
    const KEYS: &[Key] = &[Key::Api, Key::Admin];
    let one = "/v1/webhooks/{subscription_id}";
    vec![
        Operation {
            method: "post",
            path: "/v1/webhooks",
            id: "createTenantWebhook",
            summary: "Makes a webhook subscription of the API key's tenant; the answer is the only one that shows its secret",
            keys: &[Key::Api],
            parameters: vec![super::admin::idempotency_header()],
            request: Some(schema_of::<WebhookCreateRequest>),
            answers: &[(
                201,
                "The new subscription.",
                schema_of::<WebhookCreateResponse>,
            )],
            errors: &[400, 409, 413, 415],
        },
        Operation {
            method: "get",
            path: "/v1/webhooks",
            id: "listTenantWebhooks",
            summary: "Lists a tenant's webhook subscriptions",
            keys: KEYS,
            parameters: list::parameters::<TenantWebhooks>(),
            request: None,
            answers: &[(
                200,
                "A page of subscriptions.",
                schema_of::<WebhookListResponse>,
            )],
            errors: &[400],
        },
        get(one, "getTenantWebhook", KEYS),
        update(one, "updateTenantWebhook", KEYS),
        delete(one, "deleteTenantWebhook", KEYS),
        test(
            "/v1/webhooks/{subscription_id}/test",
            "testTenantWebhook",
            KEYS,
        ),
        deliveries(
            "/v1/webhooks/{subscription_id}/deliveries",
            "listTenantWebhookDeliveries",
            KEYS,
        ),
    ]
}

fn get(path: &'static str, name: &'static str, keys: &'static [Key]) -> Operation {
    Operation {
        method: "get",
        path,
        id: name,
        summary: "Shows a webhook subscription",
        keys,
        parameters: vec![id()],
        request: None,
        answers: &[(200, "The subscription.", schema_of::<WebhookSubscription>)],
        errors: &[400, 404],
    }
}

fn update(path: &'static str, name: &'static str, keys: &'static [Key]) -> Operation {
    Operation {
        method: "patch",
        path,
        id: name,
        summary: "Changes a webhook subscription",
        keys,
        parameters: vec![id(), super::admin::idempotency_header()],
        request: Some(schema_of::<WebhookUpdateRequest>),
        answers: &[(
            200,
            "The subscription after the change.",
            schema_of::<WebhookSubscription>,
        )],
        errors: &[400, 404, 409, 413, 415],
    }
}

fn delete(path: &'static str, name: &'static str, keys: &'static [Key]) -> Operation {
    Operation {
        method: "delete",
        path,
        id: name,
        summary: "Removes a webhook subscription with its secrets",
        keys,
        parameters: vec![id(), super::admin::idempotency_header()],
        request: None,
        answers: &[(204, "It is gone.", no_content)],
        errors: &[400, 404, 409],
    }
}

fn test(path: &'static str, name: &'static str, keys: &'static [Key]) -> Operation {
    Operation {
        method: "post",
        path,
        id: name,
        summary: "Sends a signed test event to the receiver now, and tells what came of it",
        keys,
        parameters: vec![id()],
        request: None,
        answers: &[(200, "What came of it.", schema_of::<WebhookTestResponse>)],
        errors: &[400, 404, 409],
    }
}

fn deliveries(path: &'static str, name: &'static str, keys: &'static [Key]) -> Operation {
    let mut parameters = vec![id()];
    parameters.extend(list::parameters::<Deliveries>());
    Operation {
        method: "get",
        path,
        id: name,
        summary: "Lists the deliveries to a webhook subscription, newest first",
        keys,
        parameters,
        request: None,
        answers: &[(
            200,
            "A page of deliveries.",
            schema_of::<WebhookDeliveryListResponse>,
        )],
        errors: &[400, 404],
    }
}

fn id() -> Value {
    path("subscription_id", "Names the subscription.", text())
}

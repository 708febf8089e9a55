//! The operations on policies.

use super::idempotency_header;
use crate::api::admin::policies::{
    Policies, Policy, PolicyCreateRequest, PolicyListResponse, PolicyUpdateRequest,
};
use crate::api::list;
use crate::api::openapi::operation::{Key, Operation, path, schema_of, text};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            method: "post",
            path: "/v1/admin/policies",
            id: "createPolicy",
            summary: "Makes a policy, which counts from the next request on",
            keys: &[Key::Api, Key::Admin],
            parameters: vec![idempotency_header()],
            request: Some(schema_of::<PolicyCreateRequest>),
            answers: &[(201, "The new policy.", schema_of::<Policy>)],
            errors: &[400, 409, 413, 415],
        },
        Operation {
            method: "get",
            path: "/v1/admin/policies",
            id: "listPolicies",
            summary: "Lists the policies of a tenant",
            keys: &[Key::Api, Key::Admin],
            parameters: list::parameters::<Policies>(),
            request: None,
            answers: &[(200, "A page of policies.", schema_of::<PolicyListResponse>)],
            errors: &[400],
        },
        Operation {
            method: "patch",
            path: "/v1/admin/policies/{policy_id}",
            id: "updatePolicy",
            summary: "Changes a policy; what was is over with the next request",
            keys: &[Key::Api, Key::Admin],
            parameters: vec![
                path("policy_id", "Names the policy.", text()),
                idempotency_header(),
            ],
            request: Some(schema_of::<PolicyUpdateRequest>),
            answers: &[(200, "The policy as it is now.", schema_of::<Policy>)],
            errors: &[400, 404, 409, 413, 415],
        },
    ]
}

//! The operations of the runtime plane.

use serde_json::{Value, json};

use super::operation::{
    Key, Operation, cursor, idempotency_header, path, query, schema_of, text, words, words_or,
};
use crate::api::query::{PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX};
use crate::api::runtime::balances::BalanceResponse;
use crate::api::runtime::commit::{CommitRequest, CommitResponse};
use crate::api::runtime::decide::{DecisionRequest, DecisionResponse};
use crate::api::runtime::events::{EventCreateRequest, EventCreateResponse};
use crate::api::runtime::extend::{ReservationExtendRequest, ReservationExtendResponse};
use crate::api::runtime::release::{ReleaseRequest, ReleaseResponse};
use crate::api::runtime::reservations::{Reservation, ReservationListResponse};
use crate::api::runtime::reserve::{ReservationCreateRequest, ReservationCreateResponse};
use crate::domain::reservation::{ReservationSort, Status};
use crate::domain::scope::Level;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            method: "post",
            path: "/v1/decide",
            id: "decide",
            summary: "Tells whether an action would be allowed, without holding anything",
            keys: &[Key::Api],
            parameters: vec![idempotency_header()],
            request: Some(schema_of::<DecisionRequest>),
            answers: &[(
                200,
                "The decision, a denial included.",
                schema_of::<DecisionResponse>,
            )],
            errors: &[400, 409, 413, 415],
        },
        Operation {
            method: "post",
            path: "/v1/reservations",
            id: "createReservation",
            summary: "Holds an amount on every budget that encloses the subject, or on none",
            keys: &[Key::Api],
            parameters: vec![idempotency_header()],
            request: Some(schema_of::<ReservationCreateRequest>),
            answers: &[(
                200,
                "The hold, or the outcome of a dry run.",
                schema_of::<ReservationCreateResponse>,
            )],
            errors: &[400, 404, 409, 413, 415],
        },
        Operation {
            method: "get",
            path: "/v1/reservations",
            id: "listReservations",
            summary: "Lists reservations",
            keys: &[Key::Api, Key::Admin],
            parameters: list_parameters(),
            request: None,
            answers: &[(
                200,
                "A page of reservations.",
                schema_of::<ReservationListResponse>,
            )],
            errors: &[400],
        },
        Operation {
            method: "get",
            path: "/v1/reservations/{reservation_id}",
            id: "getReservation",
            summary: "Shows a reservation",
            keys: &[Key::Api, Key::Admin],
            parameters: vec![reservation_id()],
            request: None,
            answers: &[(200, "The reservation.", schema_of::<Reservation>)],
            errors: &[400, 404, 410],
        },
        Operation {
            method: "post",
            path: "/v1/reservations/{reservation_id}/commit",
            id: "commitReservation",
            summary: "Charges what an action cost and returns the rest of its hold",
            keys: &[Key::Api],
            parameters: vec![reservation_id(), idempotency_header()],
            request: Some(schema_of::<CommitRequest>),
            answers: &[(200, "What was charged.", schema_of::<CommitResponse>)],
            errors: &[400, 404, 409, 410, 413, 415],
        },
        Operation {
            method: "post",
            path: "/v1/reservations/{reservation_id}/release",
            id: "releaseReservation",
            summary: "Returns a hold without a charge",
            keys: &[Key::Api, Key::Admin],
            parameters: vec![reservation_id(), idempotency_header()],
            request: Some(schema_of::<ReleaseRequest>),
            answers: &[(200, "What was returned.", schema_of::<ReleaseResponse>)],
            errors: &[400, 404, 409, 410, 413, 415],
        },
        Operation {
            method: "post",
            path: "/v1/reservations/{reservation_id}/extend",
            id: "extendReservation",
            summary: "Moves the deadline of a hold",
            keys: &[Key::Api],
            parameters: vec![reservation_id(), idempotency_header()],
            request: Some(schema_of::<ReservationExtendRequest>),
            answers: &[(
                200,
                "The new deadline.",
                schema_of::<ReservationExtendResponse>,
            )],
            errors: &[400, 404, 409, 410, 413, 415],
        },
        Operation {
            method: "post",
            path: "/v1/events",
            id: "createEvent",
            summary: "Charges what was already spent, without a reservation",
            keys: &[Key::Api],
            parameters: vec![idempotency_header()],
            request: Some(schema_of::<EventCreateRequest>),
            answers: &[(201, "What was charged.", schema_of::<EventCreateResponse>)],
            errors: &[400, 404, 409, 413, 415],
        },
        Operation {
            method: "get",
            path: "/v1/balances",
            id: "getBalances",
            summary: "Lists budgets with what they hold and have left",
            keys: &[Key::Api],
            parameters: balances_parameters(),
            request: None,
            answers: &[(200, "A page of balances.", schema_of::<BalanceResponse>)],
            errors: &[400],
        },
    ]
}

fn reservation_id() -> Value {
    path(
        "reservation_id",
        "Names the reservation.",
        json!({"type": "string", "minLength": 1, "maxLength": 128}),
    )
}

fn limit() -> Value {
    let schema = json!({
        "type": "integer",
        "minimum": 1,
        "maximum": PAGE_LIMIT_MAX,
        "default": PAGE_LIMIT_DEFAULT,
    });
    query("limit", "Most rows on the page.", schema)
}

fn level_filters(tenant: &'static str) -> Vec<Value> {
    let filter = |level: Level| {
        let description = match level {
            Level::Tenant => tenant,
            _ => "Only what lies at or below this value of the level, whatever the case.",
        };
        query(level.as_str(), description, text())
    };
    Level::ALL.into_iter().map(filter).collect()
}

fn list_parameters() -> Vec<Value> {
    let moment = || json!({"type": "string", "format": "date-time"});
    let mut parameters = vec![
        query(
            "idempotency_key",
            "The key under which the reservation was created.",
            json!({"type": "string", "minLength": 1, "maxLength": 256}),
        ),
        query("status", "The status as of now.", words(Status::WORDS)),
    ];
    parameters.extend(level_filters(
        "The tenant. With an API key only the key's own; required with the admin key.",
    ));
    parameters.extend([
        query("from", "Not created before.", moment()),
        query("to", "Not created after.", moment()),
        query("expires_from", "Not lapsing before.", moment()),
        query("expires_to", "Not lapsing after.", moment()),
        query("finalized_from", "Not committed or released before.", moment()),
        query("finalized_to", "Not committed or released after.", moment()),
        query(
            "sort_by",
            "What the rows are sorted by; equal ones stand by ascending id.",
            words_or(ReservationSort::WORDS, "created_at_ms"),
        ),
        query("sort_dir", "Which come first.", words_or(&["asc", "desc"], "desc")),
        json!({
            "name": "include",
            "in": "query",
            "required": false,
            "description": "Members to show beside the usual: `metadata`, `committed_metadata`, `evidence`.",
            "style": "form",
            "explode": false,
            "schema": {"type": "array", "items": {"type": "string"}},
        }),
        limit(),
        cursor(),
    ]);
    parameters
}

fn balances_parameters() -> Vec<Value> {
    let mut parameters =
        level_filters("The tenant: only the API key's own. One of these filters is required.");
    parameters.extend([
        query(
            "include_children",
            "Without effect: deeper scopes are always included.",
            json!({"type": "boolean", "default": false}),
        ),
        limit(),
        cursor(),
    ]);
    parameters
}

//! The operations on events, on both planes.

use serde_json::{Value, json};

use super::operation::{Key, Operation, cursor, path, query, schema_of, text, words, words_or};
use crate::api::admin::events::{Event, EventListResponse};
use crate::api::query::{ADMIN_PAGE_LIMIT_MAX, PAGE_LIMIT_DEFAULT, SEARCH_CHARS_MAX};
use crate::domain::event::query::EventSort;
use crate::domain::event::types::{EventCategory, EventType};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            method: "get",
            path: "/v1/admin/events",
            id: "listEvents",
            summary: "Lists events, of one tenant or of all",
            keys: &[Key::Admin],
            parameters: list_parameters(),
            request: None,
            answers: &[(200, "A page of events.", schema_of::<EventListResponse>)],
            errors: &[400],
        },
        Operation {
            method: "get",
            path: "/v1/admin/events/{event_id}",
            id: "getEvent",
            summary: "Shows an event",
            keys: &[Key::Admin],
            parameters: vec![path("event_id", "Names the event.", text())],
            request: None,
            answers: &[(200, "The event.", schema_of::<Event>)],
            errors: &[400, 404],
        },
        Operation {
            method: "get",
            path: "/v1/events",
            id: "listTenantEvents",
            summary: "Lists the events of the key's own tenant, latest first",
            keys: &[Key::Api],
            parameters: own_parameters(),
            request: None,
            answers: &[(200, "A page of events.", schema_of::<EventListResponse>)],
            errors: &[400],
        },
    ]
}

/// Filters that both lists have.
fn filters() -> Vec<Value> {
    let moment = || json!({"type": "string", "format": "date-time"});
    vec![
        query(
            "event_type",
            "Of exactly this type.",
            words(EventType::WORDS),
        ),
        query("category", "Of this category.", words(EventCategory::WORDS)),
        query("scope", "What their scope begins with.", text()),
        query("correlation_id", "Exactly this.", text()),
        query("from", "Not before.", moment()),
        query("to", "Not after.", moment()),
    ]
}

fn own_parameters() -> Vec<Value> {
    let mut parameters = filters();
    parameters.extend([cursor(), page_limit()]);
    parameters
}

fn list_parameters() -> Vec<Value> {
    let mut parameters = vec![query(
        "tenant_id",
        "Whose they are; `__system__` for events of no tenant. Absent: those of all.",
        text(),
    )];
    parameters.extend(filters());
    parameters.extend([
        query(
            "trace_id",
            "Exactly this.",
            json!({"type": "string", "pattern": "^[0-9a-f]{32}$"}),
        ),
        query("request_id", "Exactly this.", text()),
        query(
            "search",
            "What correlation id or scope must contain, whatever the case.",
            json!({"type": "string", "maxLength": SEARCH_CHARS_MAX}),
        ),
        query(
            "sort_by",
            "What they are sorted by.",
            words_or(EventSort::WORDS, "timestamp"),
        ),
        query(
            "sort_dir",
            "Which come first.",
            words_or(&["asc", "desc"], "desc"),
        ),
        cursor(),
        page_limit(),
    ]);
    parameters
}

fn page_limit() -> Value {
    let limit = json!({
        "type": "integer",
        "minimum": 1,
        "maximum": ADMIN_PAGE_LIMIT_MAX,
        "default": PAGE_LIMIT_DEFAULT,
    });
    query("limit", "Most events on the page.", limit)
}

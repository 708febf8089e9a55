//! The operation on the audit log.

use serde_json::{Value, json};

use super::operation::{Key, Operation, cursor, query, schema_of, text, words_or};
use crate::api::admin::audit::AuditLogListResponse;
use crate::api::admin::audit::queries::{LIST_VALUES_MAX, STATUSES};
use crate::api::query::{PAGE_LIMIT_DEFAULT, SEARCH_CHARS_MAX};
use crate::domain::audit::query::AuditSort;

pub(super) fn operations() -> Vec<Operation> {
    vec![Operation {
        method: "get",
        path: "/v1/admin/audit/logs",
        id: "listAuditLogs",
        summary: "Lists what was done and refused, of one tenant or of all",
        keys: &[Key::Admin],
        parameters: parameters(),
        request: None,
        answers: &[(
            200,
            "A page of audit entries.",
            schema_of::<AuditLogListResponse>,
        )],
        errors: &[400],
    }]
}

fn parameters() -> Vec<Value> {
    let moment = || json!({"type": "string", "format": "date-time"});
    let bound = || {
        let (least, most) = (STATUSES.start(), STATUSES.end());
        json!({"type": "integer", "minimum": least, "maximum": most})
    };
    vec![
        query(
            "tenant_id",
            "Whose they are; `__admin__`, `__unauth__` or `__system__` for those of no tenant. Absent: all.",
            text(),
        ),
        query("key_id", "The key that acted.", text()),
        list("operation", "One of these operations."),
        query(
            "status",
            "Exactly this; not together with bounds.",
            json!({"type": "integer"}),
        ),
        list("resource_type", "One of these kinds."),
        query("resource_id", "Exactly this.", text()),
        list("error_code", "One of these; what succeeded has none."),
        list(
            "error_code_exclude",
            "None of these; what succeeded passes.",
        ),
        query("status_min", "Not below.", bound()),
        query("status_max", "Not above.", bound()),
        query("from", "Not before.", moment()),
        query("to", "Not after.", moment()),
        query(
            "search",
            "What resource id, log id, error code or operation must contain, whatever the case.",
            json!({"type": "string", "maxLength": SEARCH_CHARS_MAX}),
        ),
        query(
            "trace_id",
            "Exactly this.",
            json!({"type": "string", "pattern": "^[0-9a-f]{32}$"}),
        ),
        query("request_id", "Exactly this.", text()),
        query(
            "sort_by",
            "What they are sorted by.",
            words_or(AuditSort::WORDS, "timestamp"),
        ),
        query(
            "sort_dir",
            "Which come first.",
            words_or(&["asc", "desc"], "desc"),
        ),
        cursor(),
        query(
            "limit",
            "Most entries on the page; what is above 100 counts as 100.",
            json!({"type": "integer", "default": PAGE_LIMIT_DEFAULT}),
        ),
    ]
}

/// Several values, with commas between or given several times.
fn list(name: &str, description: &str) -> Value {
    let schema = json!({"type": "array", "items": {"type": "string"}, "maxItems": LIST_VALUES_MAX});
    let mut parameter = query(name, description, schema);
    parameter["explode"] = json!(false);
    parameter
}

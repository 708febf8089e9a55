//! Recent denials: what stopped them, who holds what there now, and what would let them pass.

use axum::response::Response;
use serde_json::{Value, json};

use super::super::forms::Form;
use super::super::session::Reader;
use super::{budget, text};

/// Of so many budgets, the page shows what they have now.
const BUDGETS_MAX: usize = 3;

pub(in crate::console) async fn list(reader: Reader, query: Form) -> Result<Response, Response> {
    let wanted = [
        ("tenant_id", reader.naming(&query["tenant"])),
        ("event_type", "reservation.denied"),
        ("scope", &query["scope"]),
        ("search", &query["search"]),
        ("cursor", &query["cursor"]),
        ("limit", "20"),
    ];
    let mut page = reader.operations.get(reader.events(), "", &wanted).await?;
    let mut known: Vec<((String, String), Value)> = Vec::new();
    for event in page["events"].as_array_mut().into_iter().flatten() {
        let scope = match text(&event["data"]["deny_detail"], "blocked_by_scope") {
            "" => text(&event["data"], "scope"),
            scope => scope,
        };
        let blocked = (scope.to_owned(), text(&event["data"], "unit").to_owned());
        let is_known = known.iter().any(|(budget, _)| *budget == blocked);
        if known.len() < BUDGETS_MAX && !is_known {
            let now = now(&reader, text(event, "tenant_id"), &blocked).await;
            known.push((blocked.clone(), now));
        }
        let now = known.iter().find(|(budget, _)| *budget == blocked);
        event["now"] = now.map_or(Value::Null, |(_, now)| now.clone());
        if is_known {
            // The same table once is enough.
            event["now"]["holds"] = Value::Null;
        }
        event["blocked"] = blocked.0.into();
    }
    Ok(reader.page(
        "denials.html",
        json!({"title": "Denied", "page": page, "query": query.json()}),
    ))
}

/// A budget, and what is held there; `null` where there is none.
async fn now(reader: &Reader, tenant: &str, (scope, unit): &(String, String)) -> Value {
    match budget::find(reader, tenant, scope, unit).await {
        Ok(Some(found)) => {
            json!({"holds": budget::holds(reader, &found, "10").await, "budget": found})
        }
        // Another reader may see it.
        Ok(None) | Err(_) => Value::Null,
    }
}

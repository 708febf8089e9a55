//! Reads responses: what an operation did, or why it failed.

use serde::{Deserialize, Serialize};

use super::args::Operation;
use super::connection::Response;
use super::ledger::Effect;

/// The members of any response that say what happened.
#[derive(Debug, Deserialize)]
struct Body {
    decision: Option<String>,
    status: Option<String>,
    reservation_id: Option<String>,
    event_id: Option<String>,
    reason_code: Option<String>,
    reserved: Option<Amount>,
    charged: Option<Amount>,
    released: Option<Amount>,
    error: Option<String>,
    message: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Amount {
    amount: i64,
}

/// A response without the expected outcome, or none at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Failure {
    /// The HTTP status; 0 without a response.
    pub status: u16,
    /// The error code, or another name of the failure.
    pub code: String,
    /// For people.
    pub message: String,
    /// Whether the service may have performed the operation nonetheless.
    #[serde(skip)]
    pub uncertain: bool,
}

/// Reads the response to an operation of `amount`.
///
/// # Errors
/// [`Failure`], also for a success that lacks a required member.
pub(super) fn read(
    operation: Operation,
    amount: i64,
    response: &Response,
) -> Result<Effect, Failure> {
    let status = response.status.as_u16();
    let text = || String::from_utf8_lossy(&response.body).into_owned();
    let failure = |code: Option<String>, message: String| Failure {
        status,
        code: code.unwrap_or_else(|| "UNREADABLE".to_owned()),
        message,
        uncertain: status >= 500,
    };
    let body = serde_json::from_slice::<Body>(&response.body);
    let body = body.map_err(|_| failure(None, text()))?;
    if !response.status.is_success() {
        return Err(failure(body.error, body.message.unwrap_or_default()));
    }
    let expected = match operation {
        Operation::Event => 201,
        _ => 200,
    };
    let code = body.reason_code.clone();
    let effect = effect(operation, amount, body).filter(|_| status == expected);
    effect.ok_or_else(|| failure(code.or(Some("INCOMPLETE".to_owned())), text()))
}

fn effect(operation: Operation, requested: i64, body: Body) -> Option<Effect> {
    let amount = |amount: Option<Amount>| amount.map(|amount| amount.amount);
    let allowed = matches!(body.decision.as_deref(), Some("ALLOW" | "ALLOW_WITH_CAPS"));
    let is = |status| body.status.as_deref() == Some(status);
    let (id, reserved, spent) = match operation {
        Operation::Reserve if allowed => (Some(body.reservation_id?), amount(body.reserved)?, 0),
        Operation::Commit if is("COMMITTED") => {
            // `released` is absent when the whole hold was charged.
            let (charged, released) = (amount(body.charged)?, amount(body.released).unwrap_or(0));
            (None, -charged.saturating_add(released), charged)
        }
        Operation::Release if is("RELEASED") => (None, -amount(body.released)?, 0),
        Operation::Event if is("APPLIED") => {
            // `charged` is present only when it is less than requested.
            let charged = amount(body.charged).unwrap_or(requested);
            (Some(body.event_id?), 0, charged)
        }
        Operation::Decide if allowed => (None, 0, 0),
        _ => return None,
    };
    Some(Effect {
        id,
        reserved,
        spent,
    })
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

    use super::*;

    fn read_body(operation: Operation, status: u16, body: &str) -> Result<Effect, Failure> {
        let response = Response {
            status: StatusCode::from_u16(status).expect("a status"),
            body: body.to_owned().into(),
        };
        read(operation, 70, &response)
    }

    #[test]
    fn successes_say_what_happened() {
        use Operation::{Commit, Decide, Event, Reserve};
        let reserved = r#"{"decision":"ALLOW","reservation_id":"r1","reserved":{"unit":"TOKENS","amount":70},
            "balances":[{"scope":"tenant:t","remaining":{"unit":"TOKENS","amount":-5}}]}"#;
        let committed = r#"{"status":"COMMITTED","charged":{"unit":"TOKENS","amount":70}}"#;
        let applied = r#"{"status":"APPLIED","event_id":"e1"}"#;
        let caps = r#"{"decision":"ALLOW_WITH_CAPS"}"#;
        for (operation, status, body, (id, reserved, spent)) in [
            (Reserve, 200, reserved, (Some("r1"), 70, 0)),
            (Commit, 200, committed, (None, -70, 70)),
            (Event, 201, applied, (Some("e1"), 0, 70)),
            (Decide, 200, caps, (None, 0, 0)),
        ] {
            let effect = Effect {
                id: id.map(str::to_owned),
                reserved,
                spent,
            };
            assert_eq!(read_body(operation, status, body), Ok(effect));
        }
    }

    #[test]
    fn anything_else_is_a_failure_with_a_code() {
        use Operation::{Commit, Decide, Event, Release, Reserve};
        let denied = r#"{"decision":"DENY","reason_code":"BUDGET_EXCEEDED"}"#;
        let refused = r#"{"error":"BUDGET_FROZEN","message":"no"}"#;
        let unavailable = r#"{"error":"INTERNAL_ERROR","message":"later"}"#;
        let released = r#"{"status":"RELEASED"}"#;
        let applied = r#"{"status":"APPLIED","event_id":"e"}"#;
        for (operation, status, body, code, uncertain) in [
            (Decide, 200, denied, "BUDGET_EXCEEDED", false),
            (Reserve, 409, refused, "BUDGET_FROZEN", false),
            (Commit, 503, unavailable, "INTERNAL_ERROR", true),
            (Commit, 502, "<html>", "UNREADABLE", true),
            (Release, 200, released, "INCOMPLETE", false),
            (Event, 200, applied, "INCOMPLETE", false),
        ] {
            let failure = read_body(operation, status, body).expect_err(body);
            let found = (failure.status, failure.code.as_str(), failure.uncertain);
            assert_eq!(found, (status, code, uncertain));
        }
    }
}

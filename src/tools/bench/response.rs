//! Reads responses: what they say was reserved, charged and released.

use serde::Deserialize;

use super::args::Operation;
use crate::tools::http::Response;

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

/// What one operation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Reserved { reservation: String, amount: i64 },
    Committed { charged: i64, released: i64 },
    Released { amount: i64 },
    Charged { event: String, amount: i64 },
    Allowed,
}

/// A response without the expected outcome, or none at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// The HTTP status; 0 without a response.
    pub status: u16,
    /// The error code, or another name of the failure.
    pub code: String,
    /// For people.
    pub message: String,
    /// Whether the service may have performed the operation nonetheless.
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
) -> Result<Outcome, Failure> {
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
    let expected = if operation == Operation::Event {
        201
    } else {
        200
    };
    let incomplete = body.reason_code.clone();
    let outcome = outcome(operation, amount, body).filter(|_| status == expected);
    outcome.ok_or_else(|| {
        let code = incomplete.unwrap_or_else(|| "INCOMPLETE".to_owned());
        failure(Some(code), text())
    })
}

fn outcome(operation: Operation, requested: i64, body: Body) -> Option<Outcome> {
    let amount = |amount: Option<Amount>| amount.map(|amount| amount.amount);
    let allowed = matches!(body.decision.as_deref(), Some("ALLOW" | "ALLOW_WITH_CAPS"));
    let is = |status| body.status.as_deref() == Some(status);
    Some(match operation {
        Operation::Reserve if allowed => Outcome::Reserved {
            reservation: body.reservation_id?,
            amount: amount(body.reserved)?,
        },
        Operation::Commit if is("COMMITTED") => Outcome::Committed {
            charged: amount(body.charged)?,
            // Absent when the whole hold was charged.
            released: amount(body.released).unwrap_or(0),
        },
        Operation::Release if is("RELEASED") => Outcome::Released {
            amount: amount(body.released)?,
        },
        Operation::Event if is("APPLIED") => Outcome::Charged {
            event: body.event_id?,
            // Present only when it is less than requested.
            amount: amount(body.charged).unwrap_or(requested),
        },
        Operation::Decide if allowed => Outcome::Allowed,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

    use super::*;

    fn answer(operation: Operation, status: u16, body: &str) -> Result<Outcome, Failure> {
        let response = Response {
            status: StatusCode::from_u16(status).expect("a status"),
            body: body.to_owned().into(),
        };
        read(operation, 70, &response)
    }

    #[test]
    fn successes_say_what_happened() {
        let reserved = r#"{"decision":"ALLOW","reservation_id":"r1","reserved":{"unit":"TOKENS","amount":70},
            "balances":[{"scope":"tenant:t","remaining":{"unit":"TOKENS","amount":-5}}]}"#;
        let committed = r#"{"status":"COMMITTED","charged":{"unit":"TOKENS","amount":70}}"#;
        let applied = r#"{"status":"APPLIED","event_id":"e1"}"#;
        let caps = r#"{"decision":"ALLOW_WITH_CAPS"}"#;
        let (reservation, event) = ("r1".to_owned(), "e1".to_owned());
        let (amount, charged, released) = (70, 70, 0);
        for (operation, status, body, outcome) in [
            (
                Operation::Reserve,
                200,
                reserved,
                Outcome::Reserved {
                    reservation,
                    amount,
                },
            ),
            (
                Operation::Commit,
                200,
                committed,
                Outcome::Committed { charged, released },
            ),
            (
                Operation::Event,
                201,
                applied,
                Outcome::Charged { event, amount },
            ),
            (Operation::Decide, 200, caps, Outcome::Allowed),
        ] {
            assert_eq!(answer(operation, status, body), Ok(outcome));
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
            let failure = answer(operation, status, body).expect_err(body);
            let found = (failure.status, failure.code.as_str(), failure.uncertain);
            assert_eq!(found, (status, code, uncertain));
        }
    }
}

//! Reads answers: what they say was reserved, charged and released, and whether that is what was asked for.

use std::borrow::Cow;

use serde::Deserialize;

use super::args::Operation;
use super::connection::Reply;

/// The members of any answer that say what happened.
#[derive(Debug, Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    decision: Option<Cow<'a, str>>,
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reservation_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    event_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reason_code: Option<Cow<'a, str>>,
    reserved: Option<Amount>,
    charged: Option<Amount>,
    released: Option<Amount>,
    #[serde(borrow)]
    error: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
struct Amount {
    amount: i64,
}

/// What came of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Reserved { reservation: String, amount: i64 },
    Committed { charged: i64, released: i64 },
    Released { amount: i64 },
    Posted { event: String, charged: i64 },
    Allowed,
}

/// An answer that is not the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// The HTTP status.
    pub status: u16,
    /// The error code, or what else names the failure.
    pub code: String,
    /// For people.
    pub message: String,
    /// Whether the service may have done nonetheless what it was asked.
    pub uncertain: bool,
}

/// Reads the answer to an operation of `amount`.
///
/// # Errors
/// [`Failure`], also for a success that leaves out what it must say.
pub(super) fn read(operation: Operation, amount: i64, reply: &Reply) -> Result<Outcome, Failure> {
    let status = reply.status.as_u16();
    let failure = |code: &str, message: &str| Failure {
        status,
        code: code.to_owned(),
        message: message.to_owned(),
        uncertain: status >= 500,
    };
    let Ok(body) = serde_json::from_slice::<Body>(&reply.body) else {
        return Err(failure("UNREADABLE", &String::from_utf8_lossy(&reply.body)));
    };
    if !reply.status.is_success() {
        let code = body.error.as_deref().unwrap_or("UNREADABLE");
        return Err(failure(code, body.message.as_deref().unwrap_or("")));
    }
    outcome(operation, amount, status, &body).ok_or_else(|| {
        let code = body.reason_code.as_deref().unwrap_or("INCOMPLETE");
        failure(code, &String::from_utf8_lossy(&reply.body))
    })
}

fn outcome(operation: Operation, asked: i64, status: u16, body: &Body) -> Option<Outcome> {
    let expected = if operation == Operation::Event {
        201
    } else {
        200
    };
    if status != expected {
        return None;
    }
    let amount = |amount: &Option<Amount>| amount.as_ref().map(|amount| amount.amount);
    let allowed = matches!(body.decision.as_deref(), Some("ALLOW" | "ALLOW_WITH_CAPS"));
    let is = |status| body.status.as_deref() == Some(status);
    Some(match operation {
        Operation::Reserve if allowed => Outcome::Reserved {
            reservation: body.reservation_id.as_deref()?.to_owned(),
            amount: amount(&body.reserved)?,
        },
        Operation::Commit if is("COMMITTED") => Outcome::Committed {
            charged: amount(&body.charged)?,
            // Left out when all that was held has been charged.
            released: amount(&body.released).unwrap_or(0),
        },
        Operation::Release if is("RELEASED") => Outcome::Released {
            amount: amount(&body.released)?,
        },
        Operation::Event if is("APPLIED") => Outcome::Posted {
            event: body.event_id.as_deref()?.to_owned(),
            // Said only when it is less than asked for.
            charged: amount(&body.charged).unwrap_or(asked),
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
        let reply = Reply {
            status: StatusCode::from_u16(status).expect("a status"),
            body: body.to_owned().into(),
        };
        read(operation, 70, &reply)
    }

    #[test]
    fn successes_say_what_happened() {
        let reserved = r#"{"decision":"ALLOW","reservation_id":"r1","reserved":{"unit":"TOKENS","amount":70},
            "balances":[{"scope":"tenant:t","remaining":{"unit":"TOKENS","amount":-5}}]}"#;
        assert_eq!(
            answer(Operation::Reserve, 200, reserved),
            Ok(Outcome::Reserved {
                reservation: "r1".into(),
                amount: 70
            })
        );
        let committed = r#"{"status":"COMMITTED","charged":{"unit":"TOKENS","amount":70}}"#;
        assert_eq!(
            answer(Operation::Commit, 200, committed),
            Ok(Outcome::Committed {
                charged: 70,
                released: 0
            })
        );
        let posted = r#"{"status":"APPLIED","event_id":"e1"}"#;
        assert_eq!(
            answer(Operation::Event, 201, posted),
            Ok(Outcome::Posted {
                event: "e1".into(),
                charged: 70
            })
        );
        assert_eq!(
            answer(Operation::Decide, 200, r#"{"decision":"ALLOW_WITH_CAPS"}"#),
            Ok(Outcome::Allowed)
        );
    }

    #[test]
    fn anything_else_is_a_failure_with_a_code() {
        let code = |operation, status, body| {
            let failure = answer(operation, status, body).expect_err(body);
            (failure.status, failure.code, failure.uncertain)
        };
        let denied = r#"{"decision":"DENY","reason_code":"BUDGET_EXCEEDED"}"#;
        assert_eq!(
            code(Operation::Decide, 200, denied),
            (200, "BUDGET_EXCEEDED".into(), false)
        );
        let refused = r#"{"error":"BUDGET_FROZEN","message":"no"}"#;
        assert_eq!(
            code(Operation::Reserve, 409, refused),
            (409, "BUDGET_FROZEN".into(), false)
        );
        let unavailable = r#"{"error":"INTERNAL_ERROR","message":"later"}"#;
        assert_eq!(
            code(Operation::Commit, 503, unavailable),
            (503, "INTERNAL_ERROR".into(), true)
        );
        assert_eq!(
            code(Operation::Commit, 502, "<html>"),
            (502, "UNREADABLE".into(), true)
        );
        assert_eq!(
            code(Operation::Release, 200, r#"{"status":"RELEASED"}"#),
            (200, "INCOMPLETE".into(), false)
        );
        assert_eq!(
            code(
                Operation::Event,
                200,
                r#"{"status":"APPLIED","event_id":"e"}"#
            )
            .1,
            "INCOMPLETE"
        );
    }
}

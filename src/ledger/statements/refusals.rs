//! What evidence attests of a refusal. No record keeps a refusal, so its entry in the queue has everything: what was asked for,
//! the words of the script's reply, and the ids of the request.

use super::{Attested, Inputs};
use crate::domain::amount::Amount;
use crate::domain::ids::{ReservationId, TenantId, TraceId};
use crate::domain::json::Json;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::{Evaluated, Refusal, TenantRefusal};
use crate::domain::scope::ScopePath;
use crate::evidence::{Endpoint, Payload, Statement};
use crate::ledger::target::Target;
use crate::store::runtime::{commit::COMMIT, decide::DECIDE, release::RELEASE, reserve::RESERVE};
use crate::store::signature::{Refused, Signature};

/// The refusal of an entry: `inputs` as records have them, `at_ms`, `request_id`, `tenant`, `endpoint`; *`request`* as it is
/// attested; `reservation_id`, or `scope_path`; `unit` and `amount`, save of a release; and `reply`, a word a line.
///
/// # Errors
/// [`RecordError`] names the field.
pub fn of_refusal(entry: &Record) -> Result<Attested, RecordError> {
    let endpoint = Endpoint::parse(entry.text("endpoint")?);
    let endpoint = endpoint.ok_or_else(|| RecordError::of("endpoint"))?;
    let evaluated = refusal(endpoint, entry)?.evaluated();
    let evaluated = evaluated.ok_or_else(|| RecordError::of("reply"))?;
    let inputs: Inputs = entry.read("inputs")?;
    let request = entry.get("request");
    let request = request.map(|text| json(text, "request")).transpose()?;
    let reservation_id = entry.get("reservation_id").map(str::to_owned);
    let ids = (entry.text("request_id")?, &inputs.trace_id);
    let payload = error(endpoint, evaluated, request, reservation_id, ids)?;
    let statement = Statement {
        issued_at_ms: entry.integer("at_ms")?,
        trace_id: Some(inputs.trace_id.clone()),
        payload,
    };
    Ok(Attested { inputs, statement })
}

/// The payload of a refusal: `ids` of the request and its trace are in the body of the error.
///
/// # Errors
/// [`RecordError`] where the details are no JSON of ours.
pub(in crate::ledger) fn error(
    endpoint: Endpoint,
    evaluated: Evaluated,
    request: Option<Json>,
    reservation_id: Option<String>,
    (request_id, trace_id): (&str, &TraceId),
) -> Result<Payload, RecordError> {
    let mut response = vec![
        ("error", Json::from(evaluated.code.as_str())),
        ("message", Json::from(&*evaluated.message)),
        ("request_id", Json::from(request_id)),
        ("trace_id", Json::from(trace_id.as_str())),
    ];
    if let Some(details) = evaluated.details {
        response.push(("details", json(&details.to_string(), "reply")?));
    }
    Ok(Payload::Error {
        endpoint,
        http_status: evaluated.http_status,
        request,
        reservation_id,
        response: response.into_iter().collect(),
    })
}

/// The refusal, as the request itself got it.
fn refusal(endpoint: Endpoint, entry: &Record) -> Result<Refusal, RecordError> {
    let refused = Refused::kept(signature_of(endpoint), entry.text("reply")?);
    let refused = refused.ok().flatten();
    let refused = refused.ok_or_else(|| RecordError::of("reply"))?;
    if let Refused::TenantClosed = refused {
        return Ok(TenantRefusal::Closed(entry.read::<TenantId>("tenant")?).into());
    }
    let refusal = match endpoint {
        Endpoint::Decide | Endpoint::Reserve => {
            let scope_path: ScopePath = entry.read("scope_path")?;
            Target::Scope(&scope_path, entry.read::<Amount>("amount")?).refusal(refused)
        }
        Endpoint::Commit => {
            Target::Charge(&reservation(entry)?, entry.read::<Amount>("amount")?).refusal(refused)
        }
        Endpoint::Release => Target::Reservation(&reservation(entry)?).refusal(refused),
    };
    Ok(refusal.ok_or_else(|| RecordError::of("reply"))?.into())
}

/// A dry run is decided by the script of decide, whose refusals are among those of reserve.
fn signature_of(endpoint: Endpoint) -> &'static Signature {
    match endpoint {
        Endpoint::Decide => &DECIDE,
        Endpoint::Reserve => &RESERVE,
        Endpoint::Commit => &COMMIT,
        Endpoint::Release => &RELEASE,
    }
}

fn reservation(entry: &Record) -> Result<ReservationId, RecordError> {
    let id = ReservationId::parse(entry.text("reservation_id")?);
    id.ok_or_else(|| RecordError::of("reservation_id"))
}

fn json(text: &str, field: &str) -> Result<Json, RecordError> {
    Json::parse(text.as_bytes()).map_err(|_| RecordError::of(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "5b8efff798038103d269b633813fc60c";

    fn entry(endpoint: Endpoint, reply: &str) -> Record {
        let fields = [
            ("inputs", format!("1 3 {TRACE}")),
            ("at_ms", "1790000004567".to_owned()),
            ("request_id", "req_1".to_owned()),
            ("tenant", "acme".to_owned()),
            ("endpoint", endpoint.to_string()),
            (
                "request",
                r#"{"idempotency_key":"k","reason":"r"}"#.to_owned(),
            ),
            ("unit", "TOKENS".to_owned()),
            ("amount", "1800".to_owned()),
            ("reply", reply.replace(' ', "\n")),
        ];
        let entry: Record = fields.into_iter().collect();
        match endpoint {
            Endpoint::Decide | Endpoint::Reserve => {
                entry.with("scope_path", "tenant:acme/app:chat")
            }
            Endpoint::Commit | Endpoint::Release => entry.with("reservation_id", "rsv_5f_0001"),
        }
    }

    fn response(attested: &Attested) -> (u16, String) {
        match &attested.statement.payload {
            Payload::Error {
                http_status,
                response,
                ..
            } => (*http_status, response.canonical()),
            _ => panic!("a refusal"),
        }
    }

    const ROWS: &str = r#"
        reserve tenant_closed => 409 TENANT_CLOSED The tenant acme is closed; what it owns is read-only
        reserve denied BUDGET_EXCEEDED tenant:acme 7 => 409 BUDGET_EXCEEDED Insufficient remaining budget at tenant:acme: requested 1800 TOKENS, remaining 7
        reserve denied BUDGET_FROZEN tenant:acme 7 => 409 BUDGET_FROZEN The budget is frozen at tenant:acme: requested 1800 TOKENS, remaining 7
        reserve denied BUDGET_CLOSED tenant:acme 7 => 409 BUDGET_CLOSED The budget is closed at tenant:acme: requested 1800 TOKENS, remaining 7
        reserve denied DEBT_OUTSTANDING tenant:acme -7 => 409 DEBT_OUTSTANDING The budget has outstanding debt at tenant:acme: requested 1800 TOKENS, remaining -7; it refuses reservations until an operator repays the debt (REPAY_DEBT)
        reserve over_limit tenant:acme -7 rsv_1 => 409 OVERDRAFT_LIMIT_EXCEEDED The overdraft limit is exceeded at tenant:acme: requested 1800 TOKENS, remaining -7; it is over its limit since the commit of reservation rsv_1; it refuses reservations until an operator funds it (REPAY_DEBT where it has debt, else CREDIT)
        reserve unit_mismatch tenant:acme CREDITS => 400 UNIT_MISMATCH Unit mismatch at tenant:acme: requested TOKENS, available CREDITS
        decide unit_mismatch tenant:acme CREDITS => 400 UNIT_MISMATCH Unit mismatch at tenant:acme: requested TOKENS, available CREDITS
        commit expired => 410 RESERVATION_EXPIRED The reservation rsv_5f_0001 has expired
        commit finalized RELEASED => 409 RESERVATION_FINALIZED The reservation rsv_5f_0001 is already RELEASED
        commit overage_rejected tenant:acme 1500 => 409 BUDGET_EXCEEDED 1800 TOKENS exceeds the 1500 reserved at tenant:acme, and the policy is REJECT
        release finalized COMMITTED => 409 RESERVATION_FINALIZED The reservation rsv_5f_0001 is already COMMITTED
        release tenant_closed => 409 TENANT_CLOSED The tenant acme is closed; what it owns is read-only
    "#;

    /// Frozen: the messages are signed, so that another text takes another format.
    #[test]
    fn the_refusals_of_format_1_never_change() {
        for (called, reported) in crate::domain::rows(ROWS) {
            let (endpoint, reply) = called.split_once(' ').expect("an operation");
            let endpoint = match endpoint {
                "decide" => Endpoint::Decide,
                "reserve" => Endpoint::Reserve,
                "commit" => Endpoint::Commit,
                _ => Endpoint::Release,
            };
            let attested = of_refusal(&entry(endpoint, reply)).expect(called);
            let (status, response) = response(&attested);
            let mut words = reported.splitn(3, ' ');
            assert_eq!(words.next(), Some(status.to_string().as_str()), "{called}");
            let json = json(&response, "response").expect("JSON");
            let text = |name| json.member(name).and_then(Json::as_text);
            assert_eq!(
                (text("error"), text("message")),
                (words.next(), words.next()),
                "{called}"
            );
        }
    }

    #[test]
    fn what_is_no_refusal_after_evaluation_is_not_attested() {
        for reply in [
            "not_found",
            "budget_not_found",
            "idempotency_mismatch",
            "reserved 1 2",
            "expired",
            "denied BUDGET_EXCEEDED",
        ] {
            let refused = of_refusal(&entry(Endpoint::Reserve, reply)).expect_err(reply);
            assert_eq!(refused.field, "reply", "{reply}");
        }
    }
}

//! The HTTP operations that give back what was charged.

use crate::api::extract::RuntimeCall;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::caller::Caller;
use crate::domain::ids::{PostId, ReservationId};
use crate::domain::reservation::{RefundRequest, RefundResponse};
use crate::ledger::Charge;

pub(in crate::api) const RESERVATION: Declaration = declare!(
    refund_reservation,
    "Gives back a part of what a reservation charged"
)
.takes_change::<RefundRequest>()
.returns::<RefundResponse>(200, "What was given back.")
.refuses(&[404, 409, 410]);

async fn refund_reservation(
    call: RuntimeCall<RefundRequest, ReservationId, Caller>,
) -> Returns<RefundResponse> {
    let charge = Charge::Reservation(call.path);
    let ledger = &call.state.ledger;
    let refunded = ledger.refund(&call.caller, &charge, &call.body, &call.cause);
    Ok(CheckedJson::ok(refunded.await?))
}

pub(in crate::api) const USAGE_EVENT: Declaration = declare!(
    refund_usage_event,
    "Gives back a part of what a usage event charged"
)
.takes_change::<RefundRequest>()
.returns::<RefundResponse>(200, "What was given back.")
.refuses(&[404, 409]);

async fn refund_usage_event(
    call: RuntimeCall<RefundRequest, PostId, Caller>,
) -> Returns<RefundResponse> {
    let charge = Charge::UsageEvent(call.path);
    let ledger = &call.state.ledger;
    let refunded = ledger.refund(&call.caller, &charge, &call.body, &call.cause);
    Ok(CheckedJson::ok(refunded.await?))
}

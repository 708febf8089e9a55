//! Refunding: a part of what was charged is given back.

use super::Ledger;
use super::calls::RunOptions;
use super::decisions::DecidedBy;
use crate::domain::audit::entry::{add, entry};
use crate::domain::budget::Balance;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::ids::{Partition, PostId, ReservationId, TenantId};
use crate::domain::json::FreeObject;
use crate::domain::payload_hash::HashedRequest;
use crate::domain::record::RecordError;
use crate::domain::refusal::ReservationRefusal;
use crate::domain::reservation::{
    Decision, NotRefunded, NotRefundedReason, RefundRequest, RefundResponse, amount,
};
use crate::store::runtime::refund::{Refund, RefundReply};
use crate::store::runtime::target::RuntimeTarget;
use crate::store::{ExtraRoundTrip, StoreError};

/// What was charged.
#[derive(Debug, Clone)]
pub enum Charge {
    /// By the commit of a reservation.
    Reservation(ReservationId),
    /// By a usage event.
    UsageEvent(PostId),
}

impl Charge {
    fn id(&self) -> &str {
        match self {
            Self::Reservation(id) => id.as_str(),
            Self::UsageEvent(id) => id.as_str(),
        }
    }

    fn partition(&self) -> Option<Partition> {
        match self {
            Self::Reservation(id) => id.partition(),
            Self::UsageEvent(id) => id.partition(),
        }
    }

    /// Its kind, the member of the event that names it, and the operation.
    fn words(&self) -> [&'static str; 3] {
        match self {
            Self::Reservation(_) => ["reservation", "data.reservation_id", "refundReservation"],
            Self::UsageEvent(_) => ["usage_event", "data.event_id", "refundUsageEvent"],
        }
    }
}

impl Ledger {
    /// Gives back a part of a charge. Repeating it under one key, with either credential, gives back once.
    ///
    /// # Errors
    /// [`StoreError`]; refused in the order of precedence of `lua/runtime/refund.lua`.
    pub async fn refund(
        &self,
        caller: &Caller,
        charge: &Charge,
        body: &HashedRequest<RefundRequest>,
        cause: &Cause,
    ) -> Result<RefundResponse, StoreError> {
        let request = &body.request;
        let named = ReservationId::parse(charge.id()).ok_or_else(|| RecordError::of("id"))?;
        let owner = self.charge_owner(caller, charge, &named).await?;
        let [kind, member, operation] = charge.words();
        let mut audit = entry(cause, operation, (kind, charge.id()), Some(200));
        add(&mut audit, "metadata.amount", Some(request.amount.value()));
        add(&mut audit, "metadata.reason", Some(&request.reason));
        let (key_digest, context) = (request.idempotency_key.digest(), cause.lines());
        let target = RuntimeTarget {
            amount: Some(request.amount),
            ..RuntimeTarget::reservation(&named)
        };
        let options = RunOptions::new(DecidedBy::Refund, &owner, target, cause, None);
        let reply = self.run_with_policy(options, |attempt| Refund {
            caller: caller.into(),
            reservation_id: matches!(charge, Charge::Reservation(_)).then_some(charge.id()),
            event_id: matches!(charge, Charge::UsageEvent(_)).then_some(charge.id()),
            payload_hash: body.payload_hash.as_str(),
            key_digest: &key_digest,
            context: &context,
            owner: &owner,
            unit: request.amount.unit().as_str(),
            amount: request.amount.value(),
            reason: &request.reason,
            metadata: request.metadata.as_ref().map(FreeObject::as_str),
            until_ms: attempt.until_ms,
            charge_name: member,
            charge_id: charge.id(),
            audit: &audit,
        });
        let reply = reply.await?.0;
        let is_replay = matches!(reply, RefundReply::Replayed { .. });
        let (RefundReply::Refunded {
            unit,
            refunded,
            charged,
            scope_path,
            ledgers,
        }
        | RefundReply::Replayed {
            unit,
            refunded,
            charged,
            scope_path,
            ledgers,
        }) = reply;
        if !is_replay {
            self.metrics
                .allowed(DecidedBy::Refund, Decision::Allow, unit);
        }
        let mut response = RefundResponse {
            refunded: amount("refunded", unit, refunded)?,
            charged: amount("charged", unit, charged)?,
            balances: Vec::new(),
            not_refunded: Vec::new(),
        };
        for ledger in &ledgers {
            let (depth, snapshot) = ledger.split_once(' ').unwrap_or((ledger, ""));
            let place = depth.parse::<usize>().ok().and_then(|at| at.checked_sub(1));
            let scope = place.and_then(|at| scope_path.with_parents().nth(at));
            let scope = scope.ok_or_else(|| RecordError::of("budgeted"))?;
            if snapshot.is_empty() {
                let reason = NotRefundedReason::NewPeriod;
                response.not_refunded.push(NotRefunded { scope, reason });
                continue;
            }
            let balance = Balance::from_snapshot(scope, unit, snapshot);
            let balance = balance.ok_or_else(|| RecordError::of(depth))?;
            response.balances.push(balance);
        }
        Ok(response)
    }

    /// The tenant whose charge it is. A key learns of no other tenant's.
    async fn charge_owner(
        &self,
        caller: &Caller,
        charge: &Charge,
        named: &ReservationId,
    ) -> Result<TenantId, StoreError> {
        let not_found = || Err(ReservationRefusal::NotFound(named.clone()).into());
        if let Caller::Tenant(caller) = caller
            && charge
                .partition()
                .is_none_or(|partition| partition == caller.partition)
        {
            return Ok(caller.tenant.clone());
        }
        let Some(partition) = charge.partition() else {
            return not_found();
        };
        if let Caller::Tenant(caller) = caller {
            self.authenticate(caller, "budgets:write").await?;
        }
        self.store.extra_round_trip(ExtraRoundTrip::Owner);
        let keys = self.store.keys();
        let key = match charge {
            Charge::Reservation(id) => keys.reservation(partition, id.as_str()),
            Charge::UsageEvent(id) => keys.usage_event(partition, id.as_str()),
        };
        let mut found = self
            .store
            .records(std::iter::once(key), &["tenant"])
            .await?;
        let record = found.pop().transpose()?.unwrap_or_default();
        match (record.optional::<TenantId>("tenant")?, caller) {
            (None, _) => not_found(),
            (Some(_), Caller::Tenant(_)) => Err(ReservationRefusal::OfOtherTenant.into()),
            (Some(owner), Caller::Admin(_)) => Ok(owner),
        }
    }
}

//! The operations of the runtime plane that only read.

use axum::extract::State;
use axum::http::StatusCode;

use super::balances::{BalanceQuery, BalanceResponse};
use super::handlers::{amount, failed, shown};
use super::reservations::{Include, Reservation, ReservationListQuery, ReservationListResponse};
use crate::api::auth::runtime::own_tenant;
use crate::api::errors::ApiError;
use crate::api::extract::{Answer, ByEither, ByKey, OfPath, RawQuery, Refused};
use crate::api::refusals::{Asked, error_of, list_error, store_error};
use crate::api::sort::{Last, Sort, Start};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::ids::{ReservationId, TenantId};
use crate::domain::record::{Record, RecordError};
use crate::domain::reservation::{ReservationSort, Status};
use crate::ledger::{self, LedgerError, Position, ReservationPage, facts};

/// `GET /v1/reservations/{reservation_id}`
pub async fn get(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    OfPath(reservation_id): OfPath,
) -> Result<Answer<Reservation>, Refused> {
    let asked = Asked {
        reservation: Some(&reservation_id),
        ..Asked::default()
    };
    let found = state.ledger.get(&caller, &reservation_id).await;
    let (record, status) = found.map_err(|error| Refused(error_of(error, Some(asked))))?;
    let shown = shown_record(&reservation_id, status, &record, None)?;
    Ok(Answer(StatusCode::OK, shown))
}

/// `GET /v1/reservations`
pub async fn list(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    RawQuery(query): RawQuery,
) -> Result<Result<Answer<ReservationListResponse>, Refused>, ApiError> {
    let query = ReservationListQuery::parse(&query)?;
    let tenant = match &caller {
        Caller::Tenant(caller) => caller.tenant.clone(),
        Caller::Admin(_) => {
            let required = || ApiError::invalid(ReservationListQuery::TENANT_REQUIRED);
            let named = query.tenant.as_deref().ok_or_else(required)?;
            match TenantId::parse(named) {
                Some(tenant) => tenant,
                // No tenant of that name can exist.
                None => {
                    let nothing = ReservationListResponse::new(Vec::new(), None);
                    return Ok(Ok(Answer(StatusCode::OK, nothing)));
                }
            }
        }
    };
    if let Caller::Tenant(caller) = &caller
        && let Err(error) = own_tenant(&state, caller, query.tenant.as_deref()).await
    {
        return Ok(Err(failed(error)));
    }
    let secret = state.store.secret().await.map_err(store_error)?;
    let start = query.start(&tenant, secret);
    // Who may not list is not told what is wrong with a cursor either.
    if start.is_err()
        && let Caller::Tenant(caller) = &caller
        && let Err(error) = state.ledger.authenticate(caller, "reservations:list").await
    {
        return Ok(Err(failed(error)));
    }
    let Start { sort, after } = start?;
    let asked = ledger_query(&query, &tenant, sort, after);
    Ok(match state.ledger.list(&caller, &asked).await {
        Err(error) => Err(Refused(list_error(error))),
        Ok(page) => {
            let next = page.next.clone().map(|next| {
                let last = Last {
                    value: next.value,
                    id: next.reservation_id,
                };
                query.next_cursor(&tenant, sort, last, secret)
            });
            rows(page, query.include)
                .map(|rows| Answer(StatusCode::OK, ReservationListResponse::new(rows, next)))
        }
    })
}

fn ledger_query(
    query: &ReservationListQuery,
    tenant: &TenantId,
    sort: Sort<ReservationSort>,
    after: Option<Last>,
) -> ledger::ReservationQuery {
    ledger::ReservationQuery {
        tenant: tenant.clone(),
        segments: query.segments.clone(),
        idempotency_key: query.idempotency_key.clone(),
        status: query
            .status
            .and_then(|status| Status::parse(status.as_str())),
        created: query.created,
        expires: query.expires,
        finalized: query.finalized,
        sort: sort.by,
        descending: sort.descending,
        limit: query.limit,
        after: after.map(|last| Position {
            value: last.value,
            reservation_id: last.id,
        }),
        further_fields: further_fields(query.include),
    }
}

fn further_fields(include: Include) -> Vec<&'static str> {
    let mut fields = Vec::new();
    if include.metadata {
        fields.push("metadata");
    }
    if include.committed_metadata {
        fields.push("committed_metadata");
    }
    fields
}

fn rows(page: ReservationPage, include: Include) -> Result<Vec<Reservation>, Refused> {
    let shown = page.rows.into_iter().map(|row| {
        let id = ReservationId::parse(&row.reservation_id);
        let id =
            id.ok_or_else(|| failed(LedgerError::Record(RecordError::of("reservation_id"))))?;
        shown_record(&id, row.status, &row.record, Some(include))
    });
    shown.collect()
}

/// A record as the wire shows it. `include`: what a list shows of the optional members; all of them elsewhere.
fn shown_record(
    reservation_id: &ReservationId,
    status: Status,
    record: &Record,
    include: Option<Include>,
) -> Result<Reservation, Refused> {
    let unsound = |error: RecordError| failed(LedgerError::Record(error));
    let unit = record.unit().map_err(unsound)?;
    let integer = |name: &str| record.integer(name).map_err(unsound);
    let committed = match status {
        Status::Committed => Some(amount(unit, integer("charged")?)?),
        Status::Active | Status::Released | Status::Expired => None,
    };
    let wanted = |chosen: fn(Include) -> bool| include.is_none_or(chosen);
    let object = |name: &str, wanted: bool| match wanted {
        true => facts::object_of(record, name).map_err(unsound),
        false => Ok(None),
    };
    let scope_path = record.scope_path().map_err(unsound)?;
    Ok(Reservation {
        reservation_id: reservation_id.clone(),
        status,
        idempotency_key: record.text("idempotency_key").map_err(unsound)?.to_owned(),
        subject: facts::subject_of(record).map_err(unsound)?,
        action: facts::action_of(record).map_err(unsound)?,
        reserved: amount(unit, integer("estimate")?)?,
        committed,
        created_at_ms: integer("created_at_ms")?,
        expires_at_ms: integer("expires_at_ms")?,
        finalized_at_ms: record
            .optional_integer("finalized_at_ms")
            .map_err(unsound)?,
        affected_scopes: scope_path.with_parents().collect(),
        scope_path,
        metadata: object("metadata", wanted(|include| include.metadata))?,
        committed_metadata: object(
            "committed_metadata",
            wanted(|include| include.committed_metadata),
        )?,
        evidence: None,
    })
}

/// `GET /v1/balances`
pub async fn balances(
    State(state): State<AppState>,
    ByKey(caller): ByKey,
    RawQuery(query): RawQuery,
) -> Result<Result<Answer<BalanceResponse>, Refused>, ApiError> {
    let query = BalanceQuery::parse(&query)?;
    let secret = state.store.secret().await.map_err(store_error)?;
    let start = query.start(&caller.tenant, secret)?;
    if let Err(error) = own_tenant(&state, &caller, query.tenant.as_deref()).await {
        return Ok(Err(failed(error)));
    }
    let asked = ledger::BalanceQuery {
        segments: query.segments.clone(),
        limit: query.limit,
        after: start,
    };
    Ok(match state.ledger.balances(&caller, &asked).await {
        Err(error) => Err(failed(error)),
        Ok(page) => {
            let next = page
                .next
                .as_ref()
                .map(|(scope, unit)| query.next_cursor(&caller.tenant, (scope, *unit), secret));
            shown(&page.balances)
                .map(|balances| Answer(StatusCode::OK, BalanceResponse::new(balances, next)))
        }
    })
}

//! The runtime plane: what agents and their gateways call.

pub mod decide;
pub mod reserve;

pub mod commit;
pub mod extend;
pub mod release;

pub mod usage_event;

pub mod balances;
pub mod reservations;

use crate::api::errors::ApiError;
use crate::api::state::AppState;
use crate::domain::caller::RuntimeCaller;
use crate::domain::refusal::AccessRefusal;
use crate::store::OperationError;

/// A tenant may name itself in a filter, and nobody else.
///
/// # Errors
/// 403 for another tenant; before that, 401 when the key is not valid.
async fn own_tenant(
    state: &AppState,
    caller: &RuntimeCaller,
    named: Option<&str>,
) -> Result<(), ApiError> {
    if named.is_none_or(|named| named == caller.tenant.as_str()) {
        return Ok(());
    }
    state.ledger.authenticate(caller, "").await?;
    Err(OperationError::from(AccessRefusal::OtherTenant).into())
}

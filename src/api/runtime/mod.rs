//! The runtime plane: what agents and their gateways call.

pub mod evidence;

pub mod decide;
pub mod reserve;

pub mod commit;
pub mod extend;
pub mod release;

pub mod events;

pub mod balances;
pub mod reservations;

use serde::Serialize;
use utoipa::ToSchema;

use crate::api::errors::ApiError;
use crate::api::refusals::{ErrorContext, error_of};
use crate::api::state::AppState;
use crate::domain::caller::RuntimeCaller;
use crate::domain::policy::Caps;
use crate::domain::refusal::Refusal;
use crate::ledger::LedgerError;

/// The answer to "may I?".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Decision {
    /// Yes.
    Allow,
    /// Yes, if the caller keeps the caps.
    AllowWithCaps,
    /// No.
    Deny,
}

impl Decision {
    /// Yes, with the caps that the caller must keep, if there are any.
    fn allow(caps: Option<&Caps>) -> Self {
        match caps {
            Some(_) => Self::AllowWithCaps,
            None => Self::Allow,
        }
    }
}

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
    let refused = match state.ledger.authenticate(caller, "").await {
        Ok(()) => LedgerError::Refused(Refusal::ForeignTenant),
        Err(error) => error,
    };
    Err(error_of(refused, ErrorContext::default()))
}

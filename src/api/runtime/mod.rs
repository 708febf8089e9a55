//! The runtime plane: what agents and their gateways call.

pub mod evidence;

pub mod decide;
pub mod reserve;

pub mod commit;
pub mod extend;
pub mod release;

pub mod events;

pub mod handlers;
pub mod reads;

pub mod balances;
pub mod reservations;

use serde::Serialize;
use utoipa::ToSchema;

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

//! `admin reservation`.

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::console::{Action, List};
use crate::api::operations::OperationId;
use crate::tools::call::Call;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List a tenant's reservations, the newest first
    List(Filters),
    /// Show one reservation
    Show { reservation_id: String },
    /// Release a reservation on behalf of its owner
    Release {
        reservation_id: String,
        #[arg(long)]
        reason: Option<String>,
        /// Makes the command safe to repeat
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
    },
}

#[derive(Debug, Args, Serialize)]
pub(super) struct Filters {
    /// Whose reservations
    #[arg(long)]
    tenant: String,
    /// ACTIVE, COMMITTED, RELEASED or EXPIRED
    #[arg(long)]
    status: Option<String>,
    /// Rows at most
    #[arg(long, value_name = "N", default_value = "50")]
    #[serde(skip)]
    limit: usize,
}

const RESERVATIONS: List = List {
    operation: OperationId::ListReservations,
    member: "reservations",
    columns: "RESERVATION=reservation_id, STATUS=status, SCOPE=scope_path, RESERVED=reserved, CREATED=created_at_ms",
    nothing: "no reservations",
};

impl Command {
    pub fn action(self) -> Action {
        Action::Show(match self {
            Self::List(filters) => {
                return Action::list(&RESERVATIONS, &filters, Some(filters.limit));
            }
            Self::Show { reservation_id } => Call::to(OperationId::GetReservation, reservation_id),
            Self::Release {
                reservation_id,
                reason,
                idempotency_key,
            } => {
                let key = idempotency_key.unwrap_or_else(|| Uuid::new_v4().to_string());
                let call = Call::to(OperationId::ReleaseReservation, reservation_id);
                let call = call.body(&json!({"idempotency_key": key, "reason": reason}));
                call.once(Some(key))
            }
        })
    }
}

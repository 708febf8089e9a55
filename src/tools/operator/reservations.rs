//! `admin reservation`.

use std::io::Write;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::client::Call;
use super::console::{Console, Listing};
use super::error::OperatorError;
use super::output::{moment, plain};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show a tenant's reservations, the newest first
    List(List),
    /// Show one reservation
    Show { reservation_id: String },
    /// Give a hold back in the owner's place
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
pub(super) struct List {
    tenant: String,
    /// ACTIVE, COMMITTED, RELEASED or EXPIRED
    #[arg(long)]
    status: Option<String>,
    /// Rows at most
    #[arg(long, value_name = "N", default_value = "50")]
    #[serde(skip)]
    limit: usize,
}

const RESERVATIONS: Listing = Listing {
    path: &["reservations"],
    member: "reservations",
    columns: &[
        ("RESERVATION", "reservation_id", plain),
        ("STATUS", "status", plain),
        ("RESERVED", "reserved", plain),
        ("CREATED", "created_at_ms", moment),
        ("SCOPE", "scope_path", plain),
    ],
    nothing: "no reservations",
};

impl Command {
    pub async fn run(self, console: &mut Console<impl Write>) -> Result<(), OperatorError> {
        match self {
            Self::List(list) => console.list(&RESERVATIONS, &list, Some(list.limit)).await,
            Self::Show { reservation_id } => {
                let call = Call::get(&["reservations", &reservation_id]);
                console.show(call).await
            }
            Self::Release {
                reservation_id,
                reason,
                idempotency_key,
            } => {
                let key = idempotency_key.unwrap_or_else(|| Uuid::new_v4().to_string());
                let call = Call::post(&["reservations", &reservation_id, "release"]);
                let call = call.body(&json!({"idempotency_key": key, "reason": reason}));
                console.show(call.once(Some(key))).await
            }
        }
    }
}

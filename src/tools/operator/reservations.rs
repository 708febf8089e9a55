//! `admin reservation`.

use std::io::Write;

use clap::Subcommand;
use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use super::client::{Call, Client};
use super::error::OperatorError;
use super::output::{Column, Output, moment, plain};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Show a tenant's reservations, the newest first
    List {
        tenant: String,
        /// ACTIVE, COMMITTED, RELEASED or EXPIRED
        #[arg(long)]
        status: Option<String>,
        /// Rows at most
        #[arg(long, value_name = "N", default_value = "50")]
        limit: usize,
    },
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

const COLUMNS: &[Column] = &[
    ("RESERVATION", |row| plain(&row["reservation_id"])),
    ("STATUS", |row| plain(&row["status"])),
    ("RESERVED", |row| plain(&row["reserved"])),
    ("CREATED", |row| moment(&row["created_at_ms"])),
    ("SCOPE", |row| plain(&row["scope_path"])),
];

impl Verb {
    pub async fn run(
        self,
        client: &Client,
        output: &mut Output<impl Write>,
    ) -> Result<(), OperatorError> {
        match self {
            Self::List {
                tenant,
                status,
                limit,
            } => {
                let page = || {
                    Call::get(&["reservations"])
                        .with("tenant", Some(&tenant))
                        .with("status", status.as_ref())
                };
                let rows = client.rows(page, "reservations", Some(limit)).await?;
                output.table(COLUMNS, &rows, &format!("no reservations of {tenant}"))
            }
            Self::Show { reservation_id } => output.object(
                &client
                    .send(Call::get(&["reservations", &reservation_id]))
                    .await?,
            ),
            Self::Release {
                reservation_id,
                reason,
                idempotency_key,
            } => {
                let key = idempotency_key.unwrap_or_else(|| Uuid::new_v4().to_string());
                let mut body = json!({"idempotency_key": key});
                if let Some(reason) = reason {
                    body["reason"] = json!(reason);
                }
                let path = ["reservations", &reservation_id, "release"];
                let call = Call::new(Method::POST, &path).body(body);
                output.object(&client.send(call.once(Some(key))).await?)
            }
        }
    }
}

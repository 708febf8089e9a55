//! What a hostile tenant repeats.

use serde_json::{Value, json};

use super::hostile::{CROSSED, Hostile, METADATA_BYTES, crossed};
use crate::api::operations::OperationId;
use crate::domain::words::words;
use crate::tools::bench::requests::TTL_MS;
use crate::tools::call::Call;
use crate::tools::client_error::CallError;
use crate::tools::setup::UNIT;

words! {
    /// What the tenant repeats.
    Attack {
        /// Lists that gather and sort all rows. First, while there are not too many to sort.
        Lists = "lists",
        /// A reservation that crosses nothing, and its release: no attack, but what the others are to be compared with.
        Usual = "usual",
        /// A reservation of a whole budget that crosses every threshold, and its release.
        Crossings = "crossings",
        /// Usage events of no amount with as much `metadata` as there may be.
        Metadata = "metadata",
        /// A change of a policy, and a decision that chooses among all of them.
        Policies = "policies",
        /// Repetitions of an extension and of the creation of a reservation that was extended as often as it may be.
        Extensions = "extensions",
        /// Reservations that are denied.
        Denials = "denials",
        /// Requests of a key that lacks the permission.
        Forbidden = "forbidden",
    }
}

impl Attack {
    /// Strikes once, with all requests of this attack one after the other. `number` differs from strike to strike; those that
    /// run at the same time have other remainders by [`HOSTILE_CLIENTS`](super::HOSTILE_CLIENTS).
    pub async fn strike(self, hostile: &Hostile, number: u64) -> Result<(), CallError> {
        let client = &hostile.client;
        match self {
            Self::Usual => hostile.hold(1, "usual", number).await?,
            Self::Crossings => hostile.hold(CROSSED, "crossing", number).await?,
            Self::Metadata => {
                let mut event = hostile.charge(OperationId::CreateEvent, "actual", 0, number);
                let text = "m".repeat(METADATA_BYTES - r#"{"m":""}"#.len());
                event.body.as_mut().expect("it has one")["metadata"] = json!({"m": text});
                client.send(&event).await?;
            }
            Self::Policies => {
                let at = number as usize % hostile.policies.len();
                let change = json!({"description": format!("change {number}")});
                let change =
                    Call::to(OperationId::UpdatePolicy, &hostile.policies[at]).body(&change);
                client.send(&change).await?;
                let decide = hostile.charge(OperationId::Decide, "estimate", 1, number);
                client.send(&decide).await?;
            }
            Self::Extensions => {
                let (reserve, id, extension) = &hostile.extended;
                let extend = Call::to(OperationId::ExtendReservation, id).body(extension);
                client.send(&extend).await?;
                client
                    .send(&Call::of(OperationId::CreateReservation).body(reserve))
                    .await?;
            }
            Self::Lists => {
                let sorted = |list, by| {
                    Call::of(list)
                        .with("sort_by", Some(by))
                        .with("limit", Some(100))
                };
                client
                    .send(&sorted(OperationId::ListBudgets, "utilization"))
                    .await?;
                client
                    .send(&sorted(OperationId::ListReservations, "reserved"))
                    .await?;
            }
            Self::Denials => {
                let reserve = hostile.charge(
                    OperationId::CreateReservation,
                    "estimate",
                    2 * CROSSED,
                    number,
                );
                client.send(&reserve).await?;
            }
            Self::Forbidden => {
                let reserve = hostile.charge(OperationId::CreateReservation, "estimate", 1, number);
                hostile.fenced.send(&reserve).await?;
            }
        }
        Ok(())
    }

    /// Whether what it costs others has a bound: what an ordinary tenant costs has none.
    pub fn is_bounded(self) -> bool {
        self != Self::Usual
    }

    /// Whether a refusal with this status is what the attack is for.
    pub fn expects(self, status: u16) -> bool {
        match self {
            Self::Denials => status == 409,
            Self::Forbidden => status == 403,
            _ => false,
        }
    }
}

impl Hostile {
    /// Reserves, and releases what is held.
    async fn hold(&self, amount: i64, key: &str, number: u64) -> Result<(), CallError> {
        let mut reserve = self.charge(OperationId::CreateReservation, "estimate", amount, number);
        let body = reserve.body.as_mut().expect("it has one");
        body["idempotency_key"] = Value::from(format!("{key} {number}"));
        let made = self.client.send(&reserve).await?;
        let id = made["reservation_id"].as_str().unwrap_or_default();
        let release = json!({"idempotency_key": format!("release {number}")});
        let release = Call::to(OperationId::ReleaseReservation, id).body(&release);
        self.client.send(&release).await.map(drop)
    }

    /// A request of the runtime plane for the budget that is crossed, with its amount in `member`.
    fn charge(&self, operation: OperationId, member: &str, amount: i64, number: u64) -> Call {
        let mut body = json!({
            "idempotency_key": format!("{member} {number}"),
            "subject": {"tenant": self.tenant, "app": crossed(number)},
            "action": {"kind": "llm.completion", "name": "bench:model"},
        });
        body[member] = json!({"unit": UNIT, "amount": amount});
        if operation == OperationId::CreateReservation {
            body["ttl_ms"] = Value::from(TTL_MS);
        }
        Call::of(operation).body(&body)
    }
}

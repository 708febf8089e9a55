//! The operations of the runtime plane: each has a file with its request, its response, and the call of its script.

mod attesting;
mod balances;
mod bodies;
mod calls;
mod commit;
mod decide;
mod decisions;
mod extend;
mod facts;
mod get;
mod list;
mod policies;
mod release;
mod reserve;
pub mod statements;
mod stored_bytes;
mod target;
mod traffic;
mod usage_event;

pub use attesting::{Attesting, AttestingMetrics};
pub use balances::{BalanceFilter, BalanceQuery};
pub use bodies::commit::{CommitRequest, CommitResponse, CommitStatus};
pub use bodies::decide::{Decision, DecisionRequest, DecisionResponse, OutcomeKind};
pub use bodies::release::{ReleaseRequest, ReleaseResponse, ReleaseStatus};
pub use bodies::reserve::{ObserveMode, ReservationCreateRequest, ReservationCreateResponse};
pub use decisions::LedgerMetrics;
pub use extend::{ExtendStatus, ReservationExtendRequest, ReservationExtendResponse};
pub use get::Reservation;
pub use list::{Include, ReservationFilter, ReservationPage, ReservationQuery, ReservationSort};
pub use traffic::Traffic;
pub use usage_event::{EventCreateRequest, EventCreateResponse, EventStatus};

use std::sync::Arc;

use crate::domain::amount::{Amount, Unit};
use crate::domain::record::RecordError;
use crate::store::Store;
use policies::PolicyCache;

/// The ledger: every operation of the runtime plane. Cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    store: Store,
    stored_bytes_max: i64,
    retention_days: i64,
    policies: Arc<PolicyCache>,
    traffic: Traffic,
    metrics: LedgerMetrics,
    attesting: Option<Attesting>,
}

impl Ledger {
    /// `retention_days`: how long ended reservations are kept, which bounds how far back a list looks.
    pub fn new(store: Store, retention_days: i64) -> Self {
        Self {
            traffic: Traffic::new(store.clone()),
            store,
            stored_bytes_max: 0,
            retention_days,
            policies: Arc::new(PolicyCache::new()),
            metrics: LedgerMetrics::default(),
            attesting: None,
        }
    }

    /// The counts for detectors.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The metrics of the runtime plane.
    pub fn metrics(&self) -> &LedgerMetrics {
        &self.metrics
    }
}

/// An amount of a record or a reply; `name` is for the error.
fn amount(name: &str, unit: Unit, value: i64) -> Result<Amount, RecordError> {
    Amount::new(unit, value).ok_or_else(|| RecordError::of(name))
}

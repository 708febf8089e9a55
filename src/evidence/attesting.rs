//! Evidence of what the runtime plane decides: what a request passes to its script for it, and the references in responses.
//!
//! The script that decides queues the entry of evidence. The id of an envelope follows from what was decided, so the replica
//! computes it from the reply, and nobody waits for a signature.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use prometheus::{IntCounterVec, Opts};
use tracing::warn;

use super::envelope::{Rounded, Statement, Unsigned};
use super::issuers::Issuer;
use super::issuing::Issuing;
use super::payload::{Payload, attested_response};
use super::registry::Registry;
use super::schema::Endpoint;
use super::statements::{self, Attested};
use crate::domain::cause::Cause;
use crate::domain::evidence::{AttestedRequest, EvidenceRef, ReservationEvidence};
use crate::domain::ids::{Partition, ReservationId};
use crate::domain::payload_hash::HashedRequest;
use crate::domain::record::{Record, RecordError};
use crate::domain::reservation::Status;
use crate::store::{MemoryStep, Store, StoreError};

/// The envelope of a refusal leaves out a request longer than this, in bytes of its canonical form.
const REFUSED_REQUEST_BYTES_MAX: usize = 4096;

/// Refusals of a tenant that are attested in a minute. A refusal costs its caller nothing, an envelope a signature and about 2 KB.
const REFUSALS_PER_MINUTE: u32 = 600;

/// Attests the decisions of a replica, if evidence is on. Cheap to clone.
#[derive(Clone)]
pub struct Attesting {
    store: Store,
    issuing: Option<Issuing>,
    retention: Option<Duration>,
    /// Decisions without evidence although it is on, by reason: `budget_evidence_skipped_total`.
    pub skipped: IntCounterVec,
}

/// [`Attesting`] with the issuers by number.
pub(crate) struct Attester<'a> {
    attesting: &'a Attesting,
    registry: Arc<Registry>,
}

/// A request that is to be attested.
pub(crate) struct Draft<'a> {
    attester: Attester<'a>,
    endpoint: Endpoint,
    request: &'a AttestedRequest,
    reservation_id: Option<&'a ReservationId>,
    cause: &'a Cause,
    /// What the script gets; `None` where the envelope would round a number of the request, so that there is none.
    lines: Option<String>,
    /// Time of the draft, by the estimate of the store's clock.
    drafted_ms: i64,
}

impl Attesting {
    /// `issuing`: `None` while evidence is off. `retention`: how long envelopes are kept; `None` for ever.
    pub fn new(store: Store, issuing: Option<Issuing>, retention: Option<Duration>) -> Self {
        let options = Opts::new(
            "budget_evidence_skipped_total",
            "Decisions without evidence although it is on, by reason",
        );
        let skipped = IntCounterVec::new(options, &["reason"]);
        Self {
            store,
            issuing,
            retention,
            skipped: skipped.expect("a name and a label"),
        }
    }

    /// Whether what is decided is attested.
    pub fn is_on(&self) -> bool {
        self.issuing.is_some()
    }

    /// The issuers that attest decisions; `None` while evidence is off.
    ///
    /// # Errors
    /// [`StoreError`] until the issuers have been registered once.
    pub(crate) async fn attester(&self) -> Result<Option<Attester<'_>>, StoreError> {
        let Some(issuing) = &self.issuing else {
            return Ok(None);
        };
        let registry = issuing.registry(&self.store).await?;
        Ok(Some(Attester {
            attesting: self,
            registry,
        }))
    }

    /// A request that is to be attested; `None` while evidence is off.
    ///
    /// # Errors
    /// As for [`Attesting::attester`].
    pub(crate) async fn draft<'a>(
        &'a self,
        (partition, endpoint): (Partition, Endpoint),
        body: &'a HashedRequest<impl Sized>,
        reservation_id: Option<&'a ReservationId>,
        cause: &'a Cause,
    ) -> Result<Option<Draft<'a>>, StoreError> {
        let (Some(request), Some(attester)) = (&body.attested, self.attester().await?) else {
            return Ok(None);
        };
        let drafted_ms = self.store.clock().now_ms();
        let mut draft = Draft {
            attester,
            endpoint,
            request,
            reservation_id,
            cause,
            lines: None,
            drafted_ms,
        };
        if request.canonical.first_rounded().is_none() {
            // Refusals cost their caller nothing, so they cost no memory that is short.
            let refusals_per_minute = match self.store.memory_step(partition) {
                MemoryStep::Enough | MemoryStep::Warn => REFUSALS_PER_MINUTE,
                MemoryStep::CountDenials | MemoryStep::Refuse => 0,
            };
            draft.lines = Some(draft.script_lines(refusals_per_minute));
        }
        Ok(Some(draft))
    }

    /// The reference to what a record keeps, as the first response had it; `None` while evidence is off.
    ///
    /// # Errors
    /// As for [`Attesting::attester`].
    pub(crate) async fn replayed(
        &self,
        attested: impl FnOnce() -> Result<Option<Attested>, RecordError>,
    ) -> Result<Option<EvidenceRef>, StoreError> {
        let attester = self.attester().await?;
        Ok(attester.and_then(|attester| attester.kept(attested(), None)))
    }
}

impl Attester<'_> {
    fn skipped(&self, reason: &str) {
        let skipped = &self.attesting.skipped;
        skipped.with_label_values(&[reason]).inc();
    }

    /// The references of a reservation, as far as its envelopes are still kept.
    pub(crate) fn of_reservation(
        &self,
        id: &ReservationId,
        record: &Record,
        now_ms: i64,
    ) -> Option<ReservationEvidence> {
        let reserve = self.kept(statements::of_create(id, record), Some(now_ms));
        let end = self.kept(statements::of_end(id, record), Some(now_ms));
        if reserve.is_none() && end.is_none() {
            return None;
        }
        let is_commit = record.text("status") == Ok(Status::Committed.as_str());
        let (commit, release) = if is_commit { (end, None) } else { (None, end) };
        Some(ReservationEvidence {
            reserve,
            commit,
            release,
        })
    }

    /// The reference to what a record keeps, unless its envelope is gone by `now_ms`. A decision without evidence was
    /// counted when it was made.
    fn kept(
        &self,
        attested: Result<Option<Attested>, RecordError>,
        now_ms: Option<i64>,
    ) -> Option<EvidenceRef> {
        let Attested { inputs, statement } = match attested {
            Ok(attested) => attested?,
            Err(error) => {
                warn!(error = %error, "evidence of a record cannot be read: {error}");
                return None;
            }
        };
        let at_ms = statement.issued_at_ms;
        if let (Some(now_ms), Some(kept)) = (now_ms, self.attesting.retention) {
            let kept_ms = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
            if at_ms.saturating_add(kept_ms) <= now_ms {
                return None;
            }
        }
        let registered = self.registry.issuing_at(inputs.issuer, at_ms)?;
        let reference = reference(&registered.issuer, &statement).ok()?;
        // No dispatcher signs a statement from a damaged record.
        match statement.check() {
            Ok(()) => Some(reference),
            Err(misfit) => {
                warn!(error = %misfit, "evidence of a record cannot be computed: {misfit}");
                None
            }
        }
    }
}

/// The reference to a statement.
fn reference(issuer: &Issuer, statement: &Statement) -> Result<EvidenceRef, Rounded> {
    let unsigned = Unsigned::new(issuer, statement)?;
    let id = unsigned.evidence_id();
    let url = issuer.server_id.url_of(id);
    Ok(EvidenceRef::new(issuer.dialect, id.to_owned(), url))
}

impl Draft<'_> {
    /// The lines for the script; `lua/lib/evidence/queue.lua` has the form.
    fn script_lines(&self, refusals_per_minute: u32) -> String {
        // Only outcomes without a record, and refusals, need the request in the entry.
        let has_record = self.endpoint != Endpoint::Decide && !self.request.is_dry_run;
        let canonical = self.request.canonical.as_str();
        let kept = match has_record && canonical.len() > REFUSED_REQUEST_BYTES_MAX {
            true => "",
            false => canonical,
        };
        let mut lines = self.attester.registry.choice(self.drafted_ms);
        let _ = write!(
            lines,
            "\n{}\n{}\n{}\n{}\n{refusals_per_minute}\n{kept}",
            statements::traced(&self.cause.trace_id, &self.request.named),
            self.request.digest,
            self.request_id(),
            self.endpoint.as_str(),
        );
        lines
    }

    fn request_id(&self) -> &str {
        let request_id = self.cause.request_id.as_ref();
        request_id.map_or("", |id| id.as_str())
    }

    /// What the script gets; `None` where there will be no evidence. What an outcome without a record keeps of the request
    /// has as many bytes.
    pub(crate) fn lines(&self) -> Option<&str> {
        self.lines.as_deref()
    }

    /// The reference to a success of the store's time `at_ms`.
    pub(crate) fn of_response(
        &self,
        at_ms: i64,
        response: &impl serde::Serialize,
    ) -> Option<EvidenceRef> {
        let response = attested_response(response)?;
        let request = self.request.canonical.clone();
        let id = self.reservation_id.map(ToString::to_string);
        let payload = Payload::success(self.endpoint, id, request, response);
        self.reference(at_ms, payload)
    }

    /// The error of a refusal, with the reference to evidence of it where the script queued an entry at `at_ms`.
    pub(crate) fn of_error(&self, at_ms: Option<i64>, error: StoreError) -> StoreError {
        let StoreError::Refusal(refusal) = error else {
            return error;
        };
        let Some(evaluated) = refusal.evaluated() else {
            return refusal.into();
        };
        let Some(at_ms) = at_ms else {
            let registry = &self.attester.registry;
            let signer = registry.chosen(self.drafted_ms, self.drafted_ms);
            self.attester.skipped(match (&self.lines, signer) {
                (None, _) => "unrepresentable_number",
                (Some(_), None) => "no_issuer",
                (Some(_), Some(_)) => "rate",
            });
            return refusal.into();
        };
        let request = &self.request.canonical;
        let request =
            (request.as_str().len() <= REFUSED_REQUEST_BYTES_MAX).then(|| request.clone());
        let reservation_id = self.reservation_id.map(ToString::to_string);
        let payload = statements::error(
            self.endpoint,
            evaluated,
            request,
            reservation_id,
            (self.request_id(), &self.cause.trace_id),
        );
        let reference = |payload| self.reference(at_ms, payload);
        match payload.ok().and_then(reference) {
            Some(reference) => StoreError::Attested(refusal, Box::new(reference)),
            None => refusal.into(),
        }
    }

    /// `None` where no envelope can have it, which is counted.
    fn reference(&self, issued_at_ms: i64, payload: Payload) -> Option<EvidenceRef> {
        // The script's choice from the same issuers: it has queued an entry of that issuer, or none.
        let registry = &self.attester.registry;
        let registered = registry.chosen(self.drafted_ms, issued_at_ms);
        let (Some(_), Some(registered)) = (&self.lines, registered) else {
            self.attester.skipped(match &self.lines {
                Some(_) => "no_issuer",
                None => "unrepresentable_number",
            });
            return None;
        };
        let statement = Statement {
            issued_at_ms,
            trace_id: Some(self.cause.trace_id.clone()),
            payload,
        };
        let reference = reference(&registered.issuer, &statement);
        if reference.is_err() {
            self.attester.skipped("unrepresentable_number");
        }
        debug_assert!(reference.is_err() || statement.check() == Ok(()));
        reference.ok()
    }
}

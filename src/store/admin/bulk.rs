//! `bulk_claim.lua` and `bulk_finish.lua`: the claim of a bulk action, and its end.

use std::time::Duration;

use crate::domain::bulk::Bulk;
use crate::domain::ids::{Partition, hex};
use crate::domain::record::{Record, RecordError};
use crate::store::signature::{FlatRecord, Refused, signature};
use crate::store::{Lane, Pair, ScriptError, Store, StoreError, outcome};

signature! {
    /// Decides who does a bulk action. The claim holds what is to be done, frozen: the rows, the request cause, the payload
    /// hash. The holder of its lease does the rows; when the lease is over, any process may take it and resume.
    ///
    /// look: takes the lease of a claim that nobody has. begin: makes the claim where there is none. resume: like look, for a
    /// worker. renew: for the holder of the lease.
    BULK_CLAIM: BulkClaimCall -> BulkClaimReply = "admin/bulk_actions/bulk_claim", flags "allow-oom";
    names { partition: Partition, tenant: &'a str, digest: &'a str }
    keys of partition { write bulk(tenant, digest), bulks(); }
    args {
        /// look, begin, resume or renew.
        mode: &'a str,
        /// The entry in the index `bulks`.
        member: String,
        /// '' for a worker.
        payload_hash: &'a str,
        lease_ms: Duration,
        /// Names and values of a new claim.
        fields: Vec<Pair>,
    }
    replies {
        idempotency_mismatch, replayed: Replayed { response: String, in_progress: bool }, busy: Busy, none: Nothing,
        renewed: Renewed, claimed: Claimed { now_ms: i64, record: FlatRecord },
    }
    writes "On claimed and renewed: the lease; a new claim. On none, for a worker: the entry of the index goes."
}

signature! {
    /// Ends a bulk action whose rows all have an outcome: keeps the response for those who ask again, and writes the audit
    /// entry, in one step and once. The response may be another's, if that ended the action before.
    BULK_FINISH: BulkFinish -> BulkFinishReply = "admin/bulk_actions/bulk_finish", flags "allow-oom";
    names { partition: Partition, owner: &'a str, digest: &'a str }
    keys of partition {
        write bulk(owner, digest), bulks(), idempotency_due(), tenant_key: tenant(tenant), audit_log: audit(tenant, day), chain(tenant), days(),
            unsealed();
    }
    args {
        day,
        /// The entry in the index `bulks`.
        member: String,
        /// The tenant of the audit entry, or a sentinel.
        tenant: &'a str,
        response: &'a str,
        /// Whether a close has not ended.
        in_progress: bool,
        /// For so long the response is kept.
        keep_ms: Duration,
        /// Names and values of the audit entry, except how long it took.
        audit: &'a [Pair],
    }
    replies { clock, none: Nothing, finished: Finished { response: String, in_progress: bool } }
    writes "On finished: the claim, the index, the audit entry; nothing where it was finished before."
}

/// How long the response to a bulk action is kept.
const KEEP: Duration = Duration::from_secs(15 * 60);

/// Where the claim of a bulk action lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkPlace {
    /// That of the tenant.
    pub partition: Partition,
    /// The owner of the idempotency key: a tenant, or the sentinel of what concerns many.
    pub tenant: String,
    /// Digest of operation and idempotency key.
    pub digest: String,
}

impl BulkPlace {
    /// As the index of unfinished actions has it.
    pub fn member(&self) -> String {
        format!("{}:{}", self.tenant, self.digest)
    }

    /// From an entry of that index.
    pub fn of_member(partition: Partition, member: &str) -> Option<Self> {
        let (tenant, digest) = member.split_once(':')?;
        Some(Self {
            partition,
            tenant: tenant.to_owned(),
            digest: digest.to_owned(),
        })
    }
}

/// A bulk action with a lease.
#[derive(Debug, Clone)]
pub struct BulkClaim {
    /// Where it lies.
    pub place: BulkPlace,
    /// Names it among all claims ever made; the outcomes of its rows are kept under it.
    pub id: String,
    /// How long ago it was made, in milliseconds.
    pub age_ms: i64,
    /// The requested action.
    pub bulk: Bulk,
}

/// A stored response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkResponse {
    /// JSON.
    pub body: String,
    /// Whether the close of a tenant was in progress at the response.
    pub in_progress: bool,
}

/// The state of a bulk action.
#[derive(Debug)]
pub enum BulkState {
    /// Nobody has begun it.
    None,
    /// The key was first used with another request.
    Mismatch,
    /// Somebody is at it.
    Busy,
    /// It is done.
    Done(BulkResponse),
    /// The caller has the lease now.
    Mine(Box<BulkClaim>),
    /// Its claim cannot be read.
    Unreadable(RecordError),
}

/// The purpose of a claim.
#[derive(Debug, Clone, Copy)]
pub enum BulkMode<'a> {
    /// The state of the action of a request with this payload hash; takes the lease if it is free.
    Look(&'a str),
    /// To begin the action, unless that is done.
    Begin(&'a str, &'a Bulk),
    /// The lease of an action that nobody has, whatever its request.
    Resume,
    /// To move the end of the caller's lease; with nothing left of it, others resume at once.
    Renew,
}

impl Store {
    /// Asks for the claim of a bulk action.
    pub async fn claim_bulk(
        &self,
        place: &BulkPlace,
        mode: BulkMode<'_>,
        lease: Duration,
    ) -> Result<BulkState, StoreError> {
        let (word, payload_hash, fields) = match mode {
            BulkMode::Look(payload_hash) => ("look", payload_hash, Vec::new()),
            BulkMode::Begin(payload_hash, bulk) => {
                let id: [u8; 16] = rand::random();
                let id = hex(&id);
                let fields = std::iter::once(("id", id)).chain(bulk.fields());
                ("begin", payload_hash, fields.collect())
            }
            BulkMode::Resume => ("resume", "", Vec::new()),
            BulkMode::Renew => ("renew", "", Vec::new()),
        };
        let call = BulkClaimCall {
            partition: place.partition,
            tenant: &place.tenant,
            digest: &place.digest,
            mode: word,
            member: place.member(),
            payload_hash,
            lease_ms: lease,
            fields,
        };
        let reply = match self.run(Lane::Background, &call).await {
            Err(ScriptError::Refused(Refused::IdempotencyMismatch, _)) => {
                return Ok(BulkState::Mismatch);
            }
            reply => outcome(reply)?,
        };
        Ok(match reply {
            BulkClaimReply::Replayed {
                response: body,
                in_progress,
            } => BulkState::Done(BulkResponse { body, in_progress }),
            BulkClaimReply::Busy => BulkState::Busy,
            BulkClaimReply::Nothing | BulkClaimReply::Renewed => BulkState::None,
            BulkClaimReply::Claimed { now_ms, record } => match claim(place, now_ms, &record.0) {
                Ok(claim) => BulkState::Mine(Box::new(claim)),
                Err(error) => BulkState::Unreadable(error),
            },
        })
    }

    /// Ends a bulk action: stores its response and its audit entry, names and values, in one step. The response is the first one
    /// that was stored; `None` where that has been forgotten already.
    pub async fn finish_bulk(
        &self,
        claim: &BulkClaim,
        given: &BulkResponse,
        audit: &[(&'static str, String)],
    ) -> Result<Option<BulkResponse>, StoreError> {
        let place = &claim.place;
        let call = BulkFinish {
            partition: place.partition,
            owner: &place.tenant,
            digest: &place.digest,
            member: place.member(),
            tenant: claim.bulk.audit_tenant.as_str(),
            response: &given.body,
            in_progress: given.in_progress,
            keep_ms: KEEP,
            audit,
        };
        Ok(match outcome(self.run(Lane::Request, &call).await)? {
            BulkFinishReply::Finished {
                response: body,
                in_progress,
            } => Some(BulkResponse { body, in_progress }),
            BulkFinishReply::Nothing => None,
        })
    }
}

fn claim(place: &BulkPlace, now_ms: i64, record: &Record) -> Result<BulkClaim, RecordError> {
    Ok(BulkClaim {
        place: place.clone(),
        id: record.text("id")?.to_owned(),
        age_ms: now_ms - record.integer("begun_ms")?,
        bulk: Bulk::from_record(record)?,
    })
}

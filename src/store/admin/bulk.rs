//! `bulk_claim.lua` and `bulk_finish.lua`: who does a bulk action, and how it ends.

use std::time::Duration;

use crate::domain::bulk::Bulk;
use crate::domain::ids::Partition;
use crate::domain::record::{Record, RecordError};
use crate::driver::clock::Day;
use crate::store::admin::push_day;
use crate::store::dispatcher::poll::Due;
use crate::store::scripts::{BULK_CLAIM, BULK_FINISH};
use crate::store::{Arg, Lane, Reply, Store, StoreError};

/// For so long the answer to a bulk action is kept.
const KEEP: Duration = Duration::from_secs(15 * 60);

/// Where the claim of a bulk action lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkPlace {
    /// That of the tenant.
    pub partition: Partition,
    /// Within which idempotency keys are told apart: a tenant, or the sentinel of what concerns many.
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

/// A bulk action that somebody has the lease of.
#[derive(Debug, Clone)]
pub struct BulkClaim {
    /// Where it lies.
    pub place: BulkPlace,
    /// Names it among all claims ever made; what became of its rows is kept under it.
    pub id: String,
    /// How long ago it was made, in milliseconds.
    pub age_ms: i64,
    /// What is to be done.
    pub bulk: Bulk,
}

/// An answer that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkAnswer {
    /// JSON.
    pub body: String,
    /// Whether the close of a tenant went on when it was given.
    pub in_progress: bool,
}

/// How a bulk action stands.
#[derive(Debug)]
pub enum BulkState {
    /// Nobody has begun it.
    None,
    /// The key was first used with another request.
    Mismatch,
    /// Somebody is at it.
    Busy,
    /// It is done.
    Done(BulkAnswer),
    /// The caller has the lease now.
    Mine(Box<BulkClaim>),
    /// Its claim cannot be read.
    Unreadable(RecordError),
}

/// What a claim is asked for.
#[derive(Clone, Copy)]
enum Mode<'a> {
    Look(&'a str),
    Begin(&'a str, &'a Bulk),
    Resume,
    Renew,
}

impl Store {
    /// How a bulk action stands; takes the lease if nobody has it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn look_for_bulk(
        &self,
        place: &BulkPlace,
        payload_hash: &str,
        lease: Duration,
    ) -> Result<BulkState, StoreError> {
        self.claim_bulk(place, Mode::Look(payload_hash), lease)
            .await
    }

    /// Claims a bulk action, unless somebody has.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn begin_bulk(
        &self,
        place: &BulkPlace,
        payload_hash: &str,
        bulk: &Bulk,
        lease: Duration,
    ) -> Result<BulkState, StoreError> {
        self.claim_bulk(place, Mode::Begin(payload_hash, bulk), lease)
            .await
    }

    /// Takes the lease of a bulk action that nobody has, whatever its request.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn resume_bulk(
        &self,
        place: &BulkPlace,
        lease: Duration,
    ) -> Result<BulkState, StoreError> {
        self.claim_bulk(place, Mode::Resume, lease).await
    }

    /// Moves the end of the caller's lease; with nothing left of it, others go on at once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn renew_bulk(&self, place: &BulkPlace, lease: Duration) -> Result<(), StoreError> {
        self.claim_bulk(place, Mode::Renew, lease).await.map(drop)
    }

    async fn claim_bulk(
        &self,
        place: &BulkPlace,
        mode: Mode<'_>,
        lease: Duration,
    ) -> Result<BulkState, StoreError> {
        let keys = self.keys();
        let key_names = [
            keys.bulk(place.partition, &place.tenant, &place.digest),
            keys.bulks(place.partition),
        ];
        let (word, payload_hash) = match mode {
            Mode::Look(payload_hash) => ("look", payload_hash),
            Mode::Begin(payload_hash, _) => ("begin", payload_hash),
            Mode::Resume => ("resume", ""),
            Mode::Renew => ("renew", ""),
        };
        let lease_ms = lease.as_millis().to_string();
        let mut args = [word, &place.member(), payload_hash, &lease_ms]
            .map(str::to_owned)
            .to_vec();
        if let Mode::Begin(_, bulk) = mode {
            let id: [u8; 16] = rand::random();
            let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
            args.extend(["id".to_owned(), id]);
            let fields = bulk.fields().into_iter();
            args.extend(fields.flat_map(|(name, value)| [name.to_owned(), value]));
        }
        let args: Vec<Arg<'_>> = args.iter().map(Arg::from).collect();
        let reply = self
            .call_on(Lane::Background, &BULK_CLAIM, &key_names, &args)
            .await?;
        let mut reply = Reply::new(&BULK_CLAIM, reply)?;
        Ok(match reply.next_str()?.as_str() {
            "idempotency_mismatch" => BulkState::Mismatch,
            "replayed" => BulkState::Done(answer(&mut reply)?),
            "busy" => BulkState::Busy,
            "none" | "renewed" => BulkState::None,
            "claimed" => {
                let now_ms = reply.next_i64()?;
                let record = Record::from_pairs(reply.rest()?);
                match claim(place, now_ms, &record) {
                    Ok(claim) => BulkState::Mine(Box::new(claim)),
                    Err(error) => BulkState::Unreadable(error),
                }
            }
            other => return Err(reply.unknown(other)),
        })
    }

    /// Ends a bulk action: stores its answer and its audit entry, names and values, in one step. The answer is the first one
    /// that was stored; `None` where that has been forgotten already.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn finish_bulk(
        &self,
        claim: &BulkClaim,
        given: &BulkAnswer,
        audit: &[(&'static str, String)],
    ) -> Result<Option<BulkAnswer>, StoreError> {
        let (keys, place) = (self.keys(), &claim.place);
        let (partition, tenant) = (place.partition, claim.bulk.audit_tenant.as_str());
        let build = |day: Day| {
            let key_names = vec![
                keys.bulk(partition, &place.tenant, &place.digest),
                keys.bulks(partition),
                keys.tenant(partition, tenant),
                keys.audit(partition, tenant, day),
                keys.chain(partition, tenant),
                keys.days(partition),
                keys.unsealed(partition),
            ];
            let mut args = vec![place.member(), tenant.to_owned()];
            push_day(&mut args, day);
            args.push(given.body.clone());
            args.push(if given.in_progress { "1" } else { "0" }.to_owned());
            args.push(KEEP.as_millis().to_string());
            args.extend(
                audit
                    .iter()
                    .flat_map(|(name, value)| [(*name).to_owned(), value.clone()]),
            );
            (key_names, args)
        };
        let (word, mut reply) = self.admin_call(&BULK_FINISH, build).await?;
        match word.as_str() {
            "finished" => answer(&mut reply).map(Some),
            "none" => Ok(None),
            other => Err(reply.unknown(other)),
        }
    }

    /// The bulk actions of each partition that others go on with next, at most `rows` of each; `None` where Redis gave no
    /// answer.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn poll_bulks(
        &self,
        partitions: &[Partition],
        rows: usize,
    ) -> Result<Vec<Option<Vec<Due>>>, StoreError> {
        let key = |partition: &Partition| self.keys().bulks(*partition);
        self.poll(partitions.iter().map(key), rows).await
    }
}

fn answer(reply: &mut Reply) -> Result<BulkAnswer, StoreError> {
    Ok(BulkAnswer {
        body: reply.next_str()?,
        in_progress: reply.next_str()? == "1",
    })
}

fn claim(place: &BulkPlace, now_ms: i64, record: &Record) -> Result<BulkClaim, RecordError> {
    Ok(BulkClaim {
        place: place.clone(),
        id: record.text("id")?.to_owned(),
        age_ms: now_ms - record.integer("begun_ms")?,
        bulk: Bulk::from_record(record)?,
    })
}

//! Makes envelopes of entries: no I/O.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use crate::domain::ids::{EvidenceId, TenantId};
use crate::domain::scope::tenant_as_sent;
use crate::evidence::statements::{EntryFault, of_entry};
use crate::evidence::{Issuing, Registry, SigningKey, Unsigned};
use crate::store::evidence::unsigned::{Queued, UnsignedEntry};

/// Fewer entries are not worth another core.
const PART_MIN: usize = 32;

/// Issuers and their keys.
#[derive(Clone)]
pub(super) struct Signers {
    /// Issuers by number.
    pub registry: Arc<Registry>,
    /// Issuers as they are configured.
    pub issuing: Issuing,
    /// Key pairs of this process.
    pub keys: Arc<[SigningKey]>,
}

/// The outcome for an entry.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Id and bytes of its envelope, and whose it is.
    Signed(EvidenceId, String, Option<TenantId>),
    /// No envelope: the canonical form would round a number.
    Rounded,
    /// Only another dispatcher, or a later release, can sign it. The id of its envelope, where its issuer is known; the reason.
    Unknown(Option<EvidenceId>, String),
    /// Nobody can sign it; the reason.
    Damaged(String),
}

/// Signs entries on all cores, off the threads that serve connections.
pub(super) async fn sign(
    signers: &Signers,
    mut entries: Vec<UnsignedEntry>,
) -> Vec<(Queued, Outcome)> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    let each = entries.len().div_ceil(cores).max(PART_MIN);
    let mut parts = Vec::new();
    while !entries.is_empty() {
        let rest = entries.split_off(each.min(entries.len()));
        let part = std::mem::replace(&mut entries, rest);
        let signers = signers.clone();
        parts.push(tokio::task::spawn_blocking(move || {
            let outcome = |entry: UnsignedEntry| (entry.place, outcome(&signers, &entry));
            part.into_iter().map(outcome).collect::<Vec<_>>()
        }));
    }
    let mut signed = Vec::new();
    for part in parts {
        signed.extend(part.await.expect("signing does not panic"));
    }
    signed
}

fn outcome(signers: &Signers, entry: &UnsignedEntry) -> Outcome {
    let attested = match of_entry(&entry.facts, &entry.record) {
        Ok(attested) => attested,
        Err(unknown @ EntryFault::UnknownFormat(_)) => {
            return Outcome::Unknown(None, unknown.to_string());
        }
        Err(fault) => return Outcome::Damaged(fault.to_string()),
    };
    let (number, at_ms) = (attested.inputs.issuer, attested.statement.issued_at_ms);
    let Some(registered) = signers.registry.issuing_at(number, at_ms) else {
        let why =
            format!("the registry has no issuer {number} that signs what was decided at {at_ms}");
        return Outcome::Unknown(None, why);
    };
    let issuer = &registered.issuer;
    let Ok(unsigned) = Unsigned::new(issuer, &attested.statement) else {
        return Outcome::Rounded;
    };
    if let Err(misfit) = attested.statement.check() {
        return Outcome::Damaged(misfit.to_string());
    }
    let id = EvidenceId::parse(unsigned.evidence_id()).expect("64 digits");
    match registered.key_of(signers.issuing.issuers(), &signers.keys) {
        Some(key) => Outcome::Signed(id, unsigned.sign(key), tenant_of(entry)),
        None => {
            let (signer, server_id) = (&issuer.signer, issuer.server_id.as_str());
            let why = format!("this dispatcher has no seed for {signer} of {server_id}");
            Outcome::Unknown(Some(id), why)
        }
    }
}

/// The tenant that an entry is of: a refusal names it, the scope of all else begins with it.
fn tenant_of(entry: &UnsignedEntry) -> Option<TenantId> {
    let named = |name| entry.facts.get(name).or(entry.record.get(name));
    let in_scope = || tenant_as_sent(named("scope_path")?).ok();
    TenantId::parse(named("tenant").or_else(in_scope)?)
}

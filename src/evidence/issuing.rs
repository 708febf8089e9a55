//! The issuers of this process, by the numbers that records name them by.
//!
//! A number and its window are fixed once they are registered; only an open end may be closed, far enough ahead. So however many
//! replicas start, and in whatever order, at any time one issuer signs or none, and a window never shrinks below what was
//! signed in it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::issuers::{Issuer, Issuers, ServerId, Signer};
use super::registry::{Registered, Registry};
use crate::store::evidence::{RegisterIssuers, RegisterIssuersReply};
use crate::store::{Counted, Lane, Store, StoreError, Unavailable, outcome};

/// How far ahead the end of an open window must lie, and the start of a key that is to follow one that signs: by then every
/// process has the new configuration, or has read here that the window ends.
pub const AHEAD: Duration = Duration::from_secs(600);

/// How often a process should read the registry again, see [`Issuing::refresh`]. Several times within [`AHEAD`], and soon after a
/// failover that lost it, before a process without memory of it gives numbers anew.
pub const REFRESH_EVERY: Duration = Duration::from_secs(10);

/// How long after the call that reads it the registry is believed: as long as an end that was added since surely lies ahead, less the
/// time that a request may take.
const BELIEVED_FOR: Duration = AHEAD.saturating_sub(Duration::from_secs(60));

/// The word for no end.
const OPEN: &str = "open";

/// Registers the issuers of a configuration, as far as they are new, and reads all that were ever registered. What the store
/// has lost of the `known` ones is written again, with the same numbers.
///
/// # Errors
/// [`StoreError::Deployment`] says what contradicts the registry: then this process must not sign. Others when Redis cannot be
/// asked.
pub async fn register_issuers(
    store: &Store,
    issuers: &Issuers,
    known: &Registry,
) -> Result<Registry, StoreError> {
    let keys = &issuers.key_set().keys;
    let mut given = Vec::with_capacity(keys.len() * 5);
    for listed in keys {
        let [issuer, other] = issuers.both_issuers(listed);
        given.extend(words(listed.from_ms, listed.until_ms, &issuer));
        given.push(other.signer.to_string());
    }
    let mut before = Vec::new();
    for one in known.all() {
        before.push(one.number.to_string());
        before.extend(words(one.from_ms, one.until_ms, &one.issuer));
    }
    let call = RegisterIssuers {
        known: Counted(&before),
        ahead_ms: i64::try_from(AHEAD.as_millis()).unwrap_or(i64::MAX),
        given: &given,
    };
    let refuse = |why: String| Err(StoreError::Deployment(why));
    match outcome(store.run(Lane::Background, &call).await)? {
        RegisterIssuersReply::Recorded { issuers: stored } => registry(issuers, &stored),
        RegisterIssuersReply::Damaged { number } => refuse(damaged(&number)),
        RegisterIssuersReply::Renumbered { number } => refuse(renumbered(&number)),
        RegisterIssuersReply::Contradicted {
            rule,
            given,
            registered,
            now_ms,
        } => {
            let at = usize::try_from(given - 1).unwrap_or(usize::MAX);
            let kid = keys.get(at).map_or("", |listed| listed.kid.as_str());
            let registered = registered.unwrap_or_default();
            refuse(contradiction(&rule, kid, &registered, now_ms))
        }
    }
}

/// The issuers of this process and their numbers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Issuing(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    issuers: Issuers,
    believed_for: Duration,
    known: RwLock<Option<Known>>,
    /// Held while they are registered, so that one caller does it.
    registering: Mutex<()>,
}

/// The registry as it was read last.
#[derive(Debug, Clone)]
struct Known {
    registry: Arc<Registry>,
    sent_at: Instant,
}

impl Issuing {
    /// Of this configuration; registers nothing yet.
    pub fn new(issuers: Issuers) -> Self {
        Self::believing(issuers, BELIEVED_FOR)
    }

    /// The same, with another time for which the registry is believed after it was read.
    pub fn believing(issuers: Issuers, believed_for: Duration) -> Self {
        Self(Arc::new(Inner {
            issuers,
            believed_for,
            known: RwLock::default(),
            registering: Mutex::default(),
        }))
    }

    /// As they are configured.
    pub fn issuers(&self) -> &Issuers {
        &self.0.issuers
    }

    /// With their numbers. The first caller registers them, others wait for it. Where it is [stale](Self::is_stale), none of them
    /// issues.
    ///
    /// # Errors
    /// As for [`register_issuers`]; also when the request has no time left to wait.
    pub async fn registry(&self, store: &Store) -> Result<Arc<Registry>, StoreError> {
        if let Some(registry) = self.believed() {
            return Ok(registry);
        }
        // While Redis is out of reach, each caller in turn would wait as long as the first.
        let waiting = store.begin_call()?;
        let locked = timeout_at(waiting.deadline, self.0.registering.lock()).await;
        drop(waiting);
        let _one = locked.map_err(|_| Unavailable::TimeIsUp)?;
        match self.believed() {
            Some(registry) => Ok(registry),
            None => {
                let registry = self.register(store).await?;
                warn_of_unlisted(&registry, self.issuers());
                warn_of_other_forms(&registry, self.issuers());
                Ok(registry)
            }
        }
    }

    /// Reads the registry again, so that this process stops in time to sign with a key whose window another configuration has
    /// closed, and knows the issuers of other configurations. Writes again what a failover lost. What it knew stays when that
    /// fails.
    ///
    /// # Errors
    /// As for [`register_issuers`].
    pub async fn refresh(&self, store: &Store) -> Result<(), StoreError> {
        let _one = self.0.registering.lock().await;
        self.register(store).await.map(drop)
    }

    /// Whether the registry was read too long ago: since then a key that signs may have got an end, and another one may have
    /// taken over.
    pub fn is_stale(&self) -> bool {
        self.known().is_some_and(|known| self.has_aged(&known))
    }

    async fn register(&self, store: &Store) -> Result<Arc<Registry>, StoreError> {
        let known = self.known().map(|known| known.registry).unwrap_or_default();
        let sent_at = Instant::now();
        let registry = Arc::new(register_issuers(store, &self.0.issuers, &known).await?);
        *self.0.known.write() = Some(Known {
            registry: Arc::clone(&registry),
            sent_at,
        });
        Ok(registry)
    }

    fn believed(&self) -> Option<Arc<Registry>> {
        let known = self.known()?;
        Some(match self.has_aged(&known) {
            true => Arc::new(known.registry.silent()),
            false => known.registry,
        })
    }

    fn has_aged(&self, known: &Known) -> bool {
        known.sent_at.elapsed() >= self.0.believed_for
    }

    fn known(&self) -> Option<Known> {
        self.0.known.read().clone()
    }
}

/// Without its key in the published set, nobody can know who signed an envelope.
fn warn_of_unlisted(registry: &Registry, issuers: &Issuers) {
    for one in registry.earlier() {
        let issuer = &one.issuer;
        if issuer.server_id == *issuers.server_id() {
            let signer = &issuer.signer;
            warn!(
                evidence.signer = %signer,
                "the evidence key {signer} is registered, but not configured here: its envelopes are not authentic by the key set of \
                 this process; list it in BUDGET_EVIDENCE_KEYS"
            );
        }
    }
}

/// After a change of the form, operators may expect another name in envelopes than the registered one.
fn warn_of_other_forms(registry: &Registry, issuers: &Issuers) {
    for one in registry.all().filter(|one| one.until_ms.is_none()) {
        let Some(listed) = issuers.listed(&one.issuer, one.from_ms) else {
            continue;
        };
        let (signer, other) = (&one.issuer.signer, issuers.issuer(listed).signer);
        if *signer != other {
            warn!(
                evidence.signer = %signer,
                "the evidence key `{}` is registered as {signer} and keeps that name in envelopes, whatever BUDGET_EVIDENCE_SIGNER \
                 says: the other form takes a new key",
                listed.kid
            );
        }
    }
}

/// The registry as it is stored; the present configuration says which of them issue.
fn registry(issuers: &Issuers, stored: &[(i64, String)]) -> Result<Registry, StoreError> {
    let (mut issuing, mut earlier) = (Vec::new(), Vec::new());
    for (number, text) in stored {
        let read = registered(issuers, *number, text);
        let read = read.ok_or_else(|| StoreError::Deployment(damaged(&number.to_string())))?;
        match issuers.listed(&read.issuer, read.from_ms) {
            Some(_) => issuing.push(read),
            None => earlier.push(read),
        }
    }
    issuing.sort_by_key(|one| one.from_ms);
    Ok(Registry::new(issuing, earlier))
}

fn registered(issuers: &Issuers, number: i64, text: &str) -> Option<Registered> {
    let mut words = text.split(' ');
    let (from_ms, until_ms) = (words.next()?.parse().ok()?, words.next()?);
    let (server_id, signer) = (words.next()?, words.next()?);
    Some(Registered {
        number: u32::try_from(number).ok()?,
        issuer: Issuer {
            dialect: issuers.dialect(),
            server_id: ServerId::parse(server_id).ok()?,
            signer: Signer::parse(signer)?,
        },
        from_ms,
        until_ms: match until_ms {
            OPEN => None,
            until_ms => Some(until_ms.parse().ok()?),
        },
    })
}

/// A window and an issuer, as the script takes them.
fn words(from_ms: i64, until_ms: Option<i64>, issuer: &Issuer) -> [String; 4] {
    [
        from_ms.to_string(),
        until_ms.map_or_else(|| OPEN.to_owned(), |until_ms| until_ms.to_string()),
        issuer.server_id.as_str().to_owned(),
        issuer.signer.to_string(),
    ]
}

fn damaged(number: &str) -> String {
    format!(
        "the issuer {number} of the registry of evidence cannot be read: restore the key of `issuers` from a backup"
    )
}

fn renumbered(number: &str) -> String {
    format!(
        "the registry of evidence was lost and begun anew: the issuer {number} is another than this process knows. Restore the key \
         of `issuers` from a backup, or stop the processes that started since and remove it: those that run on write it again"
    )
}

/// What to say of a configuration that contradicts the registry. `registered`: the window in question, behind its server id where
/// that is another one.
fn contradiction(rule: &str, kid: &str, registered: &str, now_ms: i64) -> String {
    let ahead = AHEAD.as_secs() / 60;
    let why = match rule {
        "from" => format!(
            "it is registered with the window {registered}, and the start of a window never changes: configure that one"
        ),
        "until" => format!(
            "it is registered with the window {registered}, and the end of a window never changes once it has one: configure that one"
        ),
        "ends_too_soon" => format!(
            "it is registered with the window {registered}, and an end that is added must lie {ahead} minutes ahead, so that every \
             process learns of it in time: choose a later one"
        ),
        "starts_too_soon" => format!(
            "another key signs at present, with the window {registered}, so the start of a new one must lie {ahead} minutes ahead: \
             choose a later one"
        ),
        "overlap" => format!(
            "its window overlaps the window {registered} that is registered for another key: at any time one key signs; give that \
             one an end, or this one a later start"
        ),
        "server_id" => format!(
            "its window overlaps one that is registered under another server id ({registered}), by which decisions are to be signed: \
             configure that BUDGET_EVIDENCE_SERVER_ID again; docs/evidence-keys.md says how to move to another one"
        ),
        other => format!("the registry refuses it: {other} {registered}"),
    };
    format!("the evidence key `{kid}` contradicts what is registered (at {now_ms}): {why}")
}
